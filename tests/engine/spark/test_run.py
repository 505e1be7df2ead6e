"""What the Spark engine makes of lost jobs, failed tasks and a Spark that is gone: without Java."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from deltactl.engine.base import Done, Failed, Task
from deltactl.engine.spark.bundles import Job, encode_bundle
from deltactl.engine.spark.engine import SparkEngine
from deltactl.engine.spark.losses import is_worth_a_retry
from deltactl.engine.spark.worker import Batches
from deltactl.errors import (
    AccessDeniedError,
    ConflictError,
    DataFileError,
    EngineUnavailableError,
    ObjectNotFoundError,
    StorageError,
    VerificationError,
)

pytestmark = pytest.mark.pyspark
HEAVY = 64 << 20


class Session:
    """Stands for a session: the engine only remembers that it has seen it."""


@dataclass
class ThreadJobs:
    """Runs jobs on the engine's own threads; ``breaks`` says which of them are lost."""

    breaks: Callable[[list[int]], str | None] = lambda ids: None
    alive: bool = True
    jobs: list[list[int]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, session: object) -> ThreadJobs:
        return self

    def count_slots(self) -> int:
        return 2

    def ship_package(self) -> None:
        pass

    def run_this_python(self) -> bool:
        return True

    def in_threads(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def run(self, runner: Callable[[Batches], Batches], job: Job) -> list[tuple[Any, ...]]:
        ids = [task.id for bundle in job for task in bundle]
        with self._lock:
            self.jobs.append(ids)
            reason = self.breaks(ids)
        if reason is not None:
            raise RuntimeError(reason)
        rows = [encode_bundle(bundle) for bundle in job]
        batch = pa.record_batch({"id": pa.array(range(len(rows))), "task": pa.array(rows)})
        return [
            tuple(column[0].as_py() for column in result.columns)
            for result in runner(iter([batch]))
        ]

    def cancel(self) -> None:
        pass

    def is_alive(self) -> bool:
        return self.alive


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> ThreadJobs:
    found = ThreadJobs()
    monkeypatch.setattr("deltactl.engine.spark.engine.SparkJobs", found)
    return found


def run(worker: Any, count: int, weight: int = 0) -> list[Done[Any] | Failed]:
    session: Any = Session()
    tasks = [Task(number, number, weight) for number in range(count)]
    return list(SparkEngine(session).run(worker, tasks))


def double(payload: int, attempt: int) -> int:
    return payload * 2


def results(outcomes: list[Done[Any] | Failed]) -> dict[int, Any]:
    return {o.task_id: o.result for o in outcomes if isinstance(o, Done)}


def failures(outcomes: list[Done[Any] | Failed]) -> dict[int, Exception]:
    return {o.task_id: o.error for o in outcomes if isinstance(o, Failed)}


def test_a_lost_job_is_halved_until_its_bad_task_is_alone(jobs: ThreadJobs) -> None:
    jobs.breaks = lambda ids: "Task 0 failed 2 times, it died" if 5 in ids else None
    outcomes = run(double, 16)
    assert results(outcomes) == {number: number * 2 for number in range(16) if number != 5}
    assert str(failures(outcomes)[5]).startswith("Spark did not finish the task in 4 attempts")
    with_bad = [ids for ids in jobs.jobs if 5 in ids]
    assert [len(ids) for ids in with_bad] == [16, 8, 4, 2, 1, 1]


def test_a_job_lost_once_costs_nothing_but_time(jobs: ThreadJobs) -> None:
    jobs.breaks = lambda ids: "lost" if len(jobs.jobs) == 1 else None
    assert results(run(double, 4)) == {0: 0, 1: 2, 2: 4, 3: 6}


def test_when_spark_is_gone_the_rest_fails_at_once(jobs: ThreadJobs) -> None:
    def breaks(ids: list[int]) -> str | None:
        jobs.alive = 20 not in ids and jobs.alive
        return None if jobs.alive else "connection refused"

    jobs.breaks = breaks
    outcomes = run(double, 100, HEAVY)
    assert sorted([*results(outcomes), *failures(outcomes)]) == list(range(100))
    assert len(failures(outcomes)) > 50
    assert len(jobs.jobs) <= 25, "nobody knocks at a closed door"
    error = failures(outcomes)[99]
    assert isinstance(error, EngineUnavailableError)
    assert str(error) == "Spark has ended: connection refused"


def closed() -> None:
    """What py4j says where Java is gone."""
    raise RuntimeError("An error occurred while calling o33.sc")


def test_spark_may_be_gone_before_the_first_job(
    jobs: ThreadJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "count_slots", closed)
    with pytest.raises(RuntimeError, match="o33"):  # it lives: what is this?
        run(double, 1)
    jobs.alive = False
    with pytest.raises(EngineUnavailableError, match="Spark has ended: An error occurred"):
        run(double, 1)


def test_spark_may_be_gone_before_it_is_prepared(
    jobs: ThreadJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line prepares the engine before it has tasks."""
    monkeypatch.setattr(jobs, "ship_package", closed)
    jobs.alive = False
    session: Any = Session()
    with pytest.raises(EngineUnavailableError, match="Spark has ended: An error occurred"):
        SparkEngine(session).prepare()


def test_a_result_that_is_missing_is_a_failure(
    jobs: ThreadJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = jobs.run
    monkeypatch.setattr(jobs, "run", lambda runner, job: whole(runner, job)[1:])
    outcomes = run(double, 3)
    assert results(outcomes) == {1: 2, 2: 4}
    assert "no result for task 0" in str(failures(outcomes)[0])


TRIES: list[int] = []


def refuse(payload: int, attempt: int) -> int:
    TRIES.append(payload)
    raise DataFileError("part-1 is missing")


def stumble(payload: int, attempt: int) -> int:
    TRIES.append(payload)
    raise StorageError("slow down")


@pytest.fixture
def tries() -> Iterator[list[int]]:
    TRIES.clear()
    yield TRIES


def test_what_is_said_of_the_table_is_not_tried_again(jobs: ThreadJobs, tries: list[int]) -> None:
    assert isinstance(failures(run(refuse, 1))[0], DataFileError)
    assert tries == [0]


def test_what_the_store_says_is_tried_four_times(jobs: ThreadJobs, tries: list[int]) -> None:
    assert str(failures(run(stumble, 1))[0]) == "slow down"
    assert tries == [0] * 4


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ValueError(), True),
        (OSError(), True),
        (StorageError("503"), True),
        (ConflictError("lost"), True),
        (ObjectNotFoundError("gone"), False),
        (AccessDeniedError("no"), False),
        (VerificationError("differs"), False),
    ],
)
def test_what_is_worth_a_retry(error: Exception, again: bool) -> None:
    assert is_worth_a_retry(error) is again
