"""Tables with Iceberg compatibility, written by Delta on Spark: files keep the rules of Iceberg."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltactl.operations.optimize.options import OptimizeOptions, Rewrite
from deltactl.parquet.stored_columns import read_columns
from deltactl.table import Table
from tests.parquet.splice.files import read_footer
from tests.support.duckdb_delta import connect_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_FLAT = "id INT, at TIMESTAMP, s STRUCT<a: STRING>, day DATE"
_NESTED = "l ARRAY<ARRAY<INT>>, m MAP<STRING, STRUCT<b: ARRAY<INT>>>"


def _make(spark: SparkSession, path: Path, version: int) -> None:
    columns = _FLAT if version == 1 else f"{_FLAT}, {_NESTED}"
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({columns}) USING DELTA PARTITIONED BY (day) TBLPROPERTIES ("
        f"'delta.enableIcebergCompatV{version}'='true', 'delta.columnMapping.mode'='name'"
        + (", 'delta.enableRowTracking'='true'" if version == 3 else "")
        + ")"
    )
    nested = ", array(array(1, null), null), map('k', named_struct('b', array(2)))"
    spark.sql(  # by two tasks, each of which writes a file for each day
        f"INSERT INTO delta.`{path}` SELECT int(id), timestamp'2024-01-01 00:00:00', "
        "named_struct('a', 'x'), date_add(date'2024-01-01', int(id % 2))"
        + ("" if version == 1 else nested)
        + " FROM range(0, 4, 1, 2)"
    )


def _read(spark: SparkSession, path: Path) -> tuple[list[str], list[str]]:
    spark.catalog.clearCache()
    duck = connect_duckdb().sql(f"SELECT * FROM delta_scan('{path}')")
    rows = spark.read.format("delta").load(str(path)).collect()
    return sorted(map(str, rows)), sorted(map(str, duck.fetchall()))


def _stored(path: Path) -> dict[str, tuple[Any, ...]]:
    """Return type and field ids of each column of a file."""
    return {c.name: (c.shape, c.ids) for c in read_columns(read_footer(path))}


@pytest.mark.parametrize(
    ("version", "rewrite"),
    [
        (1, "encode"),
        pytest.param(3, "copy", marks=pytest.mark.slow),
        pytest.param(1, "copy", marks=pytest.mark.slow),
        pytest.param(2, "encode", marks=pytest.mark.slow),
        pytest.param(2, "copy", marks=pytest.mark.slow),
        pytest.param(3, "encode", marks=pytest.mark.slow),
    ],
)
def test_new_files_have_partition_columns_and_all_field_ids(
    delta_spark: SparkSession, tmp_path: Path, version: int, rewrite: Rewrite
) -> None:
    _make(delta_spark, tmp_path, version)
    table = Table(str(tmp_path))
    before = _read(delta_spark, tmp_path)
    written = _stored(tmp_path / table.snapshot().files["path"][0].as_py())
    report = table.optimize(OptimizeOptions(rewrite=rewrite, verify="full"))
    assert (report.files_removed, report.files_added) == (4, 2)
    assert _read(delta_spark, tmp_path) == before
    for path in table.snapshot().files["path"].to_pylist():
        stored = _stored(tmp_path / path)
        hidden = {name: stored.pop(name) for name in stored.keys() - written.keys()}
        assert stored == written
        ids = sorted(number for _, numbers in hidden.values() for number in numbers)
        assert ids == ([2147483539, 2147483540] if version == 3 else [])
    log = tmp_path / "_delta_log" / f"{report.versions[-1]:020d}.json"
    actions = map(json.loads, log.read_text().splitlines())
    line = next(action["add"] for action in actions if "add" in action)
    assert line["tags"]["ICEBERG_COMPAT_VERSION"] == str(version)
    assert json.loads(line["stats"])["numRecords"] == 2
    delta_spark.sql(f"INSERT INTO delta.`{tmp_path}` SELECT * FROM delta.`{tmp_path}` WHERE id = 1")
    delta_spark.sql(f"UPDATE delta.`{tmp_path}` SET id = 9 WHERE id = 0")
