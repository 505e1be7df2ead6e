"""Files that lack a column with EXISTS_DEFAULT: what readers return, and what deltactl does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable

from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.table import Table
from tests.support.duckdb_delta import connect_duckdb
from tests.support.table_builder import Column, TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[int, Any]
REASON: Final = "lacks a column with EXISTS_DEFAULT"


def _write(root: Path, default: str, lacking: int = 2, key: str = "EXISTS_DEFAULT") -> TableBuilder:
    """Files with one row each; the first ones are older than the column x with a default."""
    builder = TableBuilder(root, [Column("id")], features=["allowColumnDefaults"])
    builder.append(*([{"id": number}] for number in range(lacking)))
    builder.change_metadata(columns=[Column("id"), Column("x", "integer", True, {key: default})])
    builder.append(*([{"id": number, "x": number}] for number in range(10, 14)))
    return builder


def read_with_delta_rs(root: Path) -> Rows:
    rows = DeltaTable(str(root)).to_pyarrow_table().to_pylist()
    return {row["id"]: row["x"] for row in rows}


def read_with_duckdb(root: Path) -> Rows:
    return dict(connect_duckdb().sql(f"SELECT id, x FROM delta_scan('{root}')").fetchall())


def read_here(root: Path) -> Rows:
    return {row["id"]: row["x"] for row in Table(str(root)).scan().read_all().to_pylist()}


NULLS: Final = {0: None, 1: None, 10: 10, 11: 11, 12: 12, 13: 13}


@pytest.mark.parametrize("default", ["5", "'no number"])
@pytest.mark.parametrize("read", [read_with_delta_rs, read_with_duckdb, read_here])
def test_optimize_leaves_files_that_lack_the_column(
    tmp_path: Path, read: Callable[[Path], Rows], default: str
) -> None:
    _write(tmp_path, default)
    assert read(tmp_path) == NULLS
    table = Table(str(tmp_path))
    report = table.optimize()
    assert (report.files_removed, report.plan.left_alone) == (4, {REASON: 2})
    assert read(tmp_path) == NULLS
    found = table.check(CheckOptions(depth=Depth.FOOTERS))
    assert found.count_codes() == {"DEFAULT_UNCLEAR": 2}


@pytest.mark.parametrize(("key", "lacking"), [("EXISTS_DEFAULT", 0), ("CURRENT_DEFAULT", 2)])
def test_optimize_rewrites_files_that_have_the_column_or_need_no_default(
    tmp_path: Path, key: str, lacking: int
) -> None:
    _write(tmp_path, "5", lacking, key)
    report = Table(str(tmp_path)).optimize()
    assert (report.files_removed, report.files_added) == (4 + lacking, 1)
    assert report.plan.left_alone == {}


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_returns_the_default_before_and_after(
    tmp_path: Path, delta_spark: SparkSession
) -> None:
    _write(tmp_path, "5")

    def read() -> Rows:
        delta_spark.catalog.clearCache()
        rows = delta_spark.read.format("delta").load(str(tmp_path)).collect()
        return {row["id"]: row["x"] for row in rows}

    expected = {**NULLS, 0: 5, 1: 5}
    assert read() == expected
    Table(str(tmp_path)).optimize()
    assert read() == expected
