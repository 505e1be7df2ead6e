"""Null counts that are read from the bytes of a footer."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.parquet.format import END_BYTES
from deltactl.parquet.null_counts import count_chunk_nulls, read_stored_nulls
from deltactl.parquet.thrift import ThriftError

ROWS = 40


def footer_of(table: pa.Table, **options: object) -> tuple[pq.FileMetaData, bytes]:
    target = io.BytesIO()
    pq.write_table(table, target, row_group_size=15, **options)
    data, metadata = target.getvalue(), pq.read_metadata(target)
    return metadata, data[-END_BYTES - metadata.serialized_size : -END_BYTES]


def wide_table() -> pa.Table:
    columns: dict[str, list[object]] = {
        f"c{n}": [None if (row + n) % (n + 2) == 0 else row for row in range(ROWS)]
        for n in range(20)
    }
    columns["text"] = ["x" * 200 if row % 3 else None for row in range(ROWS)]
    columns["nested"] = [{"a": [row], "b": {"c": None}} for row in range(ROWS)]
    return pa.table(columns)


@pytest.mark.parametrize(
    "options",
    [{}, {"write_statistics": False}, {"write_statistics": ["c3", "text"]}, {"version": "1.0"}],
)
def test_they_are_those_that_arrow_reads(options: dict[str, object]) -> None:
    metadata, data = footer_of(wide_table(), **options)
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    wanted = [
        [count_chunk_nulls(group.column(index)) for index in range(group.num_columns)]
        for group in groups
    ]
    assert read_stored_nulls(data) == wanted


def test_a_footer_that_is_cut_off_is_refused() -> None:
    _, data = footer_of(wide_table())
    for length in range(0, len(data) // 2, 71):
        with pytest.raises(ThriftError):
            read_stored_nulls(data[:length])
