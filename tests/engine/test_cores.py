"""How many cores of the local engine a task may use."""

import threading

import pytest

from deltactl.engine import local
from deltactl.engine.base import Done, Task
from deltactl.engine.cores import count_own_cores, may_get_cores, release_core
from deltactl.engine.local import LocalEngine


class _Recorder:
    """Workers that start together, and record how many cores each may use."""

    def __init__(self, together: int) -> None:
        self._barrier = threading.Barrier(together)

    def work(self, payload: int, attempt: int) -> tuple[int, bool]:
        self._barrier.wait(30)
        result = count_own_cores(), may_get_cores()
        self._barrier.wait(30)
        return result


def _run(workers: int, num_tasks: int, together: int) -> list[tuple[int, bool]]:
    recorder = _Recorder(together)
    tasks = [Task(number, number) for number in range(num_tasks)]
    outcomes = list(LocalEngine(workers=workers).run(recorder.work, tasks))
    done = [outcome for outcome in outcomes if isinstance(outcome, Done)]
    assert len(done) == num_tasks
    return [outcome.result for outcome in sorted(done, key=lambda outcome: outcome.task_id)]


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "count_cores", lambda: 8)


def test_a_task_alone_may_use_all_cores() -> None:
    assert _run(workers=4, num_tasks=1, together=1) == [(4, True)]


def test_tasks_share_the_cores_if_no_task_waits() -> None:
    assert _run(workers=5, num_tasks=2, together=2) == [(2, True)] * 2


def test_a_task_has_one_core_while_others_wait() -> None:
    found = _run(workers=2, num_tasks=6, together=2)
    assert found[:4] == [(1, False)] * 4
    assert found[4:] == [(1, True)] * 2


def test_a_single_worker_has_a_single_core() -> None:
    assert _run(workers=1, num_tasks=1, together=1) == [(1, False)]


def test_the_core_of_a_task_that_left_it_is_free() -> None:
    has_left, is_counted = threading.Event(), threading.Event()
    counts = []

    def work(payload: int, attempt: int) -> None:
        if payload:
            release_core()
            has_left.set()
            assert is_counted.wait(30)
            return
        assert has_left.wait(30)
        # The engine sees it in its own thread, soon after.
        while count_own_cores() < 2:
            threading.Event().wait(0.001)
        counts.append(count_own_cores())
        is_counted.set()

    list(LocalEngine(workers=2).run(work, [Task(0, 0), Task(1, 1)]))
    assert counts == [2]


def test_tasks_use_no_more_cores_than_the_machine_has() -> None:
    assert _run(workers=32, num_tasks=2, together=2) == [(4, True)] * 2


def test_outside_of_an_engine_there_is_one_core() -> None:
    assert count_own_cores() == 1
    assert not may_get_cores()
