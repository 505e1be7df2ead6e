"""The files of a version are looked for on Spark as in the process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl import SparkEngine, Table
from deltactl.engine.base import Engine
from deltactl.engine.local import LocalEngine
from deltactl.errors import SafetyError
from deltactl.operations import missing_files
from tests.support.spark_cluster import ON_SPARK
from tests.support.table_builder import Column, TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = list(ON_SPARK)


def test_the_same_files_are_missed_on_every_engine(
    delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_files, "_FILES_A_TASK", 2)
    builder = TableBuilder(tmp_path, [Column("id")], features=["deletionVectors"])
    gone, short, marked, *whole = builder.append(*([{"id": n}, {"id": n + 50}] for n in range(9)))
    builder.delete_rows(marked, [1])
    builder.remove(gone, short, marked, *whole)
    (tmp_path / gone).unlink()
    (tmp_path / short).write_bytes(b"x")
    (vector,) = tmp_path.glob("*.bin")
    vector.unlink()
    table = Table(str(tmp_path))
    engines: list[Engine] = [LocalEngine(workers=2), SparkEngine(delta_spark)]
    refusals = []
    for engine in engines:
        with pytest.raises(SafetyError) as caught:
            table.restore(version=2, engine=engine)
        refusals.append(caught.value.message)
    assert refusals[0] == refusals[1]
    assert all(name in refusals[0] for name in (gone, short, vector.name))
    from deltactl import RestoreOptions

    (tmp_path / short).unlink()
    options = RestoreOptions(2, ignore_missing=True, expect_files=3)
    report = table.restore(options=options, engine=engines[1])
    assert report.engine == "spark"
    assert report.plan.added.num_rows == len(whole)
    assert report.gone == ()
