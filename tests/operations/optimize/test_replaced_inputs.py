"""A data file of a table is replaced by another one, as by a wrong restore of a backup."""

import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError
from deltactl.table import Table
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
def test_the_loss_is_not_committed(way: str) -> None:
    builder, paths = build()
    stored = pq.read_table(io.BytesIO(builder.store.read(paths[1])))
    sink = io.BytesIO()
    pq.write_table(stored.slice(0, 10), sink)
    builder.store.put(paths[1], sink.getvalue())
    before = set(builder.store.contents())  # type: ignore[attr-defined]
    with pytest.raises(DataFileError, match="299 rows") as caught:
        Table("x", store=builder.store).optimize(**WAYS[way])
    assert f"{paths[1]!r} (it has" in str(caught.value)
    assert set(builder.store.contents()) == before  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_count_in_the_log_is_corrected(way: str) -> None:
    """The file is the one that was committed: only its statistics are wrong."""
    builder, paths = build()
    add = builder.find(paths[1])
    builder.commit({"add": {**add, "stats": json.dumps({"numRecords": 5}), "dataChange": False}})
    report = Table("x", store=builder.store).optimize(**WAYS[way])
    assert report.rows_rewritten == 299
