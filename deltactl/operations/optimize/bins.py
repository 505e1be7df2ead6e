"""Form bins of the candidates of each partition: the third step of a plan. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn
from deltactl.numpy_types import Flags, Integers
from deltactl.operations.optimize.candidates import Candidates
from deltactl.operations.optimize.exclusions import IN_LAYOUT
from deltactl.operations.optimize.layout.plan import ClusterLimit, ExistingLayout, divide_clusters
from deltactl.operations.optimize.packing import PackingRule, pack
from deltactl.option_names import option
from deltactl.parquet.splice.writer import ROOM_FOR_ROW_GROUPS
from deltactl.units import GIB, KIB, MIB, format_count


def rows_of(bins: list[Integers]) -> Integers:
    """Return the rows of all bins, one after another."""
    return np.concatenate(bins) if bins else np.empty(0, dtype=np.int64)


def bin_sizes(sizes: Integers, bins: list[Integers]) -> Integers:
    """Return the bytes of each bin, none of which is empty."""
    if not bins:
        return np.empty(0, dtype=np.int64)
    lengths = np.fromiter(map(len, bins), np.int64, len(bins))
    return np.asarray(np.add.reduceat(sizes[rows_of(bins)], np.cumsum(lengths) - lengths))


def pack_bins(
    candidates: Candidates,
    layouts: ExistingLayout,
    rule: PackingRule,
    limit: ClusterLimit,
    *,
    again: bool,
) -> tuple[list[Integers], ExistingLayout]:
    """Return the bins as row indices, by partition, and the layouts of partitions.

    The files of a partition with a layout are placed together. If a partition has no placed files
    yet, all its files are placed if all would be rewritten; otherwise the remaining files would
    count as new files of a placed partition in the next run.
    """
    ids, num_groups = candidates.groups.ids, candidates.groups.num_groups
    in_laid = layouts.is_laid[ids]
    packed = _merge_files(candidates, candidates.mask & ~in_laid, rule)
    if not in_laid.any():
        return packed, layouts
    counts = np.bincount(ids[rows_of(packed)], minlength=num_groups)
    is_whole = counts == np.bincount(ids, minlength=num_groups)
    of_group = np.where(layouts.is_laid | is_whole, layouts.of_group, -1)
    is_placed = of_group >= 0
    merged = [members for members in packed if not is_placed[ids[members[0]]]]
    placed = candidates.mask & in_laid
    placed[rows_of([members for members in packed if is_placed[ids[members[0]]]])] = True
    fewest = None if again else rule.fewest
    clusters = _form_clusters(candidates, placed, layouts.clusters, limit, fewest)
    bins = sorted([*merged, *clusters], key=lambda members: int(ids[members[0]]))
    return bins, replace(layouts, of_group=of_group)


def _form_clusters(
    candidates: Candidates,
    placed: Flags,
    assigned: Integers,
    limit: ClusterLimit,
    fewest: int | None,
) -> list[Integers]:
    """Return clusters as row indices: files of a partition, with its unfinished clusters.

    Parts of one unfinished cluster are left as they are, unless at least ``fewest`` of their files
    are outgrown. ``None``: all are placed again.
    """
    clusters: list[Integers] = []
    for part in _split_by_partition(candidates, placed, assigned):
        numbers = divide_clusters(candidates.sizes[part], limit.most_bytes)
        clusters += np.split(part, np.flatnonzero(np.diff(numbers)) + 1)
    if fewest is None:
        return clusters
    alone = [part for part in clusters if _is_of_one_cluster(candidates, assigned, part, fewest)]
    mask = np.zeros(len(placed), np.bool_)
    mask[rows_of(alone)] = True
    candidates.leave(mask, IN_LAYOUT)
    return [part for part in clusters if not mask[part[0]]]


def _is_of_one_cluster(
    candidates: Candidates, assigned: Integers, part: Integers, fewest: int
) -> bool:
    """Return whether placing these files again would change nothing."""
    numbers = assigned[part]
    is_one = numbers[0] >= 0 and bool((numbers == numbers[0]).all())
    is_changed = candidates.forced[part].any() or candidates.outgrown[part].sum() >= fewest
    return is_one and not is_changed


def _merge_files(candidates: Candidates, mask: Flags, rule: PackingRule) -> list[Integers]:
    """Return bins as row indices, partition by partition, files in ingestion order."""
    settled, forced = candidates.settled, candidates.forced
    bins: list[Integers] = []
    for part in _split_by_shape(candidates, mask):
        if len(part) >= rule.min_input_files or forced[part].any():
            packed = pack(candidates.sizes[part], settled[part], forced[part], rule)
            bins += [
                bin_ for members in packed for bin_ in _limit_groups(candidates, part[members])
            ]
    rest = mask.copy()
    rest[rows_of(bins)] = False
    candidates.left_alone["already written for this target size"] = int((settled & rest).sum())
    rest &= ~settled
    is_large = candidates.sizes > rule.most_bytes
    candidates.left_alone["too large to merge for this target size"] = int((rest & is_large).sum())
    candidates.left_alone["not worth a rewrite yet"] = int((rest & ~is_large).sum())
    return bins


def _split_by_shape(candidates: Candidates, mask: Flags) -> Iterator[Integers]:
    for part in _split_by_partition(candidates, mask, candidates.shapes):
        yield from np.split(part, np.flatnonzero(np.diff(candidates.shapes[part])) + 1)


def _limit_groups(candidates: Candidates, members: Integers) -> list[Integers]:
    """Return parts of a bin that have few enough row groups for one file."""
    numbers = np.cumsum(candidates.row_groups[members]) // (ROOM_FOR_ROW_GROUPS // 2)
    return np.split(members, np.flatnonzero(np.diff(numbers)) + 1)


def _split_by_partition(candidates: Candidates, mask: Flags, clusters: Integers) -> list[Integers]:
    """Return files as row indices by partition: by cluster, and then in ingestion order."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return []
    ids = candidates.groups.ids[rows]
    taken = pa.array(rows)
    keys = {
        "group": pa.array(ids),
        "cluster": pa.array(clusters[rows]),
        "time": candidates.files["modification_time_ms"].take(taken),
        "path": candidates.files["path"].take(taken),
    }
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    order = order.to_numpy()
    return np.split(rows[order], np.flatnonzero(np.diff(ids[order])) + 1)


