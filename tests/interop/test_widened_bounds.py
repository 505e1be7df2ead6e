"""Queries find the rows of files that are older than a change of the type of their columns."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltactl import Table
from tests.interop.judges import count_each
from tests.support.duckdb_delta import connect_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first type, the second one, and a value of each of two files.
WIDENED = {
    "a": ("byte", "bigint", "-128", "127"),
    "b": ("smallint", "double", "-32768", "32767"),
    "c": ("int", "decimal(14, 3)", "-2147483648", "2147483647"),
    "d": ("bigint", "decimal(20, 0)", "-9223372036854775808", "9223372036854775807"),
    "e": ("date", "timestamp_ntz", "DATE'1969-12-31'", "DATE'2024-02-29'"),
    "f": ("decimal(5, 2)", "decimal(9, 4)", "-123.45", "999.99"),
    "g": ("decimal(5, 2)", "decimal(38, 2)", "-123.45", "999.99"),
    "x": ("float", "double", "0.33333334", "0.7"),  # as floats less and more than these texts
}
CONDITIONS = [
    f"{name} = CAST({f'CAST({value} AS float)' if first == 'float' else value} AS {second})"
    for name, (first, second, *values) in WIDENED.items()
    for value in values
]


def ask_duckdb(path: Path) -> list[int]:
    with connect_duckdb() as connection:
        return [
            connection.execute(
                "SELECT count(*) FROM delta_scan(?) WHERE "
                + it.replace("timestamp_ntz", "timestamp"),
                [str(path)],
            ).fetchall()[0][0]
            for it in CONDITIONS
        ]


def ask_spark(spark: SparkSession, path: Path) -> list[int]:
    return count_each(spark.read.format("delta").load(str(path)), *CONDITIONS)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_old_bounds(delta_spark: SparkSession, tmp_path: Path) -> None:
    """Only those of floats mislead readers. Delta on Spark 4.4, DuckDB 1.5."""
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    columns = ", ".join(f"{name} {first}" for name, (first, *_) in WIDENED.items())
    delta_spark.sql(
        f"CREATE TABLE {table} ({columns}) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
        "'delta.feature.timestampNtz' = 'supported')"
    )
    for number in (2, 3):
        values = ", ".join(
            f"CAST({row[number]} AS {row[0]}) AS {name}" for name, row in WIDENED.items()
        )
        delta_spark.sql(f"INSERT INTO {table} SELECT {values}")
    for name, (_, second, *_) in WIDENED.items():
        delta_spark.sql(f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {second}")
    found = [1] * 14 + [0, 0]
    assert (ask_spark(delta_spark, path), ask_duckdb(path)) == (found, found)
    optimized = tmp_path / "optimized"
    shutil.copytree(path, optimized)
    Table(str(optimized)).optimize()
    (note,) = Table(str(path)).check(depth="data").notes
    assert note.startswith("bounds of columns that were widened from float to double, such as 'x'")
    assert not Table(str(path)).fix(kind="stats").is_empty
    for repaired in (path, optimized):
        found = [1] * 16
        assert (ask_spark(delta_spark, repaired), ask_duckdb(repaired)) == (found, found)
        assert Table(str(repaired)).check(depth="data").notes == ()
