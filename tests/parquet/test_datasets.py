"""Datasets of delta-rs, which build a filter of each file out of its statistics."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import convert
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.optimize.run import OptimizeOptions
from deltactl.table import Table


@pytest.mark.parametrize("converted", [False, True])
def test_datasets_of_delta_rs_find_rows_by_booleans(tmp_path: Path, converted: bool) -> None:
    """They find none by a column without bounds where others of the file have some."""
    rows = pa.table({"id": range(6), "b": [True, False, None] * 2, "c": [True] * 6})
    if converted:
        pq.write_table(rows, tmp_path / "f.parquet")
        convert(str(tmp_path))
    else:
        for number in range(6):
            write_deltalake(tmp_path, rows.slice(number, 1), mode="append")
        assert Table(str(tmp_path)).optimize(OptimizeOptions()).files_added == 1
    (stats,) = Table(str(tmp_path)).snapshot().files["stats"].to_pylist()
    assert json.loads(stats)["minValues"] == {"id": 0, "b": False, "c": True}
    assert json.loads(stats)["maxValues"] == {"id": 5, "b": True, "c": True}
    dataset = DeltaTable(tmp_path).to_pyarrow_dataset()
    for column, value, count in (("b", True, 2), ("b", False, 2), ("c", True, 6), ("c", False, 0)):
        assert dataset.count_rows(filter=pc.field(column) == value) == count
    assert Table(str(tmp_path)).check(CheckOptions(depth=Depth.DATA)).is_sound
