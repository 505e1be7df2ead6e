"""One Spark session for all tables of a run."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from deltactl.cli.engines import ChosenEngine, open_engine, shared_spark
from deltactl.cli.options.engine import EngineOptions
from deltactl.engine.base import Done, Task
from deltactl.engine.spark import session as spark_session
from deltactl.engine.spark.session import SparkSettings
from deltactl.errors import EngineUnavailableError


class Starts:
    """Sessions that were started and stopped, in the place of real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: int = 0) -> None:
        self.events: list[str] = []
        self.failures = failures
        monkeypatch.setattr(spark_session, "spark_session", self.start)

    @contextmanager
    def start(self, settings: SparkSettings, environ: object, _: object) -> Iterator[object]:
        if self.failures:
            self.failures -= 1
            raise EngineUnavailableError("no Java")
        self.events.append("start")
        yield object()
        self.events.append("stop")


def test_threads_share_one_session_that_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    starts, quiet, found = Starts(monkeypatch), threading.RLock(), list[object]()
    with shared_spark(quiet) as spark:
        threads = [
            threading.Thread(target=lambda: found.append(spark.open(SparkSettings(), {})))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert starts.events == ["start"]
    assert starts.events == ["start", "stop"]
    assert len(set(map(id, found))) == 1


def test_nothing_is_printed_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    starts, told = Starts(monkeypatch), list[str]()

    @contextmanager
    def quiet() -> Iterator[None]:
        told.extend(["hush", *starts.events])
        yield
        told.extend(starts.events)

    with shared_spark(quiet()) as spark:
        spark.open(SparkSettings(), {})
    assert told == ["hush", "start"]


def test_a_start_that_failed_is_tried_again_by_the_next_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = Starts(monkeypatch, failures=1)
    with shared_spark() as spark:
        with pytest.raises(EngineUnavailableError):
            spark.open(SparkSettings(), {})
        assert spark.open(SparkSettings(), {}) is spark.open(SparkSettings(), {})
    assert starts.events == ["start", "stop"]


def engines(**more: Any) -> AbstractContextManager[ChosenEngine]:
    """The engines of a table."""
    given = {"warn": print, "note": print, "verbose": 0, "max_concurrent": None, **more}
    return open_engine(EngineOptions(), environ={}, table="t", memory_bytes=None, **given)


def test_engines_of_a_table_do_not_stop_what_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = Starts(monkeypatch)
    with shared_spark() as spark:
        for _ in range(2):
            with engines(spark=spark) as opened:
                opened.spark.open(SparkSettings(), {})
        assert starts.events == ["start"]
    with engines() as opened:
        opened.spark.open(SparkSettings(), {})
    assert starts.events == ["start", "stop"] * 2


def test_the_engine_starts_at_its_first_run_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltactl.engine.spark.facts.find_missing", lambda *_: None)
    starts = Starts(monkeypatch, failures=9)
    told: list[str] = []
    with engines(warn=told.append) as opened:
        small, large = opened.sized(0), opened.sized(1 << 40)
        assert (small.name, large.name, large.leaves_orphans) == ("local", "spark", False)
        assert starts.failures == 9
        for number in (1, 2):
            assert list(large.run(double, [Task(0, number)])) == [Done(0, 0, number * 2)]
        assert starts.failures == 8
        # The report names the engine that ran, not the planned one.
        assert (large.name, large.reason) == ("local", "Spark cannot run: no Java")
        assert "no Java" in told[-1]


def double(payload: int, attempt: int) -> int:
    return payload * 2
