"""``describe-history``: the history of a table from its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltactl.errors import (
    CorruptLogError,
    LogGapError,
    StorageError,
    VersionNotFoundError,
    hint_at_versions,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import HistoryRow, history_table
from deltactl.log.history.read import Selection
from deltactl.log.rebuildable import truncated_file
from deltactl.operations.history.changes import Change, ChangeCounter
from deltactl.option_fields import output_option
from deltactl.units import format_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from deltactl.log.commits.changes import PartitionChange
    from deltactl.operations.history.restorable import Restorable


@dataclass(frozen=True, slots=True)
class HistoryOptions(Selection):
    """The commits to show; with ``changes``, also the added and removed files of each.

    With ``restorable``, also whether each version can be read; this lists all files of the table.
    """

    changes: bool = False
    restorable: bool = output_option(
        False,
        "Also show whether the files of each version still exist. This lists all files of the "
        "table",
        is_basic=True,
    )


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """Commits, newest first, one row each; ``changes`` and ``restorable`` by version if requested.

    ``num_unread`` is the number of older versions beyond the limit.
    """

    latest_version: int
    rows: Sequence[HistoryRow]
    num_unread: int = 0
    changes: Mapping[int, Change] = field(default_factory=dict)
    restorable: Mapping[int, Restorable] | None = None

    def table(self) -> pa.Table:
        """Return the rows as Arrow: the columns of Delta, then three of deltactl."""
        return history_table(self.rows)


def load_history(log: DeltaLog, options: HistoryOptions) -> HistoryReport:
    """Read the commits of a table, newest first.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the requested version is not in the log.
        StorageError: the log cannot be read.
    """
    log.ensure_newest(or_warn=True)
    is_one = options.first_version == options.last_version
    if is_one:
        log.ensure_has(options.first_version)
    counter = ChangeCounter()
    if is_one and options.changes:
        from deltactl.log.audit.commit_doubts import CommitDoubts

        doubts = CommitDoubts()
        history = log.history(options, counter, doubts)
        doubts.warn(log)
    else:
        history = log.history(options, *([counter] if options.changes else []))
    _check_checkpoint(log)
    restorable = None
    if options.restorable:
        from deltactl.operations.history.restorable import find_restorable

        restorable = find_restorable(log)
    return HistoryReport(
        history.latest_version, history.rows, history.num_unread, counter.changes, restorable
    )


def _check_checkpoint(log: DeltaLog) -> None:
    """Warn of a truncated newest checkpoint: readers of the table start there."""
    if not log.checkpoints:
        return
    checkpoint = log.checkpoints[-1]
    try:
        truncated = truncated_file(log.store, checkpoint)
    except StorageError as error:
        log.warn(f"the checkpoint of version {checkpoint.version} cannot be read: {error.message}")
        return
    if truncated is not None:
        log.warn(
            f"the checkpoint of version {checkpoint.version} is invalid: {truncated} is truncated"
        )


@dataclass(frozen=True, slots=True)
class VersionAt:
    """The version that was current at a time, and the next one, if any."""

    latest_version: int
    row: HistoryRow
    next_row: HistoryRow | None


def version_at(log: DeltaLog, timestamp_ms: int) -> VersionAt:
    """Find the version that was current at a time, ms since 1970 UTC, possibly in the future.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the time is before the first commit in the log.
    """
    log.ensure_newest(or_warn=True)
    newest = log.history(Selection(limit=1))
    version = None
    if newest.uses_in_commit_timestamps:
        version = _search_in_commit_timestamps(log, timestamp_ms)
    if version is None:
        found = log.history(Selection(limit=1, until_ms=timestamp_ms)).rows
        if not found:
            raise _before_all(log, timestamp_ms)
        version = int(found[0]["version"])
        log.warn_of_late_times(version, timestamp_ms)
    pair = Selection(first_version=version, last_version=version + 1)
    rows = log.history(pair).rows
    row = next((row for row in rows if row["version"] == version), None)
    if row is None:
        raise _vanished(version)
    after = None if rows[0]["version"] == version else rows[0]
    if after is not None and after["timestamp"] is None:
        log.warn(
            f"the commit of version {after['version']} is missing: perhaps this version, or a "
            f"later missing one, was current at {format_timestamp(timestamp_ms)}"
        )
    return VersionAt(newest.latest_version, row, after)


def _search_in_commit_timestamps(log: DeltaLog, timestamp_ms: int) -> int | None:
    """Search with few reads, if the table's metadata can be read."""
    try:
        return log.version_at(log.snapshot().metadata, timestamp_ms, allow_later=True)
    except (CorruptLogError, StorageError):
        return None


