"""Plan a restore: the differences between the latest version and an earlier one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.audit.audited_snapshot import ensure_fits_commit, ensure_follows, load_audited
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.commits.changes import sum_rows
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys, sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.history.blame import find_changing
from deltactl.operations.history.diff import VersionDiff, compare_snapshots, files_of_one_side
from deltactl.operations.missing_files import (
    PRESENCE_COLUMNS,
    Missing,
    explain_missing,
    find_missing,
    needs_missing,
)
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restored_state import RestoredState, are_marks_behind, is_same_state
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported, list_features
from deltactl.protocol.properties import (
    ROW_TRACKING_COLUMN_KEYS,
    TableProperties,
    list_shorter_retentions,
)
from deltactl.protocol.schema import TYPE_CHANGES_KEY, Field, PrimitiveType, is_void, render_type

_CONSTRAINT: Final = "delta.constraints."
_CHAR_TYPE: Final = "__CHAR_VARCHAR_TYPE_STRING"
_CHARS: Final = re.compile(r"(var)?char\((\d+)\)")
_RULES: Final = ("delta.invariants", "delta.generationExpression")


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The plan of a restore of ``version`` to ``target_version``.

    ``added`` and ``removed`` are the files to add and to remove, rows of ``ADD_SCHEMA``; ``lost``
    are the files of the target that cannot be read, because of ``missing`` files, of its
    ``wanted_files``; those that are live in both versions are ``removed``. ``renumbered`` are files
    of both versions that get the row ids of the target again. ``state`` is ``None`` if
    only the files of some partitions are restored. ``undone`` are the later versions, or those of
    them that changed these partitions. ``risks`` are the retentions that become shorter.
    """

    version: int
    target_version: int
    table_id: str
    predicate: str | None
    added: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)
    lost: pa.Table = field(repr=False)
    renumbered: pa.Table = field(repr=False)
    missing: tuple[Missing, ...]
    state: RestoredState | None = field(repr=False)
    is_empty: bool
    diff: VersionDiff = field(repr=False)
    wanted_files: int
    files_after: int
    bytes_after: int
    undone: Sequence[int] = ()
    risks: tuple[str, ...] = ()

    @property
    def added_bytes(self) -> int:
        """Return the total size of the files to add."""
        return sum_sizes(self.added)

    @property
    def removed_bytes(self) -> int:
        """Return the total size of the files to remove."""
        return sum_sizes(self.removed)

    @property
    def lost_bytes(self) -> int:
        """Return the total size of the files that cannot be read."""
        return sum_sizes(self.lost)

    @property
    def lost_rows(self) -> int | None:
        """Return the live rows of the files that cannot be read; ``None`` if they are not known."""
        return sum_rows(self.lost)

    @property
    def unreadable(self) -> tuple[Missing, ...]:
        """Return the files of the target that cannot be read, each with its problem."""
        return explain_missing(self.lost, self.missing)


@dataclass(frozen=True, slots=True)
class Versions:
    """The two versions of a restore, and the log that they come from."""

    log: DeltaLog
    current: Snapshot
    target: Snapshot


def load_versions(log: DeltaLog, options: RestoreOptions) -> Versions:
    """Load the latest version and the target.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the target is outside the log; the message has the range.
        CorruptLogError: the log is damaged.
        SafetyError: a checkpoint is wrong.
        UnsupportedFeatureError: a table feature forbids it.
    """
    log.ensure_newest()
    doubts = CommitDoubts()
    current = load_audited(log, doubts=doubts)
    version = options.version
    if version is None:
        assert options.timestamp_ms is not None
        version = log.version_at(current.metadata, options.timestamp_ms)
    log.ensure_has(version)
    target = current if version == current.version else load_audited(log, version, doubts=doubts)
    doubts.warn(log)
    for snapshot in (current, target):
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.RESTORE)
    ensure_fits_commit(log, target)
    ensure_follows(log, current, target)
    return Versions(log, current, target)


