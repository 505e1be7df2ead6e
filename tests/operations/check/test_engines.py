"""One check on both engines: the same findings, and going on where it was stopped."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl import SparkEngine, Table
from deltactl.engine.base import Engine
from deltactl.engine.local import LocalEngine
from deltactl.errors import InterruptedRunError
from deltactl.operations.check import files as check_files
from deltactl.operations.check.options import CheckOptions, Depth
from tests.support.checkpoints import memory_of
from tests.support.damage import DEEP, edit_parquet, edit_stats, flip, only_file, table
from tests.support.spark_cluster import ON_SPARK
from tests.support.table_builder import TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = list(ON_SPARK)


def damaged() -> TableBuilder:
    """A missing file, wrong statistics, fewer rows than the log says, a broken vector."""
    builder = table()
    edit_stats(builder, 2, minValues={"id": 15})
    flip(builder.store, only_file(builder, ".bin"), -6)
    names = sorted(n for n in memory_of(builder).contents() if n.startswith("p="))
    edit_parquet(builder.store, names[2], lambda rows: rows[:-1])
    lost = builder.append([{"id": 900, "name": "lost", "p": 1}])
    builder.store.delete_many(lost)
    return builder


def stored(builder: TableBuilder, folder: Path) -> str:
    """The table as files on this machine, where workers of another process find it."""
    for name, data in memory_of(builder).contents().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return str(folder)


def seen(uri: str, engine: Engine, **options: Any) -> tuple[Any, ...]:
    report = Table(uri).check(CheckOptions(**options), engine=engine)
    findings = sorted(report.findings.to_pylist(), key=str)
    return findings, sorted(report.notes), report.counts, report.version


def test_the_same_on_every_engine(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_files, "_FILES_A_TASK", 1)
    uri = stored(damaged(), tmp_path)
    spark = SparkEngine(delta_spark)
    for options in ({"depth": Depth.FOOTERS}, DEEP):
        there = seen(uri, spark, **options)
        assert there == seen(uri, LocalEngine(1), **options)
    codes = {finding["code"] for finding in there[0]}
    assert {"FILE_MISSING", "STATS_BOUNDS", "FILE_SIZE", "VECTOR_UNREADABLE"} <= codes


def test_what_was_begun_here_is_finished_there(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_files, "_FILES_A_TASK", 1)
    uri = stored(damaged(), tmp_path / "table")
    options: dict[str, Any] = {"depth": Depth.DATA, "resume": str(tmp_path / "state")}
    cancel = threading.Event()
    with pytest.raises(InterruptedRunError):
        Table(uri).check(
            CheckOptions(**options),
            engine=LocalEngine(1),
            cancel=cancel,
            on_progress=lambda *_: cancel.set(),
        )
    begun = len((tmp_path / "state").read_bytes().splitlines())
    assert 1 < begun < 5
    assert seen(uri, SparkEngine(delta_spark), **options) == seen(
        uri, LocalEngine(1), depth=Depth.DATA
    )
    assert (tmp_path / "state").read_bytes() == b""
