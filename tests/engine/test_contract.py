"""What any engine promises, over the one in the process and those on Spark."""

import time
from pathlib import Path

from deltactl.engine.base import CancelToken, Done, Engine, Failed, Progress, Task
from deltactl.engine.tasks import LazyTasks
from tests.support.spark_workers import Act, count_marks, perform

MIB = 1 << 20


def acts(folder: Path, count: int, *, raising: tuple[int, ...] = ()) -> list[Task[Act]]:
    faults = dict.fromkeys(raising, ("raise", 99))
    return [
        Task(number, Act(str(folder), number, *faults.get(number, ("none", 0))), number)
        for number in range(count)
    ]


def test_each_task_comes_out_once_with_its_result(engine: Engine, tmp_path: Path) -> None:
    outcomes = list(engine.run(perform, acts(tmp_path, 20)))
    results = [(o.task_id, o.result) for o in outcomes if isinstance(o, Done)]
    assert sorted(results) == [(number, number * 10) for number in range(20)]


def test_no_task_is_no_outcome(engine: Engine) -> None:
    assert list(engine.run(perform, [])) == []


def test_nothing_starts_before_somebody_asks(engine: Engine, tmp_path: Path) -> None:
    outcomes = engine.run(perform, acts(tmp_path, 3))
    time.sleep(0.05)
    assert count_marks(tmp_path) == 0
    next(outcomes)
    assert count_marks(tmp_path)
    outcomes.close()  # type: ignore[attr-defined]


def test_a_failing_task_is_a_value_and_ends_no_other(engine: Engine, tmp_path: Path) -> None:
    outcomes = list(engine.run(perform, acts(tmp_path, 8, raising=(3, 5))))
    failed = {o.task_id: o.error for o in outcomes if isinstance(o, Failed)}
    assert sorted(failed) == [3, 5]
    assert isinstance(failed[3], ValueError)
    assert str(failed[3]) == "number 3"
    assert sorted(o.task_id for o in outcomes) == list(range(8))


def test_no_more_tasks_are_in_flight_than_can_soon_run(engine: Engine, tmp_path: Path) -> None:
    """Payloads are made when their turn comes: a slow consumer holds the engine back."""
    built: list[int] = []

    def build(number: int) -> Act:
        built.append(number)
        return Act(str(tmp_path), number)

    outcomes = engine.run(perform, LazyTasks([512 * MIB] * 14, build))
    next(outcomes)
    assert len(built) <= 10
    assert len(list(outcomes)) == 13
    assert built == list(range(14))


def test_after_a_cancel_no_new_task_starts(engine: Engine, tmp_path: Path) -> None:
    cancel = CancelToken()
    outcomes = []
    tasks = [Task(t.id, t.payload, 512 * MIB) for t in acts(tmp_path, 14)]
    for outcome in engine.run(perform, tasks, cancel=cancel):
        cancel.set()
        outcomes.append(outcome)
    assert 1 <= len(outcomes) <= count_marks(tmp_path) <= 10


def test_cancelled_before_it_began(engine: Engine, tmp_path: Path) -> None:
    cancel = CancelToken()
    cancel.set()
    assert list(engine.run(perform, acts(tmp_path, 2), cancel=cancel)) == []
    assert count_marks(tmp_path) == 0


def test_progress_counts_tasks_and_weights(engine: Engine, tmp_path: Path) -> None:
    seen: list[Progress] = []
    list(engine.run(perform, acts(tmp_path, 4, raising=(1,)), on_progress=seen.append))
    assert [(p.tasks_done, p.tasks_total, p.bytes_total) for p in seen] == [
        (1, 4, 6),
        (2, 4, 6),
        (3, 4, 6),
        (4, 4, 6),
    ]
    assert seen[-1].bytes_done == 6
