"""One optimize, several engines: the same plan, rows and statistics; and what faults leave."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import SparkEngine, Table
from deltactl.engine.base import Done, Engine, Failed
from deltactl.engine.local import LocalEngine
from deltactl.operations.optimize.options import OptimizeOptions, Rewrite
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.storage.local.store import LocalStore
from tests.support.run import report_of
from tests.support.spark_cluster import ON_CLUSTER, ON_SPARK
from tests.support.spark_workers import AfterWork
from tests.support.table_builder import TableBuilder, multiset
from tests.support.table_samples import build_sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.thorough


def sample(path: Path, features: str, layout: str) -> TableBuilder:
    return build_sample(LocalStore(str(path)), features=features, layout=layout)


def rows_of(path: Path) -> Counter[Any]:
    return multiset(Table(str(path)).scan().read_all().to_pylist())


def parquet_files(path: Path) -> set[str]:
    """Data files, live or not; checkpoints are no concern here."""
    names = {str(file.relative_to(path)) for file in path.rglob("*.parquet")}
    return {name for name in names if not name.startswith("_delta_log/")}


def added(path: Path, report: OptimizeReport) -> list[dict[str, Any]]:
    """The adds of a run, without what differs between any two runs."""
    adds = []
    for version in report.versions:
        log = path / "_delta_log" / f"{version:020}.json"
        nodes = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
        adds += [node["add"] for node in nodes if "add" in node]
    facts = [
        {key: add.get(key) for key in ("partitionValues", "stats", "size", "tags", "baseRowId")}
        for add in adds
    ]
    return sorted(facts, key=str)


_COPY, _AUTO = ("mapped-by-id", "unpartitioned", "copy"), ("plain", "partitioned-twice", "auto")


@pytest.mark.parametrize(("kind", "features", "layout", "rewrite"), [
    pytest.param("classic", *_COPY, marks=ON_SPARK),
    pytest.param("connect", *_AUTO, marks=ON_CLUSTER),
    pytest.param("classic", *_AUTO, marks=(*ON_SPARK, pytest.mark.slow)),
    pytest.param("connect", *_COPY, marks=ON_CLUSTER),
])  # fmt: skip
def test_the_same_on_every_engine(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind: str,
    features: str,
    layout: str,
    rewrite: Rewrite,
) -> None:
    session: SparkSession = request.getfixturevalue(
        {"classic": "delta_spark", "connect": "cluster"}[kind]
    )
    here, there = tmp_path / "local", tmp_path / "spark"
    sample(here, features, layout)
    shutil.copytree(here, there)
    expected = rows_of(here)

    options = OptimizeOptions(verify="full", rewrite=rewrite)
    local = Table(str(here)).optimize(options, engine=LocalEngine(2))
    spark = Table(str(there)).optimize(options, engine=SparkEngine(session))

    assert local.plan.files.equals(spark.plan.files)
    assert local.plan.num_bins == spark.plan.num_bins > 0
    assert local.rewritten == spark.rewritten
    assert local.rewritten is not None
    assert bool(local.rewritten.groups_copied) == (rewrite == "copy")
    assert (spark.engine, spark.engine_reason) == ("spark", "given by the caller")
    assert rows_of(there) == rows_of(here) == expected
    assert sorted(a["stats"] for a in added(here, local)) == sorted(
        a["stats"] for a in added(there, spark)
    )
    assert (spark.failures, spark.strays) == ((), ())
    assert session.range(3).count() == 3, "the session goes on"


@dataclass(frozen=True)
class Faulty(Engine):
    """An engine whose task of a number meets a fault after its work, some times."""

    inner: Engine
    folder: str
    fault: str
    number: int = 0
    times: int = 99

    name = "faulty"
    reason = "a test"
    leaves_orphans = True

    def run(self, worker: Any, tasks: Any, **options: Any) -> Iterator[Done[Any] | Failed]:
        """Wrap the worker, not the engine: it is there that things go wrong."""
        faulty = AfterWork(worker, self.folder, self.fault, self.number, self.times)
        return self.inner.run(faulty, tasks, **options)


class FaultRun:
    """A partitioned table, optimized while a task meets a fault."""

    def __init__(self, session: SparkSession, folder: Path, fault: str, times: int) -> None:
        self.path, marks = folder / "table", folder / "marks"
        marks.mkdir()
        sample(self.path, "plain", "partitioned")
        self.rows, self.files = rows_of(self.path), parquet_files(self.path)
        engine = Faulty(SparkEngine(session), str(marks), fault, times=times)
        self.report = report_of(lambda: Table(str(self.path)).optimize(engine=engine))

    def ensure_sound(self, *, exactly: bool = True) -> None:
        """No row is lost, and every file that is there is named by a commit."""
        assert rows_of(self.path) == self.rows
        new = parquet_files(self.path) - self.files
        live = set(Table(str(self.path)).snapshot().files["path"].to_pylist())
        assert new >= live - self.files
        assert not exactly or new == live - self.files
        assert self.report.strays == ()


@pytest.mark.parametrize("fault", [
    pytest.param("die", marks=ON_SPARK),
    pytest.param("kill executor", marks=ON_CLUSTER),
    pytest.param("linger", marks=ON_CLUSTER),
])  # fmt: skip
def test_a_try_that_is_lost_after_its_work_leaves_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, fault: str
) -> None:
    """Its output is found by its name, told of, and removed; another try's counts, once."""
    session = request.getfixturevalue("delta_spark" if fault == "die" else "cluster")
    run = FaultRun(session, tmp_path, fault, times=1)
    assert not run.report.failures
    assert run.report.strays_removed
    assert not parquet_files(run.path).intersection(run.report.strays_removed)
    # The slower of two tries is stopped, and may still have left a file once we had looked.
    run.ensure_sound(exactly=fault != "linger")


