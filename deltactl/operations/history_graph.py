"""``describe-history --graph``: how files and bytes of a table went, version by version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltactl.errors import CorruptLogError, StorageError, Warn
from deltactl.log.history import Selection, read_history
from deltactl.log.history_columns import HistoryRow
from deltactl.log.listing import LogListing, list_log
from deltactl.log.snapshot import load_snapshot
from deltactl.operations.history_changes import Change, ChangeCounter
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class GraphPoint:
    """A version: when and what it was, and the live files after it; ``None`` where unknown."""

    version: int
    timestamp_ms: int | None
    operation: str | None
    num_files: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class HistoryGraph:
    """Points oldest first; ``num_unread`` selected versions before them were left out."""

    latest_version: int
    points: list[GraphPoint]
    num_unread: int


def load_graph(store: Store, selection: Selection, warn: Warn) -> HistoryGraph:
    """Count the live files after each version of a selection.

    Counts what each commit added and removed, back from the newest version of the selection that
    can be rebuilt. Where a commit is missing, broken or does not give the sizes of what it
    removed, versions before it are not known.

    Raises:
        NotATableError: there is no log.
        StorageError: the log cannot be read at all.
    """
    listing = list_log(store)
    counter = ChangeCounter(use_metrics=False)
    history = read_history(store, listing, selection, observer=counter)
    anchor = _load_anchor(store, listing, history.rows, warn)
    points = list(_walk_back(history.rows, counter.changes, anchor))
    return HistoryGraph(history.latest_version, points[::-1], history.num_unread)


def _load_anchor(
    store: Store, listing: LogListing, rows: Sequence[HistoryRow], warn: Warn
) -> tuple[int, int, int] | None:
    """The newest version that can be rebuilt, its files and their bytes."""
    version = next((row["version"] for row in rows if row["reconstructible"]), None)
    if version is None:
        return None
    try:
        snapshot = load_snapshot(store, version, warn=warn, listing=listing)
        return version, snapshot.num_files, snapshot.size_bytes
    except (CorruptLogError, StorageError) as error:
        warn(f"files are not known: {error.message}")
        return None


def _walk_back(
    rows: Sequence[HistoryRow],
    changes: Mapping[int, Change],
    anchor: tuple[int, int, int] | None,
) -> Iterator[GraphPoint]:
    """Points newest first; each version's files are those of the next without its change."""
    files: int | None = None
    size: int | None = None
    following: int | None = None
    for row in rows:
        version = row["version"]
        if anchor is not None and version == anchor[0]:
            _, files, size = anchor
        elif following != version + 1:
            files = size = None  # versions between were not selected
        yield GraphPoint(version, row["timestamp"], row["operation"], files, size)
        change = changes.get(version, Change())
        files = _before(files, change.files_added, change.files_removed)
        size = _before(size, change.bytes_added, change.bytes_removed)
        following = version


def _before(after: int | None, added: int | None, removed: int | None) -> int | None:
    if after is None or added is None or removed is None:
        return None
    return max(after - added + removed, 0)