def plan_restore(
    versions: Versions, options: RestoreOptions, state: RestoredState, context: RunContext
) -> RestorePlan:
    """Compare the files of the two versions, and check that those of the target exist.

    ``state`` is the state after a restore of the whole table.

    Raises:
        PredicateError: ``where`` is not about partition columns.
        SafetyError: old files do not fit the table.
        InterruptedRunError: ``cancel`` was set.
    """
    current, target = versions.current, versions.target
    predicate = None
    if options.where is not None:
        fields, now_ms = current.metadata.partition_fields, context.clock.now_ms()
        predicate = parse_predicate(options.where, fields, now_ms)
        _ensure_fits(current, target)
    all_removed, all_added = _different_files(current, target)
    removed, added = select_files(all_removed, predicate), select_files(all_added, predicate)
    if added.num_rows and all_removed.num_rows > removed.num_rows:
        _warn_of_row_ids(current, target, context)
    is_same = not removed.num_rows and (
        predicate is not None or target is current or is_same_state(state, current)
    )
    wanted = _Wanted(target, predicate)
    missing = find_missing(current.store, wanted, context, added["path"])
    if predicate is not None and not wanted.num_files:
        _warn_of_no_match(current, target, predicate, context)
    mask = needs_missing(added, missing)
    lost, added = added.filter(mask), added.filter(pc.invert(mask))
    if missing:
        broken = _live_in_both(target, lost, missing, predicate)
        lost, removed = pa.concat_tables([lost, broken]), pa.concat_tables([removed, broken])
        is_same = is_same and not broken.num_rows
    renumbered = ADD_SCHEMA.empty_table()
    if predicate is None and TableProperties(state.metadata.configuration).row_tracking_enabled:
        renumbered = _other_row_ids(current, target)
        is_removed = pc.is_in(file_keys(renumbered), value_set=file_keys(removed))
        renumbered = renumbered.filter(pc.invert(is_removed))
    is_same = is_same and not renumbered.num_rows
    num_files, size_bytes = wanted.num_files - lost.num_rows, wanted.size_bytes - sum_sizes(lost)
    if predicate is not None or not wanted.num_files:
        num_files = current.num_files + added.num_rows - removed.num_rows
        size_bytes = current.size_bytes + sum_sizes(added) - sum_sizes(removed)
    is_empty = is_same and not added.num_rows and (options.ignore_missing or not missing)
    metadata, protocol, domains = state.metadata, state.protocol, target.domains
    if predicate is not None or target is current:
        metadata, protocol, domains = current.metadata, current.protocol, current.domains
    after = replace(target, metadata=metadata, protocol=protocol, domains=domains)
    return RestorePlan(
        current.version,
        target.version,
        current.metadata.id,
        None if predicate is None else predicate.sql,
        added,
        removed,
        lost,
        renumbered,
        missing,
        None if predicate is not None else state,
        is_empty,
        compare_snapshots(current, after, (removed, added), versions.log, context.warn),
        wanted.num_files,
        num_files,
        size_bytes,
        () if is_empty else _find_undone(versions, predicate),
        tuple(
            list_shorter_retentions(
                TableProperties(current.metadata.configuration),
                TableProperties(metadata.configuration),
            )
        ),
    )


def _find_undone(versions: Versions, predicate: PartitionPredicate | None) -> Sequence[int]:
    first = versions.target.version + 1
    if predicate is None:
        return range(first, versions.current.version + 1)
    return tuple(find_changing(versions.log, predicate, first))


def _different_files(current: Snapshot, target: Snapshot) -> tuple[pa.Table, pa.Table]:
    """Return the files of the current version only, and of the target only."""
    if target is current:
        return ADD_SCHEMA.empty_table(), ADD_SCHEMA.empty_table()
    return files_of_one_side(current, target, ADD_SCHEMA.names)


def _warn_of_row_ids(current: Snapshot, target: Snapshot, context: RunContext) -> None:
    """Warn of rows in later files of the other partitions, which keep the row ids they had."""
    if current.properties.row_tracking_enabled:
        context.warn(
            f"if an update moved rows to other partitions after version {target.version}, these "
            "rows and the restored ones have the same row ids. Restore the whole version if a "
            "reader of the table identifies rows by their row ids"
        )


