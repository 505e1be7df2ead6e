"""Layouts beside Delta on Spark: each takes the clusters of the other for its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def _insert(spark: SparkSession, folder: Path, n: int, files: int = 1) -> None:
    """Add files of 100 rows each, from file ``n`` on."""
    spark.sql(
        f"INSERT INTO delta.`{folder}` SELECT id * 7 % 101, CONCAT('b', id % 13), "
        "NAMED_STRUCT('x', CAST(id % 5 AS INT)) "
        f"FROM RANGE({100 * n}, {100 * (n + files)}, 1, {files})"
    )


def _inserted(files: int) -> list[tuple[int, str, int]]:
    """The rows of so many files of ``_insert``."""
    return sorted((n * 7 % 101, f"b{n % 13}", n % 5) for n in range(100 * files))


def _rows(spark: SparkSession, folder: Path) -> list[tuple[int, str, int]]:
    found = spark.read.format("delta").load(str(folder)).collect()
    return sorted((row["a"], row["b"], row["st"]["x"]) for row in found)


@pytest.fixture(scope="module")
def written(delta_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "t"
    delta_spark.sql(
        f"CREATE TABLE delta.`{folder}` (a BIGINT, b STRING, st STRUCT<x: INT>) "
        "USING DELTA CLUSTER BY (a, st.x)"
    )
    _insert(delta_spark, folder, 0, 3)
    return folder


@pytest.fixture
def clustered(written: Path, tmp_path: Path) -> Path:
    """A copy of a clustered table of three files that Spark wrote once."""
    return Path(shutil.copytree(written, tmp_path / "t"))


def _version(folder: Path) -> int:
    return Table(str(folder)).snapshot().version


def test_spark_has_nothing_to_do_after_us_and_we_after_spark(
    delta_spark: SparkSession, clustered: Path
) -> None:
    folder = clustered
    ours = Table(str(folder)).optimize(OptimizeOptions())
    assert ours.files_removed >= 3
    assert _rows(delta_spark, folder) == _inserted(3)
    version = _version(folder)
    delta_spark.sql(f"OPTIMIZE delta.`{folder}`")
    assert _version(folder) == version
    # A new file: Spark rewrites our cube with it, and then we have nothing to do.
    _insert(delta_spark, folder, 3)
    delta_spark.sql(f"OPTIMIZE delta.`{folder}`")
    assert _version(folder) == version + 2
    assert Table(str(folder)).optimize(OptimizeOptions(), dry_run=True).plan.is_empty
    _insert(delta_spark, folder, 4)
    assert Table(str(folder)).optimize(OptimizeOptions()).versions
    assert _rows(delta_spark, folder) == _inserted(5)
    version = _version(folder)
    delta_spark.sql(f"OPTIMIZE delta.`{folder}`")
    assert _version(folder) == version


def test_spark_takes_tiles_of_clustering_columns_for_its_cubes(
    delta_spark: SparkSession, clustered: Path
) -> None:
    folder = clustered
    assert Table(str(folder)).optimize(OptimizeOptions(layout="tile", target_bytes=1000)).versions
    version = _version(folder)
    delta_spark.sql(f"OPTIMIZE delta.`{folder}`")
    assert _version(folder) == version
    assert _rows(delta_spark, folder) == _inserted(3)
    delta_spark.sql(f"OPTIMIZE delta.`{folder}` FULL")  # takes files of other columns only
    assert _version(folder) == version
    assert (
        Table(str(folder)).optimize(OptimizeOptions(target_bytes=1000), dry_run=True).plan.is_empty
    )
