"""How much memory and how many workers each cluster has."""

from __future__ import annotations

import pytest

from deltactl.engine.local import count_cores
from deltactl.operations.optimize.layout.build import build_cluster_tasks
from deltactl.operations.optimize.layout.request import LayoutColumn, LayoutRequest
from deltactl.operations.optimize.layout.select import LayoutPlan
from deltactl.operations.optimize.tasks import RewriteTask
from deltactl.units import GIB, MIB

_REQUEST = LayoutRequest("cluster", "tile", (LayoutColumn("a", ("a",)),))
_PLAN = LayoutPlan(_REQUEST, (1, 2, 40), 0)
_SIZES = [MIB, 10 * MIB, 10 * GIB]


def build(number: int) -> RewriteTask:
    return RewriteTask(number, "", (), {}, {})


@pytest.mark.parametrize("memory_bytes", [1, 256 * MIB, 1 * GIB, 64 * GIB])
@pytest.mark.parametrize("is_local", [True, False])
def test_tasks_that_run_together_fit_the_memory(memory_bytes: int, is_local: bool) -> None:
    tasks = list(build_cluster_tasks(_PLAN, _SIZES, build, memory_bytes, is_local=is_local))
    assert [task.payload.wanted_files for task in tasks] == [1, 2, 40]
    for task in tasks:
        assert task.payload.memory_bytes <= max(task.weight_bytes, 64 * MIB)
        assert task.payload.workers in (1, count_cores() if is_local else 1)
    large = tasks[2]
    assert large.payload.workers == (count_cores() if is_local else 1)
    if is_local:
        assert large.weight_bytes == memory_bytes  # nothing runs beside it
    assert large.payload.memory_bytes <= 2 * GIB
