"""Limit and divide clusters by their bytes. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from deltactl.numpy_types import Integers
from deltactl.units import GIB

MAX_CLUSTER_BYTES: Final = 150 * GIB
"""Maximum input bytes of a cluster; cubes of Delta on Spark have the same maximum."""

# A part of a cluster must fill at least this many files: lookups skip nothing within one file.
_LEAST_FILES: Final = 4


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
