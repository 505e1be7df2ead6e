"""Predict how a layout divides the rows of a cluster, for a dry run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from deltactl.operations.optimize.layout.expect import measure_opened
from deltactl.operations.optimize.layout.placement import Placement, learn_placement
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.layout.sample import read_sample
from deltactl.operations.optimize.tasks import RewriteTask
from deltactl.parquet.reader import RowReader
from deltactl.storage.store import Store

MOST_FORECASTS: Final = 8
"""The number of clusters from which a dry run reads a sample."""


@dataclass(frozen=True, slots=True)
class ClusterForecast:
    """The division of a cluster.

    ``slices``: the number of ranges of each column in a layout of tiles, as an average over the
    ranges of the columns before it. For a curve, it is the number of its sections. ``opened``: for
    each column the share of the files that a lookup of a value of the cluster opens.
    """

    partition: str
    inputs: int
    size_bytes: int
    files: int
    slices: tuple[float, ...]
    opened: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; sizes in bytes."""
        found = asdict(self)
        return {
            **found,
            "bytes": found.pop("size_bytes"),
            "slices": list(self.slices),
            "opened": [round(share, 4) for share in self.opened],
        }


def forecast_cluster(
    store: Store, reader: RowReader, request: LayoutRequest, task: RewriteTask, wanted_files: int
) -> ClusterForecast:
    """Read a sample of a cluster, and divide it.

    Raises:
        DataFileError: a file of the sample is missing or broken.
    """
    sample = read_sample(store, reader, task.files, request.paths)
    placement = learn_placement(request.layout, sample, wanted_files)
    return ClusterForecast(
        partition=task.folder.rstrip("/"),
        inputs=len(task.files),
        size_bytes=sum(file.size_bytes for file in task.files),
        files=placement.num_destinations,
        slices=_count_slices(placement),
        opened=measure_opened(placement, sample),
    )


def _count_slices(placement: Placement) -> tuple[float, ...]:
    """Return the average number of parts of a slice, for each level."""
    counts = np.cumsum([1, *(len(cuts) for cuts in placement.tiles.cuts)])
    return tuple(
        round(float(after / before), 1) for before, after in zip(counts, counts[1:], strict=False)
    )
