"""Build tasks for the clusters of a plan, with their memory and workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from deltactl.engine.local import count_cores
from deltactl.engine.memory import machine_memory_bytes
from deltactl.engine.tasks import LazyTasks
from deltactl.operations.optimize.layout.plan import LayoutPlan
from deltactl.operations.optimize.layout.tasks import DECODED_PER_INPUT_BYTE, ClusterTask
from deltactl.operations.optimize.tasks import RewriteTask
from deltactl.units import GIB, MIB

# Memory of the process before the first row is read, and for data that is not counted here.
_BASE_BYTES: Final = 256 * MIB
# Memory of a merge, for decoded pages, a row group, and its encoded copy.
_MEMORY_PER_INPUT_BYTE: Final = 6
_LEAST_BYTES: Final = 64 * MIB
# Memory of a worker in addition to its rows: a decoded row group, an encoded one, hashes.
_BYTES_A_WORKER: Final = 384 * MIB
# More memory has no benefit: the spill file is in the page cache if there is memory.
_MOST_BYTES: Final = 2 * GIB
# Less than the overhead that Spark gives an executor for Python.
_EXECUTOR_BYTES: Final = 256 * MIB


def build_tasks(
    layout: LayoutPlan | None,
    sizes: Sequence[int],
    build: Callable[[int], RewriteTask],
    memory_bytes: int | None,
    *,
    is_local: bool,
) -> LazyTasks[ClusterTask | RewriteTask]:
    """Return the tasks of bins of these sizes; ``build`` gives the files of each.

    If the rows of a cluster fit into an equal share of the memory, it has one worker and runs in
    parallel with others. A larger cluster has all memory and all cores, and runs alone. In an
    executor of Spark, whose memory is not known, each cluster has one worker and little memory.
    Bins without a layout are merged as in runs without layouts.
    """
    requests = [None] * len(sizes) if layout is None else layout.requests
    cores = count_cores() if is_local else 1
    limit = machine_memory_bytes() // 2 if memory_bytes is None else memory_bytes
    usable = min(_MOST_BYTES, max(_LEAST_BYTES, limit - _BASE_BYTES))
    if not is_local:
        usable = limit = _EXECUTOR_BYTES

    def build_bin(number: int) -> ClusterTask | RewriteTask:
        request = requests[number]
        if layout is None or request is None:
            return build(number)
        needed = _estimate_cluster(sizes[number])
        fits = needed <= usable // cores
        return ClusterTask(
            build(number),
            request,
            layout.files_after[number],
            needed if fits else usable,
            1 if fits else max(1, min(cores, usable // _BYTES_A_WORKER)),
        )

    def weigh(number: int, size: int) -> int:
        if requests[number] is None:
            return min(_MEMORY_PER_INPUT_BYTE * size, 1 << 30)
        needed = _estimate_cluster(size)
        return needed if needed <= usable // cores else limit

    weights = [weigh(number, size) for number, size in enumerate(sizes)]
    return LazyTasks(weights, build_bin, sizes)


def _estimate_cluster(input_bytes: int) -> int:
    return max(_LEAST_BYTES // 4, 4 * DECODED_PER_INPUT_BYTE * input_bytes)
