"""Give each bin its layout and its number of outputs: the last step of a plan. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltactl.numpy_types import Integers
from deltactl.operations.optimize.layout.existing import ExistingLayout, count_outputs
from deltactl.operations.optimize.layout.request import LayoutRequest


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

    Args:
        request: the requested layout.
        layouts: the layout of each partition.
        groups: the partition of each bin.
        sizes: the input bytes of each bin.
        assigned: those of them that already have the layout.
        target_bytes: the target size of outputs.
    """
    requests = tuple(layouts.request_of(group) for group in groups.tolist())
    first = request or next((kept for kept in requests if kept is not None), None)
    if first is None:
        return None
    is_placed = np.array([kept is not None for kept in requests], dtype=np.bool_)
    files_after = np.where(is_placed, count_outputs(sizes, target_bytes), 1)
    return LayoutPlan(first, requests, tuple(files_after.tolist()), int(assigned.sum()))
