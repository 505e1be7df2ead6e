"""Row groups that Spark (parquet-mr) wrote are copied; Spark reads them as before."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from deltactl import OptimizeOptions, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_ROWS = """
SELECT id, cast(id % 100 AS int) AS small, concat('text ', id % 50) AS text,
  CASE WHEN id % 1000 = 7 THEN double('NaN') WHEN id % 10 = 3 THEN null ELSE id / 3 END AS number,
  float(id) AS clean, date_add(date'2001-01-01', cast(id % 5000 AS int)) AS day,
  timestamp_micros(id * 1000003) AS time, cast(id / 7 AS decimal(12, 2)) AS price,
  cast(id AS decimal(38, 4)) AS wide, id % 3 = 0 AS flag,
  CASE WHEN id % 4 = 0 THEN null ELSE array(id, id + 1) END AS list,
  named_struct('a', id, 'b', cast(id AS string)) AS inner, map('k', id) AS map
FROM range({}, {})
"""


def _stats(path: Path, version: int) -> list[dict[str, Any]]:
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    adds = (json.loads(line)["add"] for line in lines if line.startswith('{"add"'))
    return [json.loads(add["stats"]) for add in adds]


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS"])
def test_spark_reads_copied_row_groups(
    delta_spark: SparkSession, tmp_path: Path, timestamps: str
) -> None:
    spark, name = delta_spark, "spark.sql.parquet.outputTimestampType"
    stats = {}
    before = str(spark.conf.get(name))
    spark.conf.set(name, timestamps)
    try:
        for rewrite in ("copy", "encode"):
            path = tmp_path / rewrite
            for number in range(3):
                rows = spark.sql(_ROWS.format(number * 5000, (number + 1) * 5000)).coalesce(1)
                rows.write.format("delta").mode("append").save(str(path))
            table = spark.read.format("delta").load(str(path))
            expected = [str(row) for row in table.orderBy("id").collect()]
            report = Table(str(path), warn=pytest.fail).optimize(
                OptimizeOptions(rewrite=rewrite, verify="full")
            )
            assert report.rewritten is not None
            assert report.rewritten.groups_copied == (3 if rewrite == "copy" else 0)
            spark.catalog.clearCache()
            again = spark.read.format("delta").load(str(path))
            assert [str(row) for row in again.orderBy("id").collect()] == expected
            assert again.where("number = double('NaN')").count() == 15
            assert again.where("number > 1e300").count() == 15
            assert again.where("id = 7777 AND text = 'text 27'").count() == 1
            assert again.where("day = date'2001-01-08'").count() == 3
            (stats[rewrite],) = _stats(path, report.versions[0])
    finally:
        spark.conf.set(name, before)
    assert stats["copy"] == stats["encode"]


@pytest.mark.parametrize("values", [("double('NaN')", "2.0D"), ("2.0D", "double('NaN')")])
def test_nan_is_the_upper_bound_in_footers_of_spark(
    delta_spark: SparkSession, tmp_path: Path, values: tuple[str, str]
) -> None:
    """The rows of such columns are not read if the upper bound is a number."""
    rows = f"SELECT {values[0]} AS a, 1.0D AS b UNION ALL SELECT {values[1]}, 3.0D"
    delta_spark.sql(rows).coalesce(1).write.parquet(str(tmp_path / "files"))
    (path,) = (tmp_path / "files").glob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    assert math.isnan(group.column(0).statistics.max)
    assert group.column(1).statistics.max == 3.0
