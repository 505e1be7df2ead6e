"""Find the versions that removed the files kept for time travel, and when these become removable.

A vacuum removes a file if all of these are before its cutoff: the commit that removed the file, the
time in its tombstone, and the time of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.physical_names import locate
from deltactl.numpy_types import Integers
from deltactl.operations.storage.reasons import sum_uses
from deltactl.operations.storage.report import Use, VersionUse
from deltactl.operations.vacuum.planner import Planner
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.units import DAY_MS, HOUR_MS

_NONE: Final = -1
_REMOVALS: Final = pa.schema(
    [("path", pa.string()), ("version", pa.int64()), ("removed_ms", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Expiry:
    """For each kept file: its size, the version that removed it, and when that was.

    ``old_ms`` is the time since which nothing but the retention keeps it. -1 is unknown.
    """

    sizes: Integers
    versions: Integers
    removed_ms: Integers
    old_ms: Integers

    def by_version(self, retain_ms: int) -> list[VersionUse]:
        """Return the files by the version that removed them, the newest first."""
        versions, groups = np.unique(self.versions, return_inverse=True)
        removed, old = (np.full(len(versions), _NONE, np.int64) for _ in range(2))
        np.maximum.at(removed, groups, self.removed_ms)
        np.maximum.at(old, groups, self.old_ms)
        uses = sum_uses(groups, self.sizes, len(versions))
        rows = zip(versions.tolist(), removed.tolist(), old.tolist(), uses, strict=True)
        found = [
            VersionUse(
                None if version == _NONE else version,
                None if removed_ms == _NONE else removed_ms,
                None if old_ms == _NONE else old_ms + retain_ms,
                use,
            )
            for version, removed_ms, old_ms, use in rows
        ]
        return found[::-1]

    def by_day(self, retain_ms: int, now_ms: int) -> list[tuple[int, Use]]:
        """Return days since 1970 on which files become removable, today or later, ascending."""
        is_known = self.old_ms != _NONE
        times = np.maximum(self.old_ms[is_known] + retain_ms, now_ms)
        days, groups = np.unique(times // DAY_MS, return_inverse=True)
        uses = sum_uses(groups, self.sizes[is_known], len(days))
        return list(zip(days.tolist(), uses, strict=True))

    def find_retention(self, least_bytes: int, now_ms: int) -> int | None:
        """Return the longest retention, in whole hours, that frees so many bytes of these files.

        ``None``: no retention of an hour or more does.
        """
        known = np.flatnonzero(self.old_ms != _NONE)
        order = known[np.argsort(self.old_ms[known])]
        freed = np.cumsum(self.sizes[order])
        at = int(np.searchsorted(freed, least_bytes))
        if at == len(order):
            return None
        longest = max(now_ms - int(self.old_ms[order[at]]), 0)
        return longest // HOUR_MS * HOUR_MS or None


def find_expiry(planner: Planner, files: pa.Table) -> Expiry:
    """Return when files that only the retention keeps were removed; rows of a listing."""
    names = files["path"]
    versions, removed = _latest(names, _removals(planner))
    unknown = removed == _NONE
    if unknown.any():
        # The log has no commit of the removal any more, but perhaps a tombstone in a checkpoint.
        left = names.filter(pa.array(unknown))
        removed[unknown] = _latest(left, _tombstones(planner))[1]
    old = np.maximum(removed, files["modified_ms"].to_numpy())
    old[removed == _NONE] = _NONE
    return Expiry(files["size_bytes"].to_numpy(), versions, removed, old)


def _latest(names: pa.ChunkedArray, removals: Iterable[pa.Table]) -> tuple[Integers, Integers]:
    """Return version and time of the newest removal of each name; -1 if it is unknown."""
    found = [
        rows.filter(pc.is_in(rows["path"], value_set=names, skip_nulls=True)) for rows in removals
    ]
    newest = [("version", "descending"), ("removed_ms", "descending")]
    rows = pa.concat_tables([_REMOVALS.empty_table(), *found]).sort_by(newest)
    at = pc.index_in(names, value_set=rows["path"])
    columns = (pc.fill_null(rows[name].take(at), _NONE) for name in ("version", "removed_ms"))
    versions, removed = (np.array(column.to_numpy()) for column in columns)
    return versions, removed


def _removals(planner: Planner) -> Iterator[pa.Table]:
    """Yield the removals in commits, and the change data, which its own commit makes old."""
    log, store = planner.log, planner.snapshot.store
    scan = log.events(planner.snapshot, log.first_commit, planner.events)
    times = log.commit_times()
    since = planner.snapshot.properties.in_commit_since
    columns = ["path", "vector_file", "version", "deletion_timestamp_ms"]
    removes = scan.events.select(columns).filter(pc.invert(scan.events["is_add"]))
    changes = scan.change_files
    noted = removes["deletion_timestamp_ms"]
    for paths, versions, noted_ms in (
        (removes["path"], removes["version"], noted),
        (removes["vector_file"], removes["version"], noted),
        (changes["path"], changes["version"], pa.nulls(changes.num_rows, pa.int64())),
    ):
        committed = _commit_times(times, versions)
        latest = pc.max_element_wise(noted_ms, committed)
        if since is not None:
            # The tombstone has a time closer to the in-commit timestamp than the file has.
            is_timed = pc.and_(pc.greater_equal(versions, since), pc.is_valid(noted_ms))
            latest = pc.if_else(is_timed, noted_ms, latest)
        yield pa.table([locate(store, paths), versions, latest], schema=_REMOVALS)


def _commit_times(times: Mapping[int, int], versions: pa.ChunkedArray) -> pa.ChunkedArray:
    distinct = pc.unique(versions)
    known = pa.array([times[version] for version in distinct.to_pylist()], pa.int64())
    return known.take(pc.index_in(versions, value_set=distinct))


def _tombstones(planner: Planner) -> Iterator[pa.Table]:
    store = planner.snapshot.store
    columns = ("path", "deletion_vector", "deletion_timestamp_ms")
    for batch in planner.snapshot.tombstone_batches(columns):
        for paths in (batch["path"], vector_files(batch["deletion_vector"])):
            unknown = pa.nulls(batch.num_rows, pa.int64())
            located = locate(store, paths)
            yield pa.table([located, unknown, batch["deletion_timestamp_ms"]], schema=_REMOVALS)
