"""The actions of a commit, and their encoding as the content of the commit file.

Row ids are assigned here, above the table's high-water mark. Source: PROTOCOL.md, "Actions",
"Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from deltactl.log.writing.action_lines import NewFile, add_line, domain_line, file_lines, line
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN, RowIds, assign_row_ids
from deltactl.protocol.action_nodes import encode_metadata, encode_protocol, encode_txn
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol, Txn
from deltactl.protocol.arrow_schemas import REMOVE_SCHEMA

ENABLEMENT_VERSION: Final = "delta.inCommitTimestampEnablementVersion"
ENABLEMENT_TIMESTAMP: Final = "delta.inCommitTimestampEnablementTimestamp"


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
    row_ids = RowIds.of(after)
    lines = [line("commitInfo", info)]
    if actions.metadata is not None:
        lines.append(line("metaData", encode_metadata(actions.metadata)))
    lines += _add_lines(actions, after, row_ids)
    if actions.removed is not None:
        lines += file_lines("remove", actions.removed, base.metadata.partition_keys)
    if row_ids is not None and row_ids.grew:
        domains[ROW_TRACKING_DOMAIN] = row_ids.domain()
    lines += map(domain_line, domains.values())
    if actions.protocol is not None:
        lines.append(line("protocol", encode_protocol(actions.protocol)))
    if actions.txn is not None:
        lines.append(line("txn", encode_txn(actions.txn)))
    content = ("\n".join(lines) + "\n").encode()
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
