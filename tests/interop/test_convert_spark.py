"""Spark without Delta writes a directory; converted, Delta on Spark reads it, and our manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import convert
from deltactl.operations.convert.options import ConvertOptions
from deltactl.table import Table
from tests.interop.judges import rows_with_duckdb
from tests.support.symlink_reader import list_manifests
from tests.support.table_builder import multiset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_a_directory_of_spark_read_by_spark(delta_spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    delta_spark.sql(
        "SELECT id, CAST(id AS INT) AS n, CAST(id AS DECIMAL(12, 2)) AS c, "
        "TIMESTAMP'2024-01-01 00:00:00' + MAKE_INTERVAL(0, 0, 0, 0, 0, 0, id) AS t, "
        "NAMED_STRUCT('x', ARRAY(id)) AS s, "
        "CASE WHEN id % 3 = 0 THEN NULL ELSE CONCAT('a/b ', id % 3) END AS p FROM RANGE(20)"
    ).write.partitionBy("p").parquet(str(folder))
    # A file of a narrower type, as an older job may have left it.
    narrow = folder / "p=old"
    narrow.mkdir()
    pq.write_table(pa.table({"id": pa.array([99], pa.int32())}), narrow / "0.parquet")
    convert(str(folder), ConvertOptions(schema_mode="widen"))
    spark_rows = [
        row.asDict(recursive=True)
        for row in delta_spark.read.format("delta").load(str(folder)).collect()
    ]
    ours = Table(str(folder)).scan().read_all().to_pylist()
    for rows in (spark_rows, ours):
        for row in rows:
            row["t"] = row["t"] and row["t"].replace(tzinfo=None)
    assert len(ours) == 21 and multiset(spark_rows) == multiset(ours)
    duck = rows_with_duckdb(folder)
    assert sorted(row["id"] for row in duck) == sorted(row["id"] for row in ours)


def test_spark_reads_what_manifests_list(delta_spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    (delta_spark.range(12).selectExpr("id", "CONCAT('x:y ', id % 3) AS p")).write.partitionBy(
        "p"
    ).format("delta").save(str(folder))
    table = Table(str(folder))
    table.generate_manifest()
    found = list_manifests(folder / "_symlink_format_manifest")
    delta_spark.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{folder}`")
    theirs = list_manifests(folder / "_symlink_format_manifest")
    assert {k: sorted(v) for k, v in found.items()} == {k: sorted(v) for k, v in theirs.items()}
    assert table.generate_manifest().plan.is_empty
    lines = [line for listed in found.values() for line in listed]
    ids = [row.id for row in delta_spark.read.parquet(*lines).collect()]
    assert sorted(ids) == list(range(12))
