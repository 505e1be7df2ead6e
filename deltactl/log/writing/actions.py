"""The actions of a commit, and their encoding as the content of the commit file.

Row ids are assigned here, above the table's high-water mark. Source: PROTOCOL.md, "Actions",
"Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN, RowIds, assign_row_ids
from deltactl.protocol.action_nodes import (
    encode_domain,
    encode_metadata,
    encode_protocol,
    encode_txn,
)
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltactl.protocol.arrow_schemas import (
    DELETION_VECTOR_JSON_NAMES,
    DELETION_VECTOR_TYPE,
    JSON_NAMES,
    REMOVE_SCHEMA,
    replace_column,
)
from deltactl.protocol.deletion_vectors import DeletionVector
from deltactl.protocol.paths import encode_path

ENABLEMENT_VERSION: Final = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP: Final = "delta.inCommitTimestampEnablementTimestamp"

# So many rows are Python objects at the same time.
_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """What a commit does, and how its ``commitInfo`` describes it.

    Attributes:
        description: of the commit.
        read_version: the version from which the commit was prepared; -1 for a new table.
        protocol: the new protocol; ``None``: unchanged.
        metadata: the new metadata; ``None``: unchanged.
        enables_timestamps: whether ``metadata`` turns on in-commit timestamps, from this commit on.
        added: the files to add: new ones, or rows of ``ADD_SCHEMA``, which keep their row ids.
        adds_rows: whether ``added`` changes the rows of the table; for new files.
        removed: the files to remove: rows of ``REMOVE_SCHEMA``, without the time of the deletion.
        domains: the domain metadata to write.
        txn: the transaction identifier to write.
    """

    description: Description
    read_version: int
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    enables_timestamps: bool = False
    added: Sequence[NewFile] | pa.Table = field(default=(), repr=False)
    adds_rows: bool = True
    removed: pa.Table | None = field(default=None, repr=False)
    domains: tuple[DomainMetadata, ...] = ()
    txn: Txn | None = None

    def dated(self, base: CommitBase, times: Mapping[str, Any]) -> Actions:
        """Return the actions with the times that depend on the commit.

        They are the time at which files are removed, and the properties that say from when
        timestamps are enabled. Any vacuum deletes the removed files a retention later. So a clock
        that is behind must not date a deletion before the previous commit.
        """
        removed, metadata = self.removed, self.metadata
        if removed is not None:
            place = REMOVE_SCHEMA.get_field_index("deletion_timestamp_ms")
            deleted_ms = pa.scalar(max(times["timestamp"], base.dated_ms), pa.int64())
            dates = pa.repeat(deleted_ms, removed.num_rows)
            removed = removed.set_column(place, REMOVE_SCHEMA.field(place), dates)
        if self.enables_timestamps:
            assert metadata is not None
            configuration = {
                **metadata.configuration,
                ENABLEMENT_VERSION: str(base.version + 1),
                ENABLEMENT_TIMESTAMP: str(times["inCommitTimestamp"]),
            }
            metadata = replace(metadata, configuration=configuration)
        return replace(self, removed=removed, metadata=metadata)


@dataclass(frozen=True, slots=True)
class EncodedCommit:
    """The content of a commit, and the state of the table after it; ``domains``: those written."""

    content: bytes = field(repr=False)
    after: CommitBase
    domains: tuple[DomainMetadata, ...]


def encode_commit(base: CommitBase, actions: Actions, info: Mapping[str, Any]) -> EncodedCommit:
    """Return the commit that follows ``base``; its first line is the ``commitInfo``.

    The order of the actions is that of Delta on Spark.

    Raises:
        CorruptLogError: the log does not contain the high-water mark of row ids.
        SafetyError: row ids cannot be assigned.
    """
    domains = {domain.domain: domain for domain in actions.domains}
    after = replace(
        base,
        version=base.version + 1,
        protocol=actions.protocol or base.protocol,
        metadata=actions.metadata or base.metadata,
        domains={**base.domains, **domains},
    )
    # Of the state after the commit, which may itself turn on row tracking or set the mark.
    row_ids = RowIds.of(after)
    lines = [line("commitInfo", info)]
    if actions.metadata is not None:
        lines.append(line("metaData", encode_metadata(actions.metadata)))
    lines += _add_lines(actions, after, row_ids)
    if actions.removed is not None:
        # The partition columns before the commit, which may change them: the files are from before.
        lines += file_lines("remove", actions.removed, base.metadata.partition_keys)
    if row_ids is not None and row_ids.grew:
        domains[ROW_TRACKING_DOMAIN] = row_ids.domain()
    lines += (line("domainMetadata", encode_domain(it)) for it in domains.values())
    if actions.protocol is not None:
        lines.append(line("protocol", encode_protocol(actions.protocol)))
    if actions.txn is not None:
        lines.append(line("txn", encode_txn(actions.txn)))
    content = ("\n".join(lines) + "\n").encode()
    # Now with the mark, which depends on the ids that the files got.
    after = replace(after, domains={**base.domains, **domains})
    return EncodedCommit(content, after, tuple(domains.values()))


def _add_lines(actions: Actions, after: CommitBase, row_ids: RowIds | None) -> Iterator[str]:
    added = actions.added
    if isinstance(added, pa.Table):
        if row_ids is not None:
            added = assign_row_ids(added, row_ids, after.version)
        yield from file_lines("add", added, after.metadata.partition_keys)
        return
    for file in added:
        ids = None if row_ids is None else (row_ids.take(file.num_records), after.version)
        yield add_line(file, ids, data_change=actions.adds_rows)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to add to the log. ``path`` is decoded; ``stats`` is JSON text or ``None``."""

    path: str
    partition_values: Mapping[str, str | None]
    size_bytes: int
    modification_time_ms: int
    num_records: int
    stats: str | None
    tags: Mapping[str, str] = field(default_factory=dict)
    deletion_vector: DeletionVector | None = None
    clustering_provider: str | None = None