def _before_all(log: DeltaLog, timestamp_ms: int) -> VersionNotFoundError:
    asked = format_timestamp(timestamp_ms)
    commits = log.commit_files
    if not commits:
        return VersionNotFoundError(
            f"the log of {log.uri} has no commits, so no version can be found for {asked}"
        )
    oldest = min(commits)
    row = log.history(Selection(last_version=oldest)).rows[0]
    return VersionNotFoundError(
        f"{asked} is before the first commit in the log of {log.uri}: "
        f"version {oldest} was committed at {format_timestamp(row['timestamp'])}",
        hint=hint_at_versions(log.uri),
    )


def _vanished(version: int) -> VersionNotFoundError:
    return VersionNotFoundError(f"the commit of version {version} was deleted while it was read")


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """File changes of one commit: per partition (logical column names), and each file action."""

    latest_version: int
    row: HistoryRow
    partitions: list[PartitionChange]
    actions: pa.Table


def commit_files(log: DeltaLog, version: int) -> CommitFiles:
    """Return the files that a commit added and removed, with counts per partition.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the log does not contain this version.
        CorruptLogError: the commit is missing or broken.
    """
    from deltactl.log.audit.commit_doubts import CommitDoubts
    from deltactl.log.commits.changes import read_changes

    log.ensure_newest(or_warn=True)
    log.ensure_has(version)
    if version not in log.commit_files:
        raise LogGapError(
            f"the commit of version {version} is missing: there is no "
            f"{log.commit_file(version)} in {log.uri}",
            hint="Restore the file from a backup.",
        )
    chosen = Selection(first_version=version, last_version=version)
    history = log.history(chosen)
    [commit] = log.commits([version])
    doubts = CommitDoubts()
    partitions, actions = read_changes(commit, doubts)
    doubts.warn(log)
    if not history.rows:
        raise _vanished(version)
    partitions = _rename(log, version, partitions)
    return CommitFiles(history.latest_version, history.rows[0], partitions, actions)


def _rename(
    log: DeltaLog, version: int, partitions: list[PartitionChange]
) -> list[PartitionChange]:
    """Replace physical names of partition columns by logical ones."""
    if not any(partition.partition_values for partition in partitions):
        return partitions
    try:
        names = log.snapshot(version).metadata.partition_names
    except (CorruptLogError, StorageError):
        return partitions  # keep the names of the commit
    return [partition.rename(names) for partition in partitions]


def follow_history(
    log: DeltaLog, first_version: int | None, wait: Callable[[], bool]
) -> Iterator[HistoryRow]:
    """Yield each commit once, oldest first, as soon as it appears; from ``first_version`` on.

    ``None`` begins with the next commit. ``wait`` pauses before each further listing and returns
    whether to continue. Each listing covers only new versions. A commit that is missing or broken
    may be incomplete: it is read twice, and then yielded with its ``problem``.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the first version was cleaned up, so that commits would be missed.
        StorageError: the log cannot be listed.
    """
    latest = log.latest_version if log.exists else None
    following = (-1 if latest is None else latest) + 1 if first_version is None else first_version
    if latest is None or following <= latest:
        log.ensure_has(following)
    doubted: int | None = None
    while True:
        rows = _read_new(log, following)
        for row in rows:
            if row["problem"] is not None and doubted != row["version"]:
                doubted = row["version"]
                break
            yield row
            following = row["version"] + 1
        if not wait():
            return


def _read_new(log: DeltaLog, following: int) -> Sequence[HistoryRow]:
    """Return rows from a version on, oldest first; list the whole log only if there are any."""
    if not log.has_versions_from(following):
        return []
    log.update()
    return log.history(Selection(first_version=following)).rows[::-1]
