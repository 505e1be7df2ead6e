"""The newest commit was lost, but its version has a checkpoint: what `explain` advises helps.

Delta on Spark cannot open a table whose newest version has no commit. DuckDB and delta-rs can.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl.table import Table
from tests.interop.judges import READERS, try_count
from tests.support.table_builder import commit_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("has_timestamps", [pytest.param("false", marks=pytest.mark.slow), "true"])
def test_a_later_commit_lets_all_open_the_table(
    has_timestamps: str, delta_spark: SparkSession, tmp_path: Path
) -> None:
    table = f"delta.`{tmp_path}`"
    delta_spark.sql(
        f"CREATE TABLE {table} (id INT) USING DELTA TBLPROPERTIES "
        f"('delta.enableInCommitTimestamps'='{has_timestamps}')"
    )
    for number in range(2):
        delta_spark.sql(f"INSERT INTO {table} VALUES ({number})")
    Table(tmp_path).checkpoint()
    (tmp_path / commit_path(2)).unlink()

    def count() -> int:
        delta_spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        return len(delta_spark.read.format("delta").load(str(tmp_path)).collect())

    with pytest.raises(Exception, match="Could not find any delta files for version 2"):
        count()
    (repair,) = Table(tmp_path).check().findings["repair"].to_pylist()
    assert "--set deltactl.versionAfter=2`: Delta on Spark cannot open a table" in repair
    Table(tmp_path).fix(kind="last-checkpoint")
    Table(tmp_path).alter(properties={"deltactl.versionAfter": "2"})
    assert count() == 2
    assert {reader: try_count(reader, tmp_path) for reader in READERS} == dict.fromkeys(
        READERS, (2, "")
    )
    delta_spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert count() == 3
