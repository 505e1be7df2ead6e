"""The engine in the process: threads, memory, and what ends a run."""

import threading
import time
from collections.abc import Iterator

import pytest

from deltactl.engine.base import CancelToken, Done, Engine, Failed, Progress, Task
from deltactl.engine.cores import find_byte_counter, release_core
from deltactl.engine.local import LocalEngine, count_cores
from deltactl.engine.tasks import LazyTasks


@pytest.fixture
def engine() -> Engine:
    return LocalEngine(workers=2)


class Gauge:
    """Counts how many workers run at once, and how heavy they are together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.started: list[int] = []
        self._now = self._weight = 0
        self.most = self.heaviest = 0

    def work(self, payload: int, attempt: int) -> int:
        with self._lock:
            self.started.append(payload)
            self._now += 1
            self._weight += payload
            self.most = max(self.most, self._now)
            self.heaviest = max(self.heaviest, self._weight)
        time.sleep(0.005)
        with self._lock:
            self._now -= 1
            self._weight -= payload
        return payload * 10


def tasks(*payloads: int) -> list[Task[int]]:
    return [Task(number, payload, payload) for number, payload in enumerate(payloads)]


def test_no_more_are_in_flight_than_there_are_workers(engine: Engine) -> None:
    """Nor do finished results pile up: a slow consumer holds the engine back."""
    gauge = Gauge()
    outcomes = engine.run(gauge.work, tasks(*[1] * 30))
    next(outcomes)
    time.sleep(0.05)
    assert len(gauge.started) <= 3
    list(outcomes)
    assert gauge.most <= 2


def test_weights_stay_within_memory() -> None:
    gauge = Gauge()
    list(LocalEngine(workers=8, memory_bytes=10).run(gauge.work, tasks(4, 5, 6, 7, 3, 4, 1, 2)))
    assert gauge.heaviest <= 10
    assert gauge.most > 1


def test_a_task_heavier_than_memory_runs_alone() -> None:
    gauge = Gauge()
    outcomes = list(LocalEngine(workers=4, memory_bytes=10).run(gauge.work, tasks(50, 4, 60)))
    assert len(outcomes) == 3
    assert gauge.heaviest == 60


class _Waiting:
    """Workers that leave their core, and then wait until ``together`` of them run."""

    def __init__(self, together: int) -> None:
        self._together = threading.Barrier(together)
        self.gauge = Gauge()

    def work(self, payload: int, attempt: int) -> int:
        release_core()
        release_core()
        result = self.gauge.work(payload, attempt)
        self._together.wait(30)
        return result


def test_a_task_that_left_its_core_lets_another_one_start() -> None:
    waiting = _Waiting(8)
    outcomes = list(LocalEngine(workers=2).run(waiting.work, tasks(*[1] * 16)))
    assert len(outcomes) == 16
    assert all(isinstance(outcome, Done) for outcome in outcomes)


def test_unfinished_tasks_do_not_exceed_their_maximum() -> None:
    gauge = Gauge()

    def work(payload: int, attempt: int) -> int:
        release_core()
        return gauge.work(payload, attempt)

    list(LocalEngine(workers=2, max_unfinished=3).run(work, tasks(*[1] * 12)))
    assert gauge.most == 3


def test_tasks_that_left_their_cores_stay_within_memory() -> None:
    waiting = _Waiting(3)
    outcomes = list(LocalEngine(2, memory_bytes=15).run(waiting.work, tasks(*[5] * 6)))
    assert all(isinstance(outcome, Done) for outcome in outcomes)
    assert waiting.gauge.heaviest <= 15


def test_a_task_leaves_only_its_own_core() -> None:
    gauge = Gauge()

    def work(payload: int, attempt: int) -> int:
        if payload == 2:
            release_core()
        return gauge.work(payload, attempt)

    list(LocalEngine(workers=1).run(work, tasks(2, 1, 1, 1, 1, 1)))
    assert gauge.most <= 2


def test_leaving_a_core_outside_of_an_engine_does_nothing() -> None:
    release_core()


def _die(payload: int, attempt: int) -> int:
    raise KeyboardInterrupt


def test_what_is_no_exception_ends_the_run(engine: Engine) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(engine.run(_die, tasks(1, 2)))


def test_after_a_cancel_those_running_end_and_no_new_one_starts(engine: Engine) -> None:
    gauge, cancel = Gauge(), CancelToken()

    def consume() -> Iterator[Done[int] | Failed]:
        for outcome in engine.run(gauge.work, tasks(*[1] * 30), cancel=cancel):
            cancel.set()
            yield outcome

    outcomes = list(consume())
    assert 1 <= len(outcomes) <= 4
    assert len(outcomes) == len(gauge.started)


def test_closing_the_iterator_waits_for_what_runs(engine: Engine) -> None:
    gauge = Gauge()
    outcomes = engine.run(gauge.work, tasks(*[1] * 10))
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    started = len(gauge.started)
    time.sleep(0.03)
    assert len(gauge.started) == started < 10
    assert gauge._now == 0


def test_an_engine_for_this_machine() -> None:
    engine = LocalEngine()
    assert engine.name == "local"
    assert engine.workers == count_cores() >= 1


def test_progress_shows_bytes_and_not_memory() -> None:
    seen: list[Progress] = []
    tasks = LazyTasks([600, 600], lambda number: number, sizes=[100, 50])
    list(LocalEngine().run(echo, tasks, on_progress=seen.append))
    assert {p.bytes_done for p in seen[:1]} <= {100, 50}
    assert seen[-1] == Progress(2, 2, 150, 150)


def test_progress_shows_bytes_of_running_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltactl.engine.local._PROGRESS_SECONDS", 0.001)
    seen: list[Progress] = []
    is_seen = threading.Event()

    def show(state: Progress) -> None:
        seen.append(state)
        is_seen.set()

    def work(payload: int, attempt: int) -> None:
        count_bytes = find_byte_counter()
        for done in (30, 1000):
            count_bytes(done)
            assert is_seen.wait(30)
            is_seen.clear()

    tasks = LazyTasks([1], lambda number: number, sizes=[100])
    list(LocalEngine().run(work, tasks, on_progress=show))
    assert seen == [Progress(0, 1, 30, 100), Progress(0, 1, 100, 100), Progress(1, 1, 100, 100)]


def echo(payload: int, attempt: int) -> int:
    return payload
