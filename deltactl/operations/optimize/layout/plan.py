"""Find the layout of each partition from tags; give each bin its layout and its outputs. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags, Integers
from deltactl.operations.file_sizes import sum_groups
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.layout.tags import (
    CLUSTER_TAG,
    CUBE_TAG,
    RUN_TAG,
    has_layout,
    number_layouts,
    number_tags,
)
from deltactl.operations.partition_groups import PartitionGroups
from deltactl.protocol.partitions import lookup_map
from deltactl.units import GIB

_CLUSTER_TAGS = {"zorder": RUN_TAG, "cluster": CLUSTER_TAG, "liquid": CUBE_TAG}

MAX_CLUSTER_BYTES: Final = 150 * GIB
"""Maximum input bytes of a cluster; cubes of Delta on Spark have the same maximum."""

# A part of a cluster must fill at least this many files: lookups skip nothing within one file.
_LEAST_FILES: Final = 4


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """The layout part of a plan.

    ``request``: the requested layout, else the first one that is kept. ``requests``: the layout of
    each bin; ``None`` if its files are only merged. ``files_after``: the expected number of outputs
    of each bin. ``placed_bytes``: bytes of inputs that already have the layout and are rewritten
    together with others.
    """

    request: LayoutRequest
    requests: tuple[LayoutRequest | None, ...]
    files_after: tuple[int, ...]
    placed_bytes: int


def plan_layout(
    request: LayoutRequest | None,
    layouts: ExistingLayout,
    groups: Integers,
    *,
    sizes: Integers,
    assigned: Integers,
    target_bytes: int,
) -> LayoutPlan | None:
    """Return the layouts of bins; ``None`` if none is requested or kept.

    Of each bin, ``groups`` has the partition, ``sizes`` the input bytes, and ``assigned`` those of
    them that already have the layout.
    """
    requests = tuple(layouts.request_of(group) for group in groups.tolist())
    first = request or next((kept for kept in requests if kept is not None), None)
    if first is None:
        return None
    is_placed = np.array([kept is not None for kept in requests], dtype=np.bool_)
    files_after = np.where(is_placed, count_outputs(sizes, target_bytes), 1)
    return LayoutPlan(first, requests, tuple(files_after.tolist()), int(assigned.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class ExistingLayout:
    """The layout of each partition.

    ``of_group``: for each partition an index into ``requests``, or -1 for none. ``is_laid`` are the
    partitions whose files are all placed if they are rewritten, except those that already are.
    ``clusters``: the cluster or run of each file that has the layout of its partition; -1 for other
    files, and those without a tag of it.
    """

    requests: tuple[LayoutRequest, ...]
    of_group: Integers
    is_laid: Flags
    clusters: Integers

    @classmethod
    def none(cls, files: pa.Table, groups: PartitionGroups) -> ExistingLayout:
        """Return partitions without a layout."""
        of_group = np.full(groups.num_groups, -1)
        return cls((), of_group, of_group >= 0, np.full(files.num_rows, -1))

    @classmethod
    def of_request(
        cls, files: pa.Table, groups: PartitionGroups, request: LayoutRequest
    ) -> ExistingLayout:
        """Return partitions that all have the layout of the options or of the table."""
        clusters = _read_clusters(files, has_layout(files, request), _CLUSTER_TAGS[request.kind])
        of_group = np.zeros(groups.num_groups, np.int64)
        return cls((request,), of_group, of_group >= 0, clusters)

    @classmethod
    def of_tags(
        cls, snapshot: Snapshot, files: pa.Table, groups: PartitionGroups
    ) -> ExistingLayout:
        """Return the layouts that a run without a layout option keeps.

        The layout of a partition is that of its newest file with tags. If a partition has no such
        file, it is the layout that all other partitions have in common.
        """
        numbers, requests = number_layouts(snapshot, files)
        of_group = _newest(numbers, files, groups)
        is_laid = of_group >= 0
        used = np.unique(of_group[is_laid])
        if len(used) == 1:
            of_group = np.full(groups.num_groups, used[0])
        has_layout = (numbers >= 0) & (numbers == of_group[groups.ids])
        return cls(requests, of_group, is_laid, _read_clusters(files, has_layout, CLUSTER_TAG))

    @property
    def is_placed(self) -> Flags:
        """Return the files that have the layout of their partition."""
        return np.asarray(self.clusters >= 0)

    def find_finished(self, sizes: Integers, min_bytes: int) -> Flags:
        """Return the files of clusters that are large enough."""
        mask = self.is_placed
        _, totals = sum_groups(self.clusters[mask], sizes[mask], self.clusters.max(initial=-1) + 1)
        mask[mask] = totals[self.clusters[mask]] >= min_bytes
        return mask

    def request_of(self, group: int) -> LayoutRequest | None:
        """Return the layout of a partition, if it has one."""
        number = int(self.of_group[group])
        return None if number < 0 else self.requests[number]


def _read_clusters(files: pa.Table, has_layout: Flags, tag: str) -> Integers:
    clusters, _ = number_tags(lookup_map(files["tags"], tag))
    return np.where(has_layout, clusters, -1)


def _newest(numbers: Integers, files: pa.Table, groups: PartitionGroups) -> Integers:
    """Return for each partition the layout number of its newest file with a layout; -1 for none."""
    times = pc.fill_null(files["modification_time_ms"], 0).to_numpy()
    rows = np.flatnonzero(numbers >= 0)
    rows = rows[np.lexsort((numbers[rows], times[rows]))]
    found = np.full(groups.num_groups, -1)
    found[groups.ids[rows]] = numbers[rows]  # the last one of a partition wins
    return found


@dataclass(frozen=True, slots=True)
class ClusterLimit:
    """The maximum input bytes of a cluster.

    ``parts_bytes``: from this maximum on, larger clusters are divided; ``None``: they never are.
    """

    most_bytes: int = MAX_CLUSTER_BYTES
    parts_bytes: int | None = None

    @classmethod
    def of(cls, max_bytes: int | None, target_bytes: int, *, divides: bool = True) -> ClusterLimit:
        """Return the limit for a run of at most ``max_bytes``."""
        least = _LEAST_FILES * target_bytes if divides else None
        if max_bytes is None or least is None or max_bytes < least:
            return cls(parts_bytes=least)
        return cls(min(max_bytes, MAX_CLUSTER_BYTES), least)

    def finished(self, min_bytes: int) -> int:
        """Return the size in bytes at which a cluster counts as finished.

        Two unfinished clusters together are within the limit. Otherwise runs with the same limit
        would place the same rows again and again.
        """
        return min(min_bytes, self.most_bytes // 2)


def divide_clusters(sizes: Integers, most_bytes: int = MAX_CLUSTER_BYTES) -> Integers:
    """Return the cluster of each file of a partition, in order.

    Clusters have about the same bytes, and a maximum, which only single files exceed.
    """
    if not len(sizes):
        return np.empty(0, np.int64)
    ends = np.cumsum(sizes)
    count = max(1, -(-int(sizes.sum()) // most_bytes))
    even = int(sizes.sum()) // count + int(sizes.max(initial=0))
    starts = [0]
    while True:
        start = starts[-1]
        limit = ends[start] - sizes[start] + min(even, most_bytes)
        end = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        if end >= len(sizes):
            break
        starts.append(end)
    return np.repeat(np.arange(len(starts)), np.diff([*starts, len(sizes)]))


def count_outputs(cluster_bytes: Integers, target_bytes: int) -> Integers:
    """Return the number of outputs of clusters, with about the target size."""
    return np.asarray(np.maximum(1, (cluster_bytes + target_bytes // 2) // target_bytes))
