"""Choose the files of a layout run, and which of them form a cluster. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.layout.tags import (
    CLUSTER_TAG,
    CUBE_TAG,
    RUN_TAG,
    has_layout,
    number_tags,
)
from deltactl.protocol.partitions import lookup_map
from deltactl.units import GIB

MAX_CLUSTER_BYTES: Final = 150 * GIB
"""Maximum input bytes of a cluster; cubes of Delta on Spark have the same maximum."""

# A part of a cluster must fill at least this many files: lookups skip nothing within one file.
_LEAST_FILES: Final = 4

Array = np.ndarray[Any, Any]


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


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """The layout part of a plan.

    ``files_after``: the expected number of outputs of each cluster. ``placed_bytes``: bytes of
    inputs that already have the layout and are rewritten together with others. A plain run keeps
    layouts that differ between partitions, and merges files without a layout: then ``requests`` has
    the layout of each bin, and ``request`` is the first of them.
    """

    request: LayoutRequest
    files_after: tuple[int, ...]
    placed_bytes: int
    requests: tuple[LayoutRequest | None, ...] = ()

    def request_of(self, number: int) -> LayoutRequest | None:
        """Return the layout of a bin; ``None`` if its files are only merged."""
        return self.requests[number] if self.requests else self.request


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """The considered files: whether they have the wanted layout, and their cluster or run.

    ``clusters`` is -1 for files without the layout.
    """

    is_placed: Array
    clusters: Array

    @classmethod
    def of(cls, files: pa.Table, request: LayoutRequest) -> Placed:
        """Read the tags of files."""
        is_placed = has_layout(files, request)
        tag = {"zorder": RUN_TAG, "cluster": CLUSTER_TAG, "liquid": CUBE_TAG}[request.kind]
        numbers, _ = number_tags(lookup_map(files["tags"], tag))
        return cls.from_numbers(is_placed, numbers)

    @classmethod
    def from_numbers(cls, is_placed: Array, numbers: Array) -> Placed:
        """Return files by their clusters; files without a cluster are not placed."""
        is_placed = is_placed & (numbers >= 0)
        return cls(is_placed, np.where(is_placed, numbers, -1))

    def find_finished(self, sizes: Array, min_bytes: int) -> Array:
        """Return the files of clusters that are large enough."""
        totals = np.zeros(self.clusters.max(initial=-1) + 1, np.int64)
        np.add.at(totals, self.clusters[self.is_placed], sizes[self.is_placed])
        finished = np.zeros(len(sizes), np.bool_)
        rows = np.flatnonzero(self.is_placed)
        finished[rows] = totals[self.clusters[rows]] >= min_bytes
        return finished

    def find_singletons(self, candidates: Array, groups: Array) -> Array:
        """Return the candidates of partitions whose candidates are of one cluster only."""
        rows = np.flatnonzero(candidates)
        count = int(groups.max(initial=-1)) + 1
        least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
        np.minimum.at(least, groups[rows], self.clusters[rows])
        np.maximum.at(most, groups[rows], self.clusters[rows])
        is_one = (least == most) & (least >= 0)
        return np.asarray(candidates & is_one[groups])


def divide_clusters(sizes: Array, most_bytes: int = MAX_CLUSTER_BYTES) -> Array:
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


def count_outputs(cluster_bytes: Array, target_bytes: int) -> Array:
    """Return the number of outputs of clusters, with about the target size."""
    return np.asarray(np.maximum(1, (cluster_bytes + target_bytes // 2) // target_bytes))
