"""Statistics of many footers at once say exactly what one footer at a time says."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.errors import DataFileError
from deltactl.parquet.file_schema import read_file_schema
from deltactl.parquet.footer import read_file_stats
from deltactl.parquet.footer_columns import read_leaf_columns
from deltactl.protocol.stats_columns import StatsColumns, list_leaves
from deltactl.protocol.stats_encoding import encode_stats, encode_stats_of_files
from tests.support.footers import read_valid_footer
from tests.support.stores import CountingStore, MemoryStore

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("m", pa.timestamp("ns")),
        ("c", pa.decimal128(20, 3)),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("x", pa.binary()),
        ("l", pa.list_(pa.int64())),
        ("o", pa.struct([("a b", pa.int64()), ("q", pa.struct([("z", pa.string())]))])),
    ]
)
MOMENTS = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))
ROW = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**31), 2**31 - 1),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
        "d": st.none() | st.dates(),
        "t": st.none() | MOMENTS.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
        "n": st.none() | MOMENTS,
        "m": st.none() | st.integers(-(10**18), 10**18),
        "c": st.none() | st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-3)),
        "f": st.none() | st.floats(),
        "b": st.none() | st.booleans(),
        "x": st.none() | st.binary(max_size=5),
        "l": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
        "o": st.none()
        | st.fixed_dictionaries(
            {"a b": st.none() | st.integers(0, 9), "q": st.none() | st.just({"z": '\x01"\\'})}
        ),
    }
)


def footer_of(rows: list[dict[str, Any]], group_rows: int, schema: pa.Schema = SCHEMA) -> Any:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, row_group_size=group_rows)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


@given(st.lists(st.tuples(st.lists(ROW, max_size=6), st.integers(1, 3)), min_size=1, max_size=4))
def test_columns_equal_one_footer_at_a_time(files: list[tuple[list[dict[str, Any]], int]]) -> None:
    footers = [footer_of(rows, group_rows) for rows, group_rows in files]
    columns = StatsColumns(list_leaves(read_file_schema(footers[0]).struct))
    leaves = read_leaf_columns(footers, columns)
    rows = pa.array([footer.num_rows for footer in footers])
    found = encode_stats_of_files(rows, leaves, columns).to_pylist()
    expected = [encode_stats(read_file_stats(footer, columns), columns) for footer in footers]
    assert [json.loads(text) for text in found] == [json.loads(text) for text in expected]
    assert found == expected


def test_unsigned_bounds_are_those_of_the_values() -> None:
    schema = pa.schema([("a", pa.uint32()), ("b", pa.uint64()), ("c", pa.uint8())])
    footer = footer_of(
        [{"a": 2**32 - 1, "b": 2**64 - 1, "c": 255}, {"a": 1, "b": 2, "c": 3}], 9, schema
    )
    columns = StatsColumns(list_leaves(read_file_schema(footer).struct))
    (text,) = encode_stats_of_files(
        pa.array([2]), read_leaf_columns([footer], columns), columns
    ).to_pylist()
    stats = json.loads(text)
    assert stats["minValues"] == {"a": 1, "b": 2, "c": 3}
    assert stats["maxValues"] == {"a": 2**32 - 1, "b": 2**64 - 1, "c": 255}


def test_a_column_that_files_lack_is_null_throughout() -> None:
    footer = footer_of([{"a": 1}], 9, pa.schema([("a", pa.int64())]))
    leaves = list_leaves(read_file_schema(footer).struct)
    more = StatsColumns((*leaves, *(type(leaf)(("z",), "string") for leaf in leaves)))
    (text,) = encode_stats_of_files(
        pa.array([1]), read_leaf_columns([footer], more), more
    ).to_pylist()
    assert json.loads(text)["nullCount"] == {"a": 0, "z": 1}


def test_a_footer_costs_one_read() -> None:
    store = CountingStore(MemoryStore("memory://footer-bytes"))
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(100_000))}), sink)
    store.put("a.parquet", sink.getvalue())
    footer = read_valid_footer(store, "a.parquet", len(sink.getvalue()))
    assert footer.num_rows == 100_000
    assert store.names["read_ranges"] == ["a.parquet"]


def test_a_footer_longer_than_usual_is_read_whole() -> None:
    store = MemoryStore("memory://footer-long")
    sink = io.BytesIO()
    wide = pa.table({f"column {n}": [n] for n in range(2000)})
    pq.write_table(wide, sink)
    store.put("a.parquet", sink.getvalue())
    assert read_valid_footer(store, "a.parquet", len(sink.getvalue())).num_columns == 2000


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"PAR1", "not a Parquet file"),
        (b"hello, world", "not a Parquet file"),
        (b"PAR1" + b"\0" * 20 + b"\xff\xff\x00\x00PAR1", "longer than the file"),
        (b"PAR1" + b"\xff" * 20 + b"\x14\x00\x00\x00PAR1", "is broken"),
        (b"PAR1" + b"\0" * 20 + b"\x04\x00\x00\x00PARE", "encrypted"),
    ],
)
def test_what_is_no_parquet_file_is_reported(content: bytes, told: str) -> None:
    store = MemoryStore("memory://footer-broken")
    store.put("a.parquet", content)
    with pytest.raises(DataFileError, match=told):
        read_valid_footer(store, "a.parquet", len(content))
