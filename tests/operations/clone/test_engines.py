"""The files of a deep clone are copied on Spark's workers as in the process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import CloneOptions, SparkEngine, Table
from deltactl.engine.base import Done, Engine, Failed
from deltactl.operations.clone import tasks
from deltactl.operations.clone.report import CloneReport
from deltactl.storage.local.store import LocalStore
from tests.support.spark_cluster import ON_SPARK
from tests.support.spark_workers import AfterCopy, count_marks
from tests.support.stores import MemoryStore
from tests.support.table_builder import TableBuilder, multiset
from tests.support.table_samples import build_sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = list(ON_SPARK)

DEEP = CloneOptions(deep=True)


@dataclass(frozen=True)
class Marking(Engine):
    """An engine each try of whose tasks leaves a file in a folder."""

    inner: Engine
    folder: str
    dies_after: str = ""

    name = "spark"
    reason = "a test"
    leaves_orphans = True

    def run(self, worker: Any, tasks: Any, **options: Any) -> Iterator[Done[Any] | Failed]:
        marking = AfterCopy(worker, self.folder, self.dies_after)
        return self.inner.run(marking, tasks, **options)


def build(folder: Path) -> TableBuilder:
    template = MemoryStore("memory://clone-on-spark")
    builder = build_sample(template, features="deletion-vectors", layout="partitioned")
    return builder.copy_to(LocalStore(str(folder)))


def data_files(folder: Path) -> dict[str, bytes]:
    found = [*folder.rglob("*.parquet"), *folder.rglob("*.bin")]
    return {str(it.relative_to(folder)): it.read_bytes() for it in found}


def ensure_copied(folder: Path, report: CloneReport) -> None:
    """Each file of the copy is that of the source, which has some that no row needs."""
    copied = data_files(folder / "copy")
    assert copied.items() <= data_files(folder / "source").items()
    assert len(copied) == report.files_copied + report.files_kept


def test_the_workers_copy(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_FILES_A_TASK", 2)
    builder = build(tmp_path / "source")
    (marks := tmp_path / "marks").mkdir()
    engine = Marking(SparkEngine(delta_spark), str(marks))
    report = Table(tmp_path / "source").clone(tmp_path / "copy", DEEP, engine=engine)
    assert report.engine == "spark"
    num_tasks = -(-report.files_copied // 2)
    assert count_marks(marks) == num_tasks
    ensure_copied(tmp_path, report)
    rows = Table(tmp_path / "copy").scan().read_all().to_pylist()
    assert multiset(rows) == multiset(builder.rows())
    builder.append([{"id": 5000, "p": "a"}])
    sync = CloneOptions(deep=True, sync=True)
    report = Table(tmp_path / "source").clone(tmp_path / "copy", sync, engine=engine)
    num_tasks += -(-(report.files_copied + report.files_kept) // 2)
    assert (report.files_copied, count_marks(marks)) == (1, num_tasks)


def test_a_worker_that_dies_is_replaced(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_FILES_A_TASK", 2)
    build(tmp_path / "source")
    (marks := tmp_path / "marks").mkdir()
    last = sorted(it for it in data_files(tmp_path / "source") if it.endswith(".parquet"))[-1]
    engine = Marking(SparkEngine(delta_spark), str(marks), last)
    report = Table(tmp_path / "source").clone(tmp_path / "copy", DEEP, engine=engine)
    assert report.files_kept > 0  # those of the worker that died
    assert count_marks(marks) == -(-(report.files_copied + report.files_kept) // 2) + 1
    ensure_copied(tmp_path, report)
