"""``describe-history --diff``: the differences between two versions of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, Warn
from deltactl.log.audit.audited_snapshot import load_with_doubts
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.commits.changes import FileCounts, PartitionChange, count_added_removed
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.short_repr import ShortRepr
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.clustering import clustering_names
from deltactl.protocol.features import list_features
from deltactl.protocol.path_columns import normalize_paths
from deltactl.protocol.schema import Field, StructType, render_type
from deltactl.units import format_timestamp

COUNTED_COLUMNS: Final = (
    *KEY_COLUMNS,
    "path",
    "partition_values",
    "size_bytes",
    "stats",
    "data_change",
)
"""The columns of files that a comparison needs."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that was added (``before`` null), removed (``after`` null) or changed.

    ``before`` and ``after`` are type and nullability, with the name in front if it changed, then
    generation expression, default and comment.
    """

    column: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, repr=False)
class VersionDiff(ShortRepr):
    """The differences from version ``first`` to ``last``; empty for equal versions.

    ``added`` and ``removed`` count files live at one version only, in total and per partition, by
    (path, deletion vector): ``num_remarked`` paths are in both, with another deletion vector.
    ``facts`` are name, description, partition and clustering columns, protocol, features and the
    order of columns that changed, as ``properties`` by name: before and after.
    """

    _SHOWN = ("added.num_files", "removed.num_files")

    first: int
    last: int
    latest_version: int
    timestamps_ms: tuple[int | None, int | None]
    added: FileCounts
    removed: FileCounts
    num_remarked: int
    partitions: list[PartitionChange]
    columns: list[ColumnChange]
    properties: Mapping[str, tuple[str | None, str | None]]
    facts: Mapping[str, tuple[str | None, str | None]]

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""

        def changes(of: Mapping[str, tuple[str | None, str | None]]) -> list[dict[str, Any]]:
            return [{"name": n, "before": b, "after": a} for n, (b, a) in of.items()]

        first, last = (None if it is None else format_timestamp(it) for it in self.timestamps_ms)
        return {
            "first_version": self.first,
            "last_version": self.last,
            "added": asdict(self.added),
            "removed": asdict(self.removed),
            "num_files_remarked": self.num_remarked,
            "columns": [asdict(change) for change in self.columns],
            "properties": changes(self.properties),
            "facts": changes(self.facts),
            "first_timestamp": first,
            "last_timestamp": last,
            "partitions": [change.to_dict() for change in self.partitions],
        }


def diff_versions(log: DeltaLog, first: int, last: int | None) -> VersionDiff:
    """Compare two versions rebuilt from the log; ``None`` is the latest.

    Memory: the keys of both versions' files, and all data of those that differ.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: a version is outside the log.
        CorruptLogError: a version cannot be rebuilt.
    """
    log.ensure_newest(or_warn=True)
    log.ensure_has(first)
    last = log.latest_version if last is None else last
    log.ensure_has(last)
    doubts = CommitDoubts()
    before, after = (load_with_doubts(log, doubts, version) for version in (first, last))
    doubts.warn(log)
    removed, added = files_of_one_side(before, after, COUNTED_COLUMNS)
    return compare_snapshots(before, after, (removed, added), log, log.warn)


def compare_snapshots(
    before: Snapshot,
    after: Snapshot,
    files: tuple[pa.Table, pa.Table],
    log: DeltaLog,
    warn: Warn,
) -> VersionDiff:
    """Describe the differences between two versions, given their different ``files``.

    ``files`` are those of each version that the other does not have, with ``COUNTED_COLUMNS``.
    ``warn`` receives facts that could not be determined.
    """
    removed, added = files
    names, old_names = after.metadata.partition_names, before.metadata.partition_names
    # Renamed columns have their later names. Without column mapping, physical names differ too.
    if names.keys() == old_names.keys() and {*names.values()} != {*old_names.values()}:
        old_names = names
    total, partitions = count_added_removed((added, names), (removed, old_names))
    order = {name: name for name in names.values()}
    paths = [normalize_paths(files["encoded_path"]) for files in (added, removed)]
    remarked = pc.sum(pc.is_in(paths[0], value_set=paths[1])).as_py() or 0
    return VersionDiff(
        before.version,
        after.version,
        log.latest_version,
        (_timestamp(log, before, warn), _timestamp(log, after, warn)),
        total.added,
        total.removed,
        remarked,
        [partition.rename(order) for partition in partitions],
        _diff_columns(before.metadata, after.metadata),
        _changed(before.metadata.configuration, after.metadata.configuration),
        _changed(_facts(before), _facts(after)) | _moved(before.metadata, after.metadata),
    )


def _timestamp(log: DeltaLog, snapshot: Snapshot, warn: Warn) -> int | None:
    """Return the commit timestamp of a version, ``None`` if unknown: it is optional here."""
    try:
        return log.timestamp_of(snapshot)
    except DeltactlError as error:
        warn(error.message)
        return None


def files_of_one_side(
    before: Snapshot, after: Snapshot, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """Return the files of each version that the other does not have, by (path, vector).

    ``columns`` has ``KEY_COLUMNS`` among them.
    """
    keys = [_keys(snapshot) for snapshot in (before, after)]
    only_before = pc.invert(pc.is_in(keys[0], value_set=keys[1]))
    only_after = pc.invert(pc.is_in(keys[1], value_set=keys[0]))
    return _gather(before, only_before, columns), _gather(after, only_after, columns)


def _keys(snapshot: Snapshot) -> pa.ChunkedArray:
    chunks = [c for b in snapshot.file_batches(KEY_COLUMNS) for c in file_keys(b).chunks]
    return pa.chunked_array(chunks, pa.string())


def _gather(snapshot: Snapshot, mask: pa.ChunkedArray, columns: Sequence[str]) -> pa.Table:
    """Return the files selected by the mask, by their position in the stream."""

    def picked() -> Iterator[pa.Table]:
        start = 0
        for batch in snapshot.file_batches(columns):
            yield batch.filter(mask.slice(start, batch.num_rows))
            start += batch.num_rows

    empty = ADD_SCHEMA.empty_table().select(columns)
    return pa.concat_tables([empty, *picked()])


def _diff_columns(before: Metadata, after: Metadata) -> list[ColumnChange]:
    """Return added and changed columns in the order of the later schema, then removed ones.

    Columns are identified by physical name, so a rename with column mapping is a change. A schema
    that cannot be parsed gives no differences.
    """
    old, new = _fields(before), _fields(after)
    changes = []
    for key in (*new, *(key for key in old if key not in new)):
        was, is_ = old.get(key), new.get(key)
        renamed = was is not None and is_ is not None and was.name != is_.name
        texts = [None if f is None else _describe(f, renamed) for f in (was, is_)]
        if texts[0] != texts[1]:
            changes.append(ColumnChange((is_ or was).name, *texts))  # type: ignore[union-attr]
    return changes


def _fields(metadata: Metadata) -> dict[str, Field]:
    try:
        return {field.physical_name: field for field in metadata.schema.fields}
    except DeltactlError:
        return {}


def _describe(field: Field, with_name: bool) -> str:
    words = [field.name] if with_name else []
    words += [render_type(field.type), *([] if field.nullable else ["not null"])]
    said = field.metadata
    if (expression := said.get("delta.generationExpression")) is not None:
        words.append(f"generated as ({expression})")
    if (default := said.get("CURRENT_DEFAULT")) is not None:
        words.append(f"default {default}")
    if (comment := said.get("comment")) is not None:
        words.append(f"comment {comment!r}")
    return " ".join(words)


def _moved(before: Metadata, after: Metadata) -> dict[str, tuple[str, str]]:
    """Return the columns of both versions from the first to the last that is in another place."""
    old, new = _fields(before), _fields(after)
    pairs = list(
        zip((key for key in old if key in new), (key for key in new if key in old), strict=True)
    )
    places = [place for place, (was, is_) in enumerate(pairs) if was != is_]
    if not places:
        return {}
    moved = pairs[places[0] : places[-1] + 1]
    names = (
        ", ".join(old[was].name for was, _ in moved),
        ", ".join(new[is_].name for _, is_ in moved),
    )
    return {"column order": names}


def _facts(snapshot: Snapshot) -> dict[str, str]:
    metadata, protocol = snapshot.metadata, snapshot.protocol
    schema = StructType(tuple(_fields(metadata).values()))
    facts = {
        "name": metadata.name,
        "description": metadata.description,
        "partition columns": ", ".join(metadata.partition_columns),
        "clustering columns": ", ".join(clustering_names(snapshot.domains, schema)),
        "reader version": str(protocol.min_reader_version),
        "writer version": str(protocol.min_writer_version),
        "features": ", ".join(sorted(list_features(protocol))),
    }
    return {name: value for name, value in facts.items() if value}


def _changed(
    before: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    pairs = {name: (before.get(name), after.get(name)) for name in sorted({*before, *after})}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
