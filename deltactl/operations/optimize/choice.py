"""Decide which files an optimize rewrites, and which of them form a bin. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.optimize.clustered import clustered_mask
from deltactl.operations.optimize.layout.existing import Kept, find_kept
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.layout.select import ClusterLimit, Placed, divide_clusters
from deltactl.operations.optimize.layout.tags import is_clustered_otherwise
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.packing import PackingRule, pack
from deltactl.operations.optimize.purge import purge_mask
from deltactl.operations.partition_groups import PartitionGroups
from deltactl.protocol.partitions import lookup_map
from deltactl.units import GIB, KIB, MIB, format_count

TARGET_TAG = "deltactl.targetFileSize"
"""Tag of an output: the target size in bytes at the time of writing."""

IN_LAYOUT = "already in this layout"

Array = np.ndarray[Any, Any]


def rows_of(bins: list[Array]) -> Array:
    """Return the rows of all bins, one after another."""
    return np.concatenate(bins) if bins else np.empty(0, dtype=np.int64)


def bin_sizes(sizes: Array, bins: list[Array]) -> Array:
    """Return the bytes of each bin, none of which is empty."""
    if not bins:
        return np.empty(0, dtype=np.int64)
    lengths = np.fromiter(map(len, bins), np.int64, len(bins))
    return np.asarray(np.add.reduceat(sizes[rows_of(bins)], np.cumsum(lengths) - lengths))


class Choice:
    """The considered files, and the decisions made about each so far."""

    def __init__(self, files: pa.Table, groups: PartitionGroups) -> None:
        self.files, self.groups = files, groups
        self.sizes: Array = pc.fill_null(files["size_bytes"], 0).to_numpy()
        self.candidates: Array = np.ones(files.num_rows, dtype=np.bool_)
        self.forced: Array = np.zeros(files.num_rows, dtype=np.bool_)
        self.settled: Array = np.zeros(files.num_rows, dtype=np.bool_)
        self.left_alone: dict[str, int] = {}

    def leave(self, mask: Array, reason: str) -> None:
        """Remove files from the candidates, and count them by reason."""
        hit = self.candidates & mask
        self.candidates &= ~mask
        self.left_alone[reason] = self.left_alone.get(reason, 0) + int(hit.sum())


def select(
    choice: Choice,
    log: DeltaLog,
    snapshot: Snapshot,
    options: OptimizeOptions,
    *,
    sizes: tuple[int, int],
    now_ms: int,
) -> Kept | None:
    """Decide which files are candidates, forced, or already written for this target.

    Returns:
        the layouts that are kept; ``None`` if the run keeps none.
    """
    target, minimum = sizes
    files = choice.files
    leave_hot(choice, options, now_ms)
    if options.purge:
        wanted = purge_mask(snapshot, files)
        choice.leave(~wanted, "nothing to purge")
        choice.forced |= wanted
        return None
    kept = find_kept(snapshot, files, choice.groups) if options.keeps_layouts else None
    marked = clustered_mask(log, snapshot, files)
    if kept is not None:
        marked = marked & ~kept.placed.is_placed
    choice.leave(marked, "clustered or Z-ordered (rewrite with --cluster-by or --full)")
    choice.forced |= _over_ratio(files, options.max_deleted_rows_ratio)
    tags = lookup_map(files["tags"], TARGET_TAG)
    choice.settled |= pc.fill_null(pc.equal(tags, str(target)), False).to_numpy()
    is_large = choice.sizes >= minimum
    if kept is not None:
        limit = ClusterLimit.of(options.max_bytes, target)
        _leave_placed(choice, kept, is_large, limit.finished(minimum))
        is_large &= ~kept.is_laid[choice.groups.ids]
    choice.leave(is_large & ~choice.forced, "large enough")
    return kept


def _leave_placed(choice: Choice, kept: Kept, is_large: Array, finished_bytes: int) -> None:
    """Exclude the files of a kept layout, except small files that can be merged with others.

    If a cluster fills more than one file, its files are merged only for another target size.
    Otherwise each run would write them again.
    """
    placed = kept.placed
    finished = placed.find_finished(choice.sizes, finished_bytes) & choice.settled
    done = placed.is_placed & (is_large | finished)
    choice.leave(done & ~choice.forced, IN_LAYOUT)
    _leave_alone(choice, placed)


def _leave_alone(choice: Choice, placed: Placed) -> None:
    """Exclude the files of partitions in which only files of one cluster remain."""
    ids = choice.groups.ids
    is_forced = np.zeros(choice.groups.num_groups, dtype=np.bool_)
    is_forced[ids[choice.forced & choice.candidates]] = True
    choice.leave(placed.find_singletons(choice.candidates, ids) & ~is_forced[ids], IN_LAYOUT)


def leave_hot(choice: Choice, options: OptimizeOptions, now_ms: int) -> None:
    """Exclude partitions that were written to recently."""
    if options.skip_hot_ms is not None:
        times = choice.files["modification_time_ms"]
        newest = choice.groups.newest(pc.fill_null(times, 0).to_numpy())
        hot = newest[choice.groups.ids] > now_ms - options.skip_hot_ms
        choice.leave(hot, "in a recently written partition")


def select_for_layout(
    choice: Choice, request: LayoutRequest, options: OptimizeOptions, limit: ClusterLimit
) -> Placed:
    """Exclude files that already have the layout."""
    placed = Placed.of(choice.files, request)
    if options.full:
        return placed
    if request.kind == "liquid":
        otherwise = is_clustered_otherwise(choice.files, request)
        choice.leave(otherwise, "clustered by other columns (rewrite with --full)")
    choice.forced |= _over_ratio(choice.files, options.max_deleted_rows_ratio)
    if request.kind != "zorder":
        least = limit.finished(options.min_cluster_bytes)
        finished = placed.find_finished(choice.sizes, least)
        choice.leave(finished & ~choice.forced, "in a finished cluster")
    _leave_alone(choice, placed)
    return placed


def pack_bins(
    choice: Choice, kept: Kept | None, rule: PackingRule, limit: ClusterLimit
) -> tuple[list[Array], Kept | None]:
    """Return the bins of a plain run as row indices, by partition, and which layouts they keep.

    The files of a partition with a layout are placed together. If a partition has no placed files
    yet, all its files are placed if all would be rewritten; otherwise the remaining files would
    count as new files of a placed partition in the next run.
    """
    if kept is None or not kept.is_laid.any():
        return pack_groups(choice, choice.candidates, rule), kept
    ids, num_groups = choice.groups.ids, choice.groups.num_groups
    in_laid = kept.is_laid[ids]
    packed = pack_groups(choice, choice.candidates & ~in_laid, rule)
    counts = np.bincount(ids[rows_of(packed)], minlength=num_groups)
    is_whole = counts == np.bincount(ids, minlength=num_groups)
    kept = replace(kept, of_group=np.where(kept.is_laid | is_whole, kept.of_group, -1))
    is_placed = kept.of_group >= 0
    joined = [members for members in packed if not is_placed[ids[members[0]]]]
    chosen = choice.candidates & in_laid
    chosen[rows_of([members for members in packed if is_placed[ids[members[0]]]])] = True
    bins = [*joined, *divide_groups(choice, chosen, kept.placed, limit)]
    return sorted(bins, key=lambda members: int(ids[members[0]])), kept


def divide_groups(
    choice: Choice, chosen: Array, placed: Placed, limit: ClusterLimit, *, full: bool = False
) -> list[Array]:
    """Return clusters as row indices: files of a partition, with its unfinished clusters.

    If a partition is divided, parts of one unfinished cluster are left as they are, unless
    ``full``.
    """
    rows = np.flatnonzero(chosen)
    order = pc.sort_indices(
        pa.table(
            {
                "group": pa.array(choice.groups.ids[rows]),
                "cluster": pa.array(placed.clusters[rows]),
                "time": choice.files["modification_time_ms"].take(pa.array(rows)),
                "path": choice.files["path"].take(pa.array(rows)),
            }
        ),
        sort_keys=[(name, "ascending") for name in ("group", "cluster", "time", "path")],
    ).to_numpy()
    rows = rows[order]
    edges = np.flatnonzero(np.diff(choice.groups.ids[rows])) + 1
    clusters: list[Array] = []
    for part in np.split(rows, edges):
        numbers = divide_clusters(choice.sizes[part], limit.most_bytes)
        pieces = np.split(part, np.flatnonzero(np.diff(numbers)) + 1)
        clusters += [piece for piece in pieces if len(piece)]
    if full:
        return clusters
    alone = [part for part in clusters if _is_of_one_cluster(choice, placed, part)]
    mask = np.zeros(choice.files.num_rows, np.bool_)
    mask[rows_of(alone)] = True
    choice.leave(mask, IN_LAYOUT)
    return [part for part in clusters if not mask[part[0]]]


def _is_of_one_cluster(choice: Choice, placed: Placed, part: Array) -> bool:
    """Return whether placing these files again would change nothing."""
    numbers = placed.clusters[part]
    is_one = numbers[0] >= 0 and bool((numbers == numbers[0]).all())
    return is_one and not choice.forced[part].any()


def _over_ratio(files: pa.Table, ratio: float) -> Array:
    """Return files with more than ``ratio`` of their rows deleted, or an unknown ratio."""
    vectors = files["deletion_vector"]
    deleted = pc.cast(pc.struct_field(vectors, "cardinality"), pa.float64(), safe=False)
    share = pc.divide(deleted, pc.cast(files["num_records"], pa.float64(), safe=False))
    over = pc.if_else(pc.is_null(share), vectors.is_valid(), pc.greater(share, ratio))
    return np.asarray(pc.fill_null(over, False))


def pack_groups(choice: Choice, candidates: Array, rule: PackingRule) -> list[Array]:
    """Return bins as row indices, partition by partition, files in ingestion order."""
    rows = np.flatnonzero(candidates)
    order = pc.sort_indices(
        pa.table(
            {
                "group": pa.array(choice.groups.ids[rows]),
                "time": choice.files["modification_time_ms"].take(pa.array(rows)),
                "path": choice.files["path"].take(pa.array(rows)),
            }
        ),
        sort_keys=[("group", "ascending"), ("time", "ascending"), ("path", "ascending")],
    ).to_numpy()
    rows = rows[order]
    edges = np.flatnonzero(np.diff(choice.groups.ids[rows])) + 1
    bins: list[Array] = []
    for part in np.split(rows, edges):
        if len(part) >= rule.min_input_files or choice.forced[part].any():
            packed = pack(choice.sizes[part], choice.settled[part], choice.forced[part], rule)
            bins += [part[members] for members in packed]
    packed_rows = rows_of(bins)
    settled_left = int((choice.settled & candidates).sum())
    settled_left -= int(choice.settled[packed_rows].sum())
    choice.left_alone["already written for this target size"] = settled_left
    choice.left_alone["not worth a rewrite yet"] = len(rows) - len(packed_rows) - settled_left
    return bins


def limit_bytes(
    choice: Choice, bins: list[Array], max_bytes: int | None, limit: ClusterLimit, warn: Warn
) -> list[Array]:
    """Return the bins that save most files per byte within a limit, in partition order.

    A bin that exceeds the limit is never selected: the reason and a warning say what to do.
    """
    if max_bytes is None:
        return bins
    weights = bin_sizes(choice.sizes, bins).tolist()
    gain = [(1 - len(b)) / max(weight, 1) for b, weight in zip(bins, weights, strict=True)]
    taken: set[int] = set()
    left = max_bytes
    for index in sorted(range(len(bins)), key=lambda i: (gain[i], i)):
        if weights[index] <= left:
            taken.add(index)
            left -= weights[index]
    too_large = {i for i, weight in enumerate(weights) if weight > max_bytes}
    dropped = sum(len(bins[i]) for i in range(len(bins)) if i not in taken | too_large)
    choice.left_alone["over --max-bytes"] = dropped
    if too_large:
        files = sum(len(bins[i]) for i in too_large)
        _explain_too_large(choice, files, max(weights), limit, warn)
    return [bins[i] for i in sorted(taken)]


def _explain_too_large(
    choice: Choice, files: int, largest_bytes: int, limit: ClusterLimit, warn: Warn
) -> None:
    needed = largest_bytes
    if limit.parts_bytes is not None:
        needed = min(needed, limit.parts_bytes)
    size = _round_up(needed)
    choice.left_alone[f"in bins larger than --max-bytes (raise it to {size})"] = files
    warn(
        f"{format_count(files, 'file is', 'files are')} not rewritten, because their bins are "
        f"larger than --max-bytes; raise --max-bytes to {size} or more"
    )


def _round_up(size_bytes: int) -> str:
    """Return the next size in whole units, as in an option."""
    units = {"GiB": GIB, "MiB": MIB, "KiB": KIB}
    name = next((name for name, unit in units.items() if size_bytes >= 16 * unit), "B")
    return f"{-(-size_bytes // units.get(name, 1))}{name}"
