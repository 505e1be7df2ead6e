"""A data file of a table is replaced by another one, as by a wrong restore of a backup."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError
from deltactl.table import Table
from tests.support.run import report_of
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder

WAYS: dict[str, dict[str, Any]] = {
    "encoded": {},
    "copied": {"min_row_group_bytes": 1},
    "verified": {"verify": "full"},
    "z-order": {"zorder_by": ["id"]},
}


def build() -> tuple[TableBuilder, list[str]]:
    builder = TableBuilder(fresh_store(), [Column("id")], features=["deletionVectors"])
    paths = builder.append(*([{"id": 100 * n + i} for i in range(100)] for n in range(3)))
    builder.delete_rows(paths[0], [7])
    return builder, paths


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [10, 100, 150])
@pytest.mark.parametrize("has_counts", [True, False])
def test_a_replaced_file_is_left_alone(way: str, rows: int, has_counts: bool) -> None:
    builder, paths = build()
    if not has_counts:
        add = {name: it for name, it in builder.find(paths[2]).items() if name != "stats"}
        builder.commit({"add": add | {"dataChange": False}})
    sink = io.BytesIO()
    pq.write_table(
        pa.table({"id": pa.array(range(7, 7 + rows), pa.int64())}), sink, use_dictionary=False
    )
    assert len(sink.getvalue()) != len(builder.store.read(paths[1]))
    builder.store.put(paths[1], sink.getvalue())
    table = Table("x", store=builder.store)
    report = report_of(lambda: table.optimize(**WAYS[way]))
    (failure,) = report.failures
    assert f"{paths[1]!r} has {len(sink.getvalue()):,} bytes, but the log has" in failure.reason
    assert isinstance(failure.error, DataFileError)
    assert "explain FILE_SIZE" in (failure.error.hint or "")
    assert paths[1] in table.snapshot().files["path"].to_pylist()
    assert report.rows_rewritten in (0, 199)  # the other files


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_count_in_the_log_is_corrected(way: str) -> None:
    """The file is the one that was committed: only its statistics are wrong."""
    builder, paths = build()
    add = builder.find(paths[1])
    builder.commit({"add": {**add, "stats": json.dumps({"numRecords": 5}), "dataChange": False}})
    report = Table("x", store=builder.store).optimize(**WAYS[way])
    assert report.rows_rewritten == 299
