"""How much memory and how many workers each cluster has."""

import pytest

from deltactl.engine.local import count_cores
from deltactl.operations.optimize.layout.distribute import build_tasks
from deltactl.operations.optimize.layout.plan import LayoutPlan
from deltactl.operations.optimize.layout.request import LayoutColumn, LayoutRequest
from deltactl.operations.optimize.layout.tasks import ClusterTask
from deltactl.operations.optimize.tasks import RewriteTask
from deltactl.units import GIB, MIB

_REQUEST = LayoutRequest("cluster", "tile", (LayoutColumn("a", ("a",)),))
_PLAN = LayoutPlan(_REQUEST, (_REQUEST,) * 3, (1, 2, 40), 0)
_SIZES = [MIB, 10 * MIB, 10 * GIB]


def build(number: int) -> RewriteTask:
    return RewriteTask(number, "", (), {}, {})


@pytest.mark.parametrize("memory_bytes", [1, 256 * MIB, 1 * GIB, 64 * GIB])
@pytest.mark.parametrize("is_local", [True, False])
def test_tasks_that_run_together_fit_the_memory(memory_bytes: int, is_local: bool) -> None:
    tasks = list(build_tasks(_PLAN, _SIZES, build, memory_bytes, is_local=is_local))
    clusters = [task.payload for task in tasks if isinstance(task.payload, ClusterTask)]
    assert [cluster.wanted_files for cluster in clusters] == [1, 2, 40]
    for task, cluster in zip(tasks, clusters, strict=True):
        assert cluster.memory_bytes <= max(task.weight_bytes, 64 * MIB)
        assert 1 <= cluster.workers <= (count_cores() if is_local else 1)
    large = clusters[2]
    most_workers = {1: 1, 256 * MIB: 1, GIB: 2, 64 * GIB: 5}[memory_bytes]
    assert large.workers == (min(count_cores(), most_workers) if is_local else 1)
    if is_local:
        assert tasks[2].weight_bytes == memory_bytes  # nothing runs beside it
    assert large.memory_bytes <= 2 * GIB


def test_bins_without_a_layout_are_joined() -> None:
    plan = LayoutPlan(_REQUEST, (None, _REQUEST, _REQUEST), (1, 1, 40), 0)
    tasks = [t.payload for t in build_tasks(plan, _SIZES, build, None, is_local=True)]
    assert [type(task) for task in tasks] == [RewriteTask, ClusterTask, ClusterTask]