def limit_bytes(
    candidates: Candidates,
    bins: list[Integers],
    max_bytes: int | None,
    limit: ClusterLimit,
    warn: Warn,
) -> list[Integers]:
    """Return the bins that save most files per byte within a limit, in partition order.

    A bin that exceeds the limit is never selected: the reason and a warning say what to do.
    """
    if max_bytes is None:
        return bins
    weights = bin_sizes(candidates.sizes, bins).tolist()
    gain = [(1 - len(b)) / max(weight, 1) for b, weight in zip(bins, weights, strict=True)]
    taken: set[int] = set()
    left = max_bytes
    for index in sorted(range(len(bins)), key=lambda i: (gain[i], i)):
        if weights[index] <= left:
            taken.add(index)
            left -= weights[index]
    too_large = {i for i, weight in enumerate(weights) if weight > max_bytes}
    dropped = sum(len(bins[i]) for i in range(len(bins)) if i not in taken | too_large)
    candidates.left_alone[f"over {option('max_bytes')}"] = dropped
    if too_large:
        files = sum(len(bins[i]) for i in too_large)
        _explain_too_large(candidates, files, max(weights), limit, warn)
    return [bins[i] for i in sorted(taken)]


def _explain_too_large(
    candidates: Candidates, files: int, largest_bytes: int, limit: ClusterLimit, warn: Warn
) -> None:
    needed = largest_bytes
    if limit.parts_bytes is not None:
        needed = min(needed, limit.parts_bytes)
    size = _round_up(needed)
    candidates.left_alone[f"in bins larger than {option('max_bytes')} (raise it to {size})"] = files
    warn(
        f"{format_count(files, 'file is', 'files are')} not rewritten, because their bins are "
        f"larger than {option('max_bytes')}; raise {option('max_bytes')} to {size} or more"
    )


def _round_up(size_bytes: int) -> str:
    """Return the next size in whole units, as in an option."""
    units = {"GiB": GIB, "MiB": MIB, "KiB": KIB}
    name = next((name for name, unit in units.items() if size_bytes >= 16 * unit), "B")
    return f"{-(-size_bytes // units.get(name, 1))}{name}"
