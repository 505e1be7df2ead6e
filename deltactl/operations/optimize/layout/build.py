"""Tasks for the clusters of a plan: how much memory and how many workers each has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from deltactl.engine.local import count_cores
from deltactl.engine.memory import machine_memory_bytes
from deltactl.engine.tasks import LazyTasks
from deltactl.operations.optimize.layout.select import LayoutPlan
from deltactl.operations.optimize.layout.tasks import DECODED_PER_INPUT_BYTE, ClusterTask
from deltactl.operations.optimize.tasks import RewriteTask
from deltactl.units import GIB, MIB

# What the process needs before the first row is read, and for what is not counted here.
_BASE_BYTES: Final = 256 * MIB
_LEAST_BYTES: Final = 64 * MIB
# More than this gains nothing: the spill file is in the page cache where there is memory.
_MOST_BYTES: Final = 2 * GIB
# Less than the overhead that Spark gives an executor for Python.
_EXECUTOR_BYTES: Final = 256 * MIB


def build_cluster_tasks(
    plan: LayoutPlan,
    sizes: Sequence[int],
    build: Callable[[int], RewriteTask],
    memory_bytes: int | None,
    *,
    is_local: bool,
) -> LazyTasks[ClusterTask]:
    """Return the tasks of clusters of these sizes; ``build`` gives the files of each.

    A cluster whose rows fit an even share of the memory has one worker, so that others run beside
    it; a larger one has all the memory and all cores, and runs alone. In an executor of Spark, of
    which this machine knows nothing, each has one worker and little memory.
    """
    cores = count_cores() if is_local else 1
    limit = machine_memory_bytes() // 2 if memory_bytes is None else memory_bytes
    usable = min(_MOST_BYTES, max(_LEAST_BYTES, limit - _BASE_BYTES))
    if not is_local:
        usable = limit = _EXECUTOR_BYTES
    needed = [max(_LEAST_BYTES // 4, 4 * DECODED_PER_INPUT_BYTE * size) for size in sizes]
    fits = [need <= usable // cores for need in needed]

    def build_cluster(number: int) -> ClusterTask:
        return ClusterTask(
            build(number),
            plan.files_after[number],
            needed[number] if fits[number] else usable,
            1 if fits[number] else cores,
        )

    pairs = zip(needed, fits, strict=True)
    weights = [need if is_fitting else limit for need, is_fitting in pairs]
    return LazyTasks(weights, build_cluster, sizes)
