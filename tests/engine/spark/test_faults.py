"""Workers and executors that die, and tasks that fail for a while.

A task that always dies, or that Spark runs twice: tests/operations/optimize/test_engines.py.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl.engine.base import CancelToken, Done, Failed, Task
from deltactl.engine.spark.engine import SparkEngine
from tests.support.spark_cluster import ON_CLUSTER
from tests.support.spark_workers import Act, count_marks, perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*ON_CLUSTER]

HEAVY = 64 << 20


def run(
    session: SparkSession, folder: Path, fault: str, times: int, weight: int = 0
) -> list[Done[int] | Failed]:
    """Tasks of which number 1 meets a fault; light ones share a worker."""
    tasks = [Task(n, Act(str(folder), n, fault, times if n == 1 else 0), weight) for n in range(4)]
    return list(SparkEngine(session).run(perform, tasks))


def ensure_complete(outcomes: list[Done[int] | Failed]) -> None:
    results = [(o.task_id, o.result) for o in outcomes if isinstance(o, Done)]
    assert sorted(results) == [(number, number * 10) for number in range(4)]


@pytest.mark.slow
def test_a_worker_that_dies_three_times_ends_well(cluster: SparkSession, tmp_path: Path) -> None:
    ensure_complete(run(cluster, tmp_path, "die", 3, weight=HEAVY))
    # Or more: on a busy machine Spark may find a try slow, and run another beside it.
    assert count_marks(tmp_path, 1) >= 4


def test_an_executor_killed_in_the_middle_of_a_task(cluster: SparkSession, tmp_path: Path) -> None:
    ensure_complete(run(cluster, tmp_path, "kill executor", 1))
    assert count_marks(tmp_path, 1) >= 2


def test_a_task_that_always_raises_is_tried_four_times(
    cluster: SparkSession, tmp_path: Path
) -> None:
    outcomes = run(cluster, tmp_path, "raise", 99)
    (failed,) = (outcome for outcome in outcomes if isinstance(outcome, Failed))
    assert isinstance(failed.error, ValueError)
    assert "in _raise" in "".join(failed.error.__notes__), "where it happened is told"
    assert count_marks(tmp_path, 1) >= 4


def test_a_cancel_stops_what_runs(cluster: SparkSession, tmp_path: Path) -> None:
    cancel = CancelToken()

    def cancel_once_running() -> None:
        while not count_marks(tmp_path):
            time.sleep(0.05)
        cancel.set()

    watcher = threading.Thread(target=cancel_once_running)
    watcher.start()
    tasks = [Task(n, Act(str(tmp_path), n, "linger", 99), HEAVY) for n in range(20)]
    started = time.monotonic()
    assert list(SparkEngine(cluster).run(perform, tasks, cancel=cancel)) == []
    watcher.join()
    # A task lingers for a minute: had they not been stopped, none would be back by now.
    assert time.monotonic() - started < 55
    assert count_marks(tmp_path) <= 4