@pytest.mark.parametrize("session", [pytest.param("delta_spark", marks=ON_SPARK)])
@pytest.mark.slow  # `make explore-spark` runs it
@pytest.mark.parametrize("fault", ["die", "raise"])
def test_a_bin_that_keeps_failing_is_dropped_and_the_others_commit(
    request: pytest.FixtureRequest, tmp_path: Path, session: str, fault: str
) -> None:
    run = FaultRun(request.getfixturevalue(session), tmp_path, fault, times=99)
    (failure,) = run.report.failures
    assert ("number 0" if fault == "raise" else "did not finish the task") in failure.reason
    assert run.report.versions
    assert run.report.files_added == run.report.plan.num_bins - 1
    run.ensure_sound()


class NeverStarted(Engine):
    """An engine that must not be started."""

    name, reason, asked = "spark", "large", 0

    def sized(self, input_bytes: int) -> NeverStarted:
        self.asked = input_bytes
        return self

    def start(self) -> Engine:
        raise AssertionError("a dry run starts nothing")

    def run(self, *args: Any, **options: Any) -> Iterator[Any]:
        raise AssertionError("a dry run runs nothing")


def test_a_dry_run_says_where_it_would_run_and_starts_nothing(tmp_path: Path) -> None:
    sample(tmp_path / "t", "plain", "unpartitioned")
    engine = NeverStarted()
    report = Table(str(tmp_path / "t")).optimize(engine=engine, dry_run=True)
    assert (report.engine, report.engine_reason) == ("spark", "large")
    assert engine.asked == report.plan.bytes_to_rewrite > 0


def test_a_commit_says_where_it_ran_and_why(tmp_path: Path) -> None:
    sample(tmp_path / "t", "plain", "unpartitioned")
    table = Table(str(tmp_path / "t"))
    table.optimize(engine=LocalEngine(reason="small"))
    info = table.history(limit=1)["engineInfo"][0].as_py()
    assert info.endswith("(local engine: small)")
