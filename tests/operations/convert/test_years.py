"""Partition values with years beyond four digits."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from deltactl.errors import ConversionError
from deltactl.library import convert


def write(root: Path, value: str) -> None:
    directory = root / f"d={value}"
    directory.mkdir()
    pq.write_table(pa.table({"id": [1]}), directory / "f.parquet")


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_a_year_above_9999_without_a_sign_is_refused(tmp_path: Path, kind: str) -> None:
    write(tmp_path, "10000-01-01" if kind == "date" else "10000-01-01 00%3A00%3A00")
    with pytest.raises(ConversionError, match="a year above 9999 needs a sign"):
        convert(str(tmp_path), partition_by=f"d {kind}")
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize("value", ["+10000-01-01", "0000-01-01", "-0005-01-01"])
def test_years_as_spark_writes_them_are_read_by_delta_rs(tmp_path: Path, value: str) -> None:
    write(tmp_path, value)
    convert(str(tmp_path), partition_by="d date")
    query = QueryBuilder().register("t", DeltaTable(tmp_path))
    read = pa.table(query.execute("SELECT id, CAST(d AS VARCHAR) AS d FROM t").read_all())
    assert read.to_pylist() == [{"id": 1, "d": value}]
