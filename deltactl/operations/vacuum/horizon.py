"""Find the versions that a vacuum makes unreadable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.audit.commit_doubts import restore_commit
from deltactl.log.commits.events import CommitScan
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.lifetimes import Lifetimes, VersionRange, version_ranges
from deltactl.log.physical_names import locate, locate_rows, needs_mask
from deltactl.numpy_types import Flags
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class Horizon:
    """Ranges of versions, both ends included.

    ``readable``: versions that are readable now, as far as known; ``ends``: versions that become
    unreadable through this run. Keeping them needs ``cost_bytes``; ``costs`` has the bytes for each
    of the newest of them separately. ``change_data_ends``: versions that lose change data files
    through this run; the log may be unable to rebuild them.
    """

    first_version: int
    last_version: int
    readable: tuple[VersionRange, ...] = ()
    ends: tuple[VersionRange, ...] = ()
    change_data_ends: tuple[VersionRange, ...] = ()
    cost_bytes: int = 0
    costs: tuple[tuple[int, int], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Absent:
    """Files that do not exist after a vacuum.

    ``planned`` are files to delete, with ``path`` and ``size_bytes``; ``missing`` are names of
    files that do not exist now, and ``lost`` those of live files that do not, or have another size.
    """

    planned: pa.Table
    missing: pa.ChunkedArray
    lost: pa.ChunkedArray


_SHOWN_COSTS = 100


def find_horizon(
    store: Store,
    scan: CommitScan,
    first: int,
    absent: Absent,
    *,
    current: int | None,
    doubt: str | None,
    has_feed: bool,
) -> Horizon:
    """Return the effect of deleting the planned files on the versions from ``first`` on.

    ``first`` is the oldest version that the log can rebuild, where ``scan`` begins or after it.
    ``current`` was current at the cutoff. ``doubt`` is a text about a commit that may be damaged.
    ``has_feed``: the table has a change data feed.

    Raises:
        SafetyError: by the commits, ``current`` or a later version needs a planned file.
    """
    planned, lost = absent.planned, absent.lost
    gone = pa.chunked_array([*absent.missing.chunks, *lost.chunks], pa.string())
    touched = _touched(store, scan, [*planned["path"].chunks, *gone.chunks])
    lifetimes = Lifetimes.of(touched, first)
    now_gone = lifetimes.mask(gone)
    hit = lifetimes.mask(planned["path"].combine_chunks())
    _ensure_expired(store, lifetimes, hit, first if current is None else current, doubt)
    readable = lifetimes.count(now_gone) == 0
    if _has_older(lifetimes, lost):
        readable[:] = False
    needs = _of_planned(lifetimes, planned)
    every = np.ones(needs.files.num_rows, np.bool_)
    ends = readable & (needs.count(every) > 0)
    costs = needs.count(every, pc.fill_null(needs.files["size_bytes"], 0).to_numpy())
    ended = np.flatnonzero(ends)[-_SHOWN_COSTS:]
    return Horizon(
        first,
        lifetimes.last,
        tuple(version_ranges(first, readable)),
        tuple(version_ranges(first, ends)),
        tuple(_change_data_ends(store, scan, planned, has_feed=has_feed)),
        _needed_bytes(needs, ends, planned),
        tuple((first + int(v), int(costs[v])) for v in ended[::-1]),
    )


def _change_data_ends(
    store: Store, scan: CommitScan, planned: pa.Table, *, has_feed: bool
) -> list[VersionRange]:
    """Return the versions that wrote planned files of change data, or removed planned files.

    The files that a commit without change data files removed are its change data. Source:
    PROTOCOL.md, "Reader Requirements for Change Data Files".
    """
    changes, events = scan.change_files, scan.events
    named = [(changes["path"], changes["version"])]
    if has_feed:
        is_removed = pc.and_(pc.invert(events["is_add"]), events["is_change"])
        has_files = pc.is_in(events["version"], value_set=changes["version"])
        removes = events.filter(pc.and_(is_removed, pc.invert(has_files)))
        named += [(removes[name], removes["version"]) for name in ("path", "vector_file")]
    flags = np.zeros(scan.last - scan.first + 1, np.bool_)
    for names, versions in named:
        hit = pc.is_in(locate(store, names), value_set=planned["path"], skip_nulls=True)
        flags[versions.filter(hit).to_numpy() - scan.first] = True
    return version_ranges(scan.first, flags)


def _ensure_expired(
    store: Store, lifetimes: Lifetimes, hit: Flags, current: int, doubt: str | None
) -> None:
    """Raise an error if a planned file is live in ``current`` or later: a checkpoint lacks it.

    If a commit may be damaged, the checkpoint is probably right: the commit may have lost removes.
    """
    needed = np.flatnonzero(hit & (lifetimes.died > current))
    if not len(needed):
        return
    name = lifetimes.files["path"][int(needed[0])].as_py()
    lack = (
        f"a checkpoint of {store.uri} lacks files that the commits contain ({len(needed):,}, for "
        f"example {name!r}), so this run would remove files that are still needed"
    )
    if doubt is not None:
        raise SafetyError(
            f"{doubt}. Perhaps because of this, {lack} by the commits",
            hint=restore_commit() + " Then rerun. Nothing was removed.",
        )
    raise SafetyError(
        lack,
        hint="Run `deltactl checkpoint TABLE --repair`, then rerun. If the repair refuses, restore "
        "the file that it names from a backup first. Nothing was removed.",
    )


def _has_older(lifetimes: Lifetimes, live: pa.ChunkedArray) -> bool:
    """Return whether a live file has no action in the range: all versions need it."""
    files = lifetimes.files
    known = pa.chunked_array([*files["path"].chunks, *files["vector_file"].chunks], pa.string())
    return pc.all(pc.is_in(live, value_set=known)).as_py() is False


def _touched(store: Store, scan: CommitScan, chunks: list[pa.Array]) -> CommitScan:
    """Return all events of the keys of planned or missing files, with physical names.

    Other events have no effect. Names outside of the root stay as they are.
    """
    events = locate_rows(store, scan.events)
    hit = needs_mask(events, pa.chunked_array(chunks, pa.string()))
    keys = pc.unique(events["key"].filter(hit))
    return replace(scan, events=events.filter(pc.is_in(events["key"], value_set=keys)))


def _of_planned(lifetimes: Lifetimes, planned: pa.Table) -> Lifetimes:
    """Return in which versions each planned file is needed; ``files`` are rows of ``planned``.

    A file can have several rows, but only one in each version, even if several data files have
    their deletion vectors in it.
    """
    names = [chunk for it in ("path", "vector_file") for chunk in lifetimes.files[it].chunks]
    places = pc.index_in(pa.chunked_array(names, pa.string()), value_set=planned["path"])
    rows = np.flatnonzero(places.is_valid().to_numpy()) % len(lifetimes.born)
    files = places.drop_null().to_numpy().astype(np.int64)
    order = np.lexsort((lifetimes.born[rows], files))
    rows, files = rows[order], files[order]
    born, died = lifetimes.born[rows], lifetimes.died[rows]
    # With these offsets, all versions of a file are greater than those of the files before it.
    offsets = files * (lifetimes.last + 2)
    covered = np.maximum.accumulate(died + offsets)
    born[1:] = np.maximum(born[1:], covered[:-1] - offsets[1:])
    kept = born < died
    return replace(lifetimes, files=planned.take(files[kept]), born=born[kept], died=died[kept])


def _needed_bytes(needs: Lifetimes, ends: Flags, planned: pa.Table) -> int:
    """Return the bytes of the planned files that the ended versions need, each file once."""
    before = np.concatenate([[0], np.cumsum(ends)])
    needed = before[needs.died - needs.first] > before[needs.born - needs.first]
    paths = pc.unique(needs.files["path"].filter(pa.array(needed)))
    return sum_sizes(planned.filter(pc.is_in(planned["path"], value_set=paths)))
