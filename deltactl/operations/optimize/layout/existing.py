"""Find the layout that a plain run keeps, from the tags of placed files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.operations.optimize.layout.request import LayoutRequest, find_columns
from deltactl.operations.optimize.layout.select import Placed
from deltactl.operations.optimize.layout.tags import (
    CLUSTER_TAG,
    COLUMNS_TAG,
    LAYOUT_TAG,
    is_laid_out,
    number_tags,
)
from deltactl.operations.optimize.options import Layout
from deltactl.operations.partition_groups import PartitionGroups
from deltactl.protocol.arrow_schemas import array_of
from deltactl.protocol.partitions import lookup_map

Array = np.ndarray[Any, Any]

_BETWEEN: Final = "\n"


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """The layouts that a plain run keeps.

    ``of_group``: for each partition, an index into ``requests``, or -1; the layout is that of its
    newest placed file. If a partition has no placed file, it is the layout that all other
    partitions have in common. ``is_laid`` are the partitions with such files, ``placed`` the files
    in their layout.
    """

    requests: tuple[LayoutRequest, ...]
    of_group: Array
    is_laid: Array
    placed: Placed

    def request_of(self, group: int) -> LayoutRequest | None:
        """Return the layout of a partition, if it has one."""
        number = int(self.of_group[group])
        return None if number < 0 else self.requests[number]


def find_kept(snapshot: Snapshot, files: pa.Table, groups: PartitionGroups) -> Kept:
    """Return the layouts of the files; layouts by dropped columns are not kept."""
    laid = is_laid_out(files)
    texts = pc.binary_join_element_wise(
        lookup_map(files["tags"], LAYOUT_TAG), lookup_map(files["tags"], COLUMNS_TAG), _BETWEEN
    )
    codes, names = number_tags(pc.if_else(array_of(laid), texts, pa.scalar(None, pa.string())))
    requests: list[LayoutRequest] = []
    number_of = np.full(len(names) + 1, -1, np.int64)  # the last is for code -1
    for code, text in enumerate(names.to_pylist()):
        request = _parse(snapshot, text)
        if request is not None:
            number_of[code] = len(requests)
            requests.append(request)
    numbers = number_of[codes]
    of_group = _newest(numbers, files, groups)
    is_laid = of_group >= 0
    used = np.unique(of_group[is_laid])
    if len(used) == 1:
        of_group = np.full(groups.num_groups, used[0])
    is_placed = (numbers >= 0) & (numbers == of_group[groups.ids])
    clusters, _ = number_tags(lookup_map(files["tags"], CLUSTER_TAG))
    return Kept(tuple(requests), of_group, is_laid, Placed.from_numbers(is_placed, clusters))


def _newest(numbers: Array, files: pa.Table, groups: PartitionGroups) -> Array:
    """Return for each partition the layout number of its newest file with a layout; -1 for none."""
    times = pc.fill_null(files["modification_time_ms"], 0).to_numpy()
    rows = np.flatnonzero(numbers >= 0)
    rows = rows[np.lexsort((numbers[rows], times[rows]))]
    found = np.full(groups.num_groups, -1, np.int64)
    found[groups.ids[rows]] = numbers[rows]  # the last one of a partition wins
    return found


def _parse(snapshot: Snapshot, text: str) -> LayoutRequest | None:
    """Return the layout in tags, if rows can be placed by it."""
    layout, _, columns = text.partition(_BETWEEN)
    if layout not in get_args(Layout):
        return None
    try:
        paths = [tuple(map(str, path)) for path in json.loads(columns)]
    except (ValueError, TypeError, RecursionError):
        return None
    found = find_columns(snapshot, paths)
    return LayoutRequest("cluster", cast("Layout", layout), found) if found else None
