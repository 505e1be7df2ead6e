"""``describe-history --graph``: number and size of the live files by version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, Warn
from deltactl.log.commits.events import EVENTS, LogSweep
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys, text_keys
from deltactl.log.history.columns import HistoryRow
from deltactl.log.history.read import Selection, read_history
from deltactl.log.lifetimes import Lifetimes, first_rebuildable, sweep_commits
from deltactl.log.listing import LogListing, list_log
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.storage.store import Store

_MOST_TRIES = 4
_NAMED = ("path", *KEY_COLUMNS, "size_bytes")


@dataclass(frozen=True, slots=True)
class GraphPoint:
    """A version: its timestamp and operation, and the live files; ``None`` where unknown."""

    version: int
    timestamp_ms: int | None
    operation: str | None
    num_files: int | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class HistoryGraph:
    """The points, oldest first.

    ``num_unread``: number of selected older versions without a point.
    """

    latest_version: int
    points: list[GraphPoint]
    num_unread: int


def load_graph(store: Store, selection: Selection, warn: Warn) -> HistoryGraph:
    """Count the live files after each version of a selection.

    The numbers are known from the oldest version after which the log is complete. They are
    calculated from a snapshot of that version and the file actions of each later commit. Earlier
    versions are unknown. Only the file actions of the range are in memory, not the table.

    Raises:
        NotATableError: there is no log.
        StorageError: the log cannot be read.
    """
    listing = list_log(store)
    history = read_history(store, listing, selection)
    counts = _count_live(store, listing, history.rows, warn)
    points = [
        GraphPoint(
            row["version"],
            row["timestamp"],
            row["operation"],
            *counts.get(row["version"], (None, None)),
        )
        for row in reversed(history.rows)
    ]
    return HistoryGraph(history.latest_version, points, history.num_unread)


def _count_live(
    store: Store, listing: LogListing, rows: Sequence[HistoryRow], warn: Warn
) -> Mapping[int, tuple[int, int]]:
    """Return files and bytes by version, as far back as the log is complete."""
    last = next((row["version"] for row in rows if row["reconstructible"]), None)
    if last is None:
        return {}
    broken = [row["version"] for row in rows if row["problem"] and row["version"] <= last]
    first: int | None
    first = oldest = max(rows[-1]["version"], first_rebuildable(store, listing))
    if broken and max(broken) >= oldest:
        first = _next_checkpoint(listing, max(broken))
    for _ in range(_MOST_TRIES):
        if first is None or first > last:
            break
        try:
            return _count_range(store, listing, first, last, warn)
        except DeltactlError as error:
            warn(
                f"the graph does not show the numbers of files and bytes of the oldest versions: "
                f"{error.message}"
            )
            first = _next_checkpoint(listing, first + 1)
    return {}


def _next_checkpoint(listing: LogListing, version: int) -> int | None:
    """Return the oldest version with a checkpoint from ``version`` on, to start from."""
    return next((c.version for c in listing.checkpoints if c.version >= version), None)


def _count_range(
    store: Store, listing: LogListing, first: int, last: int, warn: Warn
) -> dict[int, tuple[int, int]]:
    snapshot = load_snapshot(store, first, warn=warn, listing=listing)
    sweep = sweep_commits(store, listing, snapshot.metadata, first + 1, last)
    start = _named_files(sweep, snapshot)
    events = pa.concat_tables([sweep.events, start])
    lifetimes = Lifetimes.of(replace(sweep, first=first, events=events), first)
    # A remove of a file that was not live has no effect, although the sweep ends the file at it.
    was_there = pc.is_in(lifetimes.files["key"], value_set=start["key"]).to_numpy()
    real = (lifetimes.born > first) | was_there
    files = lifetimes.count(real)
    sizes = lifetimes.count(real, lifetimes.sizes())
    # Files without an action in the range were live in all of its versions.
    other_files = snapshot.num_files - int(files[0])
    other_bytes = snapshot.size_bytes - int(sizes[0])
    return {
        first + i: (other_files + int(files[i]), other_bytes + int(sizes[i]))
        for i in range(last - first + 1)
    }


def _named_files(sweep: LogSweep, snapshot: Snapshot) -> pa.Table:
    """Return an add, at the version of the snapshot, for each of its files with a later action.

    So a file that a later commit adds again (for example with statistics or row ids) does not count
    as a new file.
    """
    named = pc.unique(sweep.events["key"])
    parts = [EVENTS.empty_table()]
    for batch in snapshot.file_batches(_NAMED):
        keys = file_keys(batch)
        hit = pc.is_in(keys, value_set=named)
        rows = pc.sum(hit).as_py() or 0
        parts.append(
            pa.table(
                [
                    batch["path"].filter(hit),
                    pa.nulls(rows, pa.string()),
                    keys.filter(hit),
                    text_keys(batch).filter(hit),
                    batch["size_bytes"].filter(hit),
                    pa.array(np.full(rows, snapshot.version)),
                    pa.array(np.ones(rows, np.bool_)),
                    pa.nulls(rows, pa.int64()),
                ],
                schema=EVENTS,
            )
        )
    return pa.concat_tables(parts)