def line(action: str, body: Mapping[str, Any]) -> str:
    """Return one action as a line of JSON, without the line end."""
    return json.dumps({action: body}, ensure_ascii=False, separators=(",", ":"))


def add_line(file: NewFile, row_ids: tuple[int, int] | None, *, data_change: bool = False) -> str:
    """Return an ``add`` action as a line.

    ``row_ids`` are baseRowId and defaultRowCommitVersion, if the table has row tracking;
    ``data_change`` says whether the file adds rows to the table.
    """
    body: dict[str, Any] = {
        "path": encode_path(file.path),
        "partitionValues": dict(file.partition_values),
        "size": file.size_bytes,
        "modificationTime": file.modification_time_ms,
        "dataChange": data_change,
    }
    if file.stats is not None:
        body["stats"] = file.stats
    if file.tags:
        body["tags"] = dict(file.tags)
    if file.deletion_vector is not None:
        body["deletionVector"] = _json_value("deletion_vector", asdict(file.deletion_vector))
    if row_ids is not None:
        body["baseRowId"], body["defaultRowCommitVersion"] = row_ids
    if file.clustering_provider is not None:
        body["clusteringProvider"] = file.clustering_provider
    return line("add", body)


def file_lines(action: str, files: pa.Table, partition_keys: Collection[str]) -> Iterator[str]:
    """Yield each file action unchanged, with the same path text.

    Only for ``partition_keys``, null partition values are written.

    ``partition_keys`` are the physical names of the partition columns.
    """
    for batch in files.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            row["path"] = row.pop("encoded_path")
            values = row["partition_values"]
            if values is not None:
                # delta-rs refuses a null value of an earlier partition column (ADR 6).
                row["partition_values"] = [
                    (key, text) for key, text in values if text is not None or key in partition_keys
                ]
            body = {
                JSON_NAMES[column]: _json_value(column, value)
                for column, value in row.items()
                if value is not None
            }
            yield line(action, body)


def as_removes(files: pa.Table, *, data_change: bool = False) -> pa.Table:
    """Return live files as rows of ``REMOVE_SCHEMA``, with the same path texts as their adds.

    They get the time of their deletion when they are committed.

    If the files have ``num_records``, it replaces the statistics, which need not be there.
    ``data_change`` says whether the rows of the files are removed from the table.
    """
    rows = files.num_rows
    new = {
        "deletion_timestamp_ms": pa.nulls(rows, pa.int64()),
        "data_change": pa.array(np.full(rows, data_change, np.bool_)),
        # Says that partitionValues and size are present (PROTOCOL.md, "Add File and Remove File").
        "extended_file_metadata": pa.array(np.ones(rows, np.bool_)),
    }
    if "num_records" in files.column_names:
        # As in removes of Delta on Spark, which have no other statistics.
        counts = files["num_records"].cast(pa.string())
        new["stats"] = pc.binary_join_element_wise('{"numRecords":', counts, "}", "")
    columns = [new[name] if name in new else files[name] for name in REMOVE_SCHEMA.names]
    return pa.table(columns, schema=REMOVE_SCHEMA)


def with_data_change(files: pa.Table, data_change: bool) -> pa.Table:
    """Return the files with another ``data_change``."""
    changes = pa.array(np.full(files.num_rows, data_change, np.bool_))
    return replace_column(files, "data_change", changes)


def _json_value(column: str, value: Any) -> Any:
    """Return a value of a column of file actions in its JSON form."""
    if column in ("partition_values", "tags"):
        return dict(value)
    if column == "deletion_vector":
        names = zip(DELETION_VECTOR_JSON_NAMES, DELETION_VECTOR_TYPE, strict=True)
        return {name: value[ours.name] for name, ours in names if value[ours.name] is not None}
    return value
