"""``describe-history``: the history of a table from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltactl.errors import (
    CorruptLogError,
    LogGapError,
    StorageError,
    UsageError,
    VersionNotFoundError,
    Warn,
)
from deltactl.log.history.columns import HistoryRow, history_table
from deltactl.log.history.read import Selection, read_history
from deltactl.log.history.timestamps import resolve_timestamp
from deltactl.log.listing import LogListing, list_log
from deltactl.log.not_a_table import no_table_error
from deltactl.log.rebuildable import truncated_file
from deltactl.operations.history.changes import Change, ChangeCounter
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.storage.store import Store
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
    restorable: bool = False


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
        """Return the rows as Arrow: Delta's columns, then ``reconstructible`` and ``problem``."""
        return history_table(self.rows)


def load_history(store: Store, options: HistoryOptions, warn: Warn) -> HistoryReport:
    """Read the commits of a table, newest first.

    Raises:
        UsageError: a limit of less than one commit.
        NotATableError: there is no log.
        VersionNotFoundError: the requested version is not in the log.
        StorageError: the log cannot be read.
    """
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {options.limit}")
    listing = list_log(store)
    if options.first_version == options.last_version:
        ensure_in_log(store, listing, options.first_version)
    counter = ChangeCounter() if options.changes else None
    history = read_history(store, listing, options, observer=counter)
    changes = counter.changes if counter else {}
    _check_checkpoint(store, listing, warn)
    restorable = None
    if options.restorable:
        from deltactl.operations.history.restorable import find_restorable

        restorable = find_restorable(store, listing, warn)
    return HistoryReport(
        history.latest_version, history.rows, history.num_unread, changes, restorable
    )


def _check_checkpoint(store: Store, listing: LogListing, warn: Warn) -> None:
    """Warn of a truncated newest checkpoint: readers of the table start there."""
    if not listing.checkpoints:
        return
    checkpoint = listing.checkpoints[-1]
    try:
        truncated = truncated_file(store, checkpoint)
    except StorageError as error:
        warn(f"the checkpoint of version {checkpoint.version} cannot be read: {error.message}")
        return
    if truncated is not None:
        warn(f"the checkpoint of version {checkpoint.version} is invalid: {truncated} is truncated")


@dataclass(frozen=True, slots=True)
class VersionAt:
    """The version that was current at a time, and the next one, if any."""

    latest_version: int
    row: HistoryRow
    next_row: HistoryRow | None


def version_at(store: Store, timestamp_ms: int, warn: Warn) -> VersionAt:
    """Find the version that was current at a time, ms since 1970 UTC, possibly in the future.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the time is before the first commit in the log.
    """
    listing = list_log(store)
    newest = read_history(store, listing, Selection(limit=1))
    version = None
    if newest.uses_in_commit_timestamps:
        version = _search_in_commit_timestamps(store, listing, timestamp_ms, warn)
    if version is None:
        found = read_history(store, listing, Selection(limit=1, until_ms=timestamp_ms)).rows
        if not found:
            raise _before_all(store, listing, timestamp_ms)
        version = int(found[0]["version"])
    pair = Selection(first_version=version, last_version=version + 1)
    rows = read_history(store, listing, pair).rows
    row = next((row for row in rows if row["version"] == version), None)
    if row is None:
        raise _vanished(version)
    is_last = rows[0]["version"] == version
    return VersionAt(newest.latest_version, row, None if is_last else rows[0])


def _search_in_commit_timestamps(
    store: Store, listing: LogListing, timestamp_ms: int, warn: Warn
) -> int | None:
    """Search with few reads, if the table's metadata can be read."""
    from deltactl.log.snapshot import load_snapshot

    try:
        metadata = load_snapshot(store, warn=warn, listing=listing).metadata
        return resolve_timestamp(store, listing, metadata, timestamp_ms, allow_later=True)
    except (CorruptLogError, StorageError):
        return None


def _before_all(store: Store, listing: LogListing, timestamp_ms: int) -> VersionNotFoundError:
    asked = format_timestamp(timestamp_ms)
    if not listing.commits:
        return VersionNotFoundError(
            f"the log of {store.uri} has no commits, so no version can be found for {asked}"
        )
    oldest = min(listing.commits)
    row = read_history(store, listing, Selection(last_version=oldest)).rows[0]
    return VersionNotFoundError(
        f"{asked} is before the first commit in the log of {store.uri}: "
        f"version {oldest} was committed at {format_timestamp(row['timestamp'])}",
        hint="Run `deltactl describe-history --all` to list the versions and their times.",
    )


def _vanished(version: int) -> VersionNotFoundError:
    return VersionNotFoundError(f"the commit of version {version} was deleted while it was read")


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """File changes of one commit: in total, and per partition (logical column names)."""

    latest_version: int
    row: HistoryRow
    partitions: list[PartitionChange]


def commit_files(store: Store, version: int, warn: Warn) -> CommitFiles:
    """Count what a commit added and removed, per partition.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the log does not contain this version.
        CorruptLogError: the commit is missing or broken.
    """
    from deltactl.log.commits.changes import count_partitions
    from deltactl.log.commits.lines import CommitBytes

    listing = list_log(store)
    ensure_in_log(store, listing, version)
    name = f"{LOG_DIR}/{commit_name(version)}"
    if version not in listing.commits:
        raise LogGapError(
            f"the commit of version {version} is missing: there is no {name} in {store.uri}",
            hint="Restore the file from a backup.",
        )
    chosen = Selection(first_version=version, last_version=version)
    history = read_history(store, listing, chosen)
    partitions = count_partitions(CommitBytes(name, store.read(name)))
    if not history.rows:
        raise _vanished(version)
    return CommitFiles(
        history.latest_version, history.rows[0], _rename(store, version, partitions, warn)
    )


def ensure_in_log(store: Store, listing: LogListing, version: int) -> None:
    """Refuse a version outside the log.

    Raises:
        NotATableError: there is no log.
        VersionNotFoundError: the log does not contain this version.
    """
    latest = listing.latest_version
    if latest is None:
        raise no_table_error(store)
    oldest = min((*listing.commits, *(c.version for c in listing.checkpoints)))
    if not oldest <= version <= latest:
        raise VersionNotFoundError(
            f"the log of {store.uri} has no version {version}: "
            f"it has versions {oldest} to {latest}",
            hint="Run `deltactl describe-history --all` to list the versions.",
        )


def _rename(
    store: Store, version: int, partitions: list[PartitionChange], warn: Warn
) -> list[PartitionChange]:
    """Replace physical names of partition columns by logical ones."""
    from dataclasses import replace

    from deltactl.log.snapshot import load_snapshot

    if not any(partition.partition_values for partition in partitions):
        return partitions
    try:
        names = load_snapshot(store, version, warn=warn).metadata.partition_names
    except (CorruptLogError, StorageError):
        return partitions  # keep the names of the commit

    def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
        ordered = {names[key]: values.get(key) for key in names if key in values}
        return ordered | {key: it for key, it in values.items() if key not in names}

    return [
        replace(partition, partition_values=renamed(partition.partition_values))
        for partition in partitions
    ]