def _live_in_both(
    target: Snapshot,
    lost: pa.Table,
    missing: tuple[Missing, ...],
    predicate: PartitionPredicate | None,
) -> pa.Table:
    """Return the files that need missing files, and are live in both versions: not in ``lost``."""
    batches = [select_files(batch, predicate) for batch in target.file_batches(ADD_SCHEMA.names)]
    broken = [batch.filter(needs_missing(batch, missing)) for batch in batches]
    found = pa.concat_tables([ADD_SCHEMA.empty_table(), *broken])
    return found.filter(pc.invert(pc.is_in(file_keys(found), value_set=file_keys(lost))))


def _other_row_ids(current: Snapshot, target: Snapshot) -> pa.Table:
    """Return the files of both versions whose row ids were removed or replaced since the target."""
    columns = (*KEY_COLUMNS, "base_row_id")
    empty = ADD_SCHEMA.empty_table().select(columns)
    files = pa.concat_tables([empty, *current.file_batches(columns)])
    keys, ids = file_keys(files).combine_chunks(), files["base_row_id"]
    found = [ADD_SCHEMA.empty_table()]
    for batch in target.file_batches(ADD_SCHEMA.names):
        places = pc.index_in(file_keys(batch), value_set=keys)
        is_other = pc.fill_null(pc.not_equal(ids.take(places), batch["base_row_id"]), True)
        is_known = pc.and_(pc.is_valid(places), pc.is_valid(batch["base_row_id"]))
        found.append(batch.filter(pc.and_(is_known, is_other)))
    return pa.concat_tables(found)


class _Wanted:
    """The files of the target that a restore needs, in batches, with a count."""

    def __init__(self, target: Snapshot, predicate: PartitionPredicate | None) -> None:
        self._target, self._predicate = target, predicate
        self.num_files = self.size_bytes = 0

    def __iter__(self) -> Iterator[pa.Table]:
        columns = PRESENCE_COLUMNS
        if self._predicate is not None:
            columns = (*columns, "partition_values")
        for batch in self._target.file_batches(columns):
            chosen = select_files(batch, self._predicate)
            self.num_files += chosen.num_rows
            self.size_bytes += sum_sizes(chosen)
            yield chosen


def select_files(files: pa.Table, predicate: PartitionPredicate | None) -> pa.Table:
    """Return the files of the partitions that match; ``None``: all. Needs ``partition_values``."""
    if predicate is None:
        return files
    return files.filter(predicate.evaluate(files["partition_values"]))


def _warn_of_no_match(
    current: Snapshot, target: Snapshot, predicate: PartitionPredicate, context: RunContext
) -> None:
    """Warn that no file of the target matches: perhaps of the latest version neither, by a typo."""
    values = current.file_batches(["partition_values"])
    if any(select_files(batch, predicate).num_rows for batch in values):
        context.warn(
            f"no file of version {target.version} is in a partition with {predicate.sql}: the "
            "restore only removes files"
        )
    else:
        context.warn(predicate.no_match(current.store.uri, current.version, target.version))


def _ensure_fits(current: Snapshot, target: Snapshot) -> None:
    """Refuse to mix files of two versions if they do not match the current schema."""
    reason = (
        _find_misfit(current.metadata, target.metadata)
        or _find_lost_columns(current.metadata, target.metadata)
        or _find_lost_state(current, target)
    )
    if reason is not None:
        table = shlex.quote(current.store.uri)
        raise SafetyError(
            f"the files of version {target.version} do not fit the table as it is now: {reason}",
            hint=f"Restore the whole table, without {option('where')}, or choose a version that "
            "has the schema of the latest version. To read the old rows, run "
            f"`deltactl clone {table} NEW --deep --version {target.version}`.",
        )


