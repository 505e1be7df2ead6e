"""Find the layout of each partition, and the files that have it, from their tags."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags, Integers
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

_CLUSTER_TAGS = {"zorder": RUN_TAG, "cluster": CLUSTER_TAG, "liquid": CUBE_TAG}


@dataclass(frozen=True, slots=True, eq=False)
class AssignedFiles:
    """The cluster or run of each file that has the layout of its partition; -1 for other files."""

    clusters: Integers

    @classmethod
    def of(cls, files: pa.Table, has_layout: Flags, tag: str) -> AssignedFiles:
        """Read the clusters from a tag; a file without the tag is not assigned."""
        clusters, _ = number_tags(lookup_map(files["tags"], tag))
        return cls(np.where(has_layout, clusters, -1))

    @property
    def mask(self) -> Flags:
        """Return the files that have the layout of their partition."""
        return np.asarray(self.clusters >= 0)

    def find_finished(self, sizes: Integers, min_bytes: int) -> Flags:
        """Return the files of clusters that are large enough."""
        mask = self.mask
        totals = np.zeros(self.clusters.max(initial=-1) + 1, np.int64)
        np.add.at(totals, self.clusters[mask], sizes[mask])
        mask[mask] = totals[self.clusters[mask]] >= min_bytes
        return mask

    def find_singletons(self, candidates: Flags, groups: PartitionGroups) -> Flags:
        """Return the candidates of partitions whose candidates are of one cluster only."""
        ids, clusters = groups.ids[candidates], self.clusters[candidates]
        least = np.full(groups.num_groups, np.iinfo(np.int64).max)
        most = np.full(groups.num_groups, -1)
        np.minimum.at(least, ids, clusters)
        np.maximum.at(most, ids, clusters)
        is_one = (least == most) & (least >= 0)
        return np.asarray(candidates & is_one[groups.ids])


@dataclass(frozen=True, slots=True, eq=False)
class ExistingLayout:
    """The layout of each partition.

    ``of_group``: for each partition an index into ``requests``, or -1 for none. ``is_laid`` are the
    partitions whose files are all placed if they are rewritten, except those in ``assigned``.
    """

    requests: tuple[LayoutRequest, ...]
    of_group: Integers
    is_laid: Flags
    assigned: AssignedFiles

    @classmethod
    def none(cls, files: pa.Table, groups: PartitionGroups) -> ExistingLayout:
        """Return partitions without a layout."""
        of_group = np.full(groups.num_groups, -1)
        assigned = AssignedFiles(np.full(files.num_rows, -1))
        return cls((), of_group, of_group >= 0, assigned)

    @classmethod
    def of_request(
        cls, files: pa.Table, groups: PartitionGroups, request: LayoutRequest
    ) -> ExistingLayout:
        """Return partitions that all have the layout of the options or of the table."""
        assigned = AssignedFiles.of(files, has_layout(files, request), _CLUSTER_TAGS[request.kind])
        of_group = np.zeros(groups.num_groups, np.int64)
        return cls((request,), of_group, of_group >= 0, assigned)

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
        assigned = AssignedFiles.of(files, has_layout, CLUSTER_TAG)
        return cls(requests, of_group, is_laid, assigned)

    def request_of(self, group: int) -> LayoutRequest | None:
        """Return the layout of a partition, if it has one."""
        number = int(self.of_group[group])
        return None if number < 0 else self.requests[number]


def _newest(numbers: Integers, files: pa.Table, groups: PartitionGroups) -> Integers:
    """Return for each partition the layout number of its newest file with a layout; -1 for none."""
    times = pc.fill_null(files["modification_time_ms"], 0).to_numpy()
    rows = np.flatnonzero(numbers >= 0)
    rows = rows[np.lexsort((numbers[rows], times[rows]))]
    found = np.full(groups.num_groups, -1)
    found[groups.ids[rows]] = numbers[rows]  # the last one of a partition wins
    return found