def _find_lost_columns(current: Metadata, target: Metadata) -> str | None:
    """Return the columns of the old files that readers would ignore.

    If a nested field was dropped, the types of its column differ.
    """
    now = {column.physical_name for column in current.schema.fields}
    lost = [
        repr(column.name)
        for column in target.schema.fields
        if column.physical_name not in now and not is_void(column.type)
    ]
    if not lost:
        return None
    # With column mapping, a column that is added again has another name in files.
    again = current.column_mapping_mode == "none"
    add = ". Add them again before the restore" if again else ""
    return f"it no longer has the columns {', '.join(lost)}, whose values would be lost{add}"


def _find_lost_state(current: Snapshot, target: Snapshot) -> str | None:
    lost = list_features(target.protocol) - list_features(current.protocol)
    if lost:
        return f"the table no longer has the features {', '.join(sorted(lost))}"
    now, then = current.metadata.configuration, target.metadata.configuration
    if any(key in then and then[key] != now.get(key) for key in ROW_TRACKING_COLUMN_KEYS):
        return "row tracking was dropped and enabled again, and their row ids are in use"
    if are_marks_behind(current.metadata, target.metadata):
        return "its identity columns generate values again that the old rows have"
    return None


def _find_misfit(current: Metadata, target: Metadata) -> str | None:
    if current.id != target.id:
        return "the table was replaced by another one"
    if current.column_mapping_mode != target.column_mapping_mode:
        return "the column mapping was changed"
    if current.partition_keys != target.partition_keys:
        return "the partition columns were changed"
    for key, condition in current.configuration.items():
        if key.startswith(_CONSTRAINT) and target.configuration.get(key) != condition:
            return f"the old rows were not checked against {key}"
    old = {column.physical_name: column for column in target.schema.fields}
    ids = {column.field_id for column in target.schema.fields}
    for column in current.schema.fields:
        before = old.get(column.physical_name)
        if before is not None:
            problem = _find_difference(before, column)
        else:
            problem = _find_lack(column, column.field_id in ids)
        if problem is not None:
            return f"column {column.name!r} {problem}"
    return None


def _find_lack(field: Field, is_id_of_another: bool) -> str | None:
    """Return the reason why old files must not lack a column."""
    if not field.nullable or any(key in field.metadata for key in _RULES):
        return "is new and has rules (such as NOT NULL) that old files without this column break"
    if field.field_id is not None and is_id_of_another:
        return "has the id of another column of that version"
    return None


def _find_difference(before: Field, now: Field) -> str | None:
    if before.type != now.type and not _is_widened(before, now):
        return f"was {render_type(before.type)}, and is {render_type(now.type)}"
    if _type_changes(before) - _type_changes(now):
        return "no longer lists the earlier types that its files have (delta.typeChanges)"
    if _is_narrowed(before, now):
        return "has another CHAR or VARCHAR type now, which old values may not fit"
    if before.field_id != now.field_id:
        return "has another column id"
    if before.nullable and not now.nullable:
        return "is NOT NULL now, but was nullable in that version"
    for key in _RULES:
        if key in now.metadata and now.metadata[key] != before.metadata.get(key):
            return f"has another {key}, which the old rows were not checked against"
    return None


def _type_changes(field: Field) -> set[str]:
    return {json.dumps(it, sort_keys=True) for it in field.metadata.get(TYPE_CHANGES_KEY) or ()}


def _is_narrowed(before: Field, now: Field) -> bool:
    """Return whether old values may be longer than the type allows that Spark declares now."""
    old, new = (field.metadata.get(_CHAR_TYPE) for field in (before, now))
    if new is None or new == old:
        return False
    if _CHARS.sub("", str(old)) != _CHARS.sub("", str(new)):
        return True
    pairs = zip(_CHARS.findall(str(old)), _CHARS.findall(str(new)), strict=True)
    return any(a != b and (not b[0] or int(a[1]) > int(b[1])) for a, b in pairs)


def _is_widened(before: Field, now: Field) -> bool:
    """Return whether readers of the table expect files with the earlier type."""
    changes = now.metadata.get(TYPE_CHANGES_KEY) or ()
    return isinstance(before.type, PrimitiveType) and any(
        change.get("fromType") == before.type.name and "fieldPath" not in change
        for change in changes
    )
