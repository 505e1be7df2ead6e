import io
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from deltactl.errors import DataFileError
from deltactl.parquet.footer import RowFacts, read_file_stats
from deltactl.parquet.null_counts import COUNTS_NULL_LISTS, count_nulls, read_null_counts
from deltactl.protocol.actions import Metadata
from deltactl.protocol.stats import LeafStats
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from tests.parquet.tables import null_slots, tables


def footer(table: pa.Table, **options: Any) -> pq.FileMetaData:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def read_one(table: pa.Table, kind: str, *, nan_free: bool = False, **options: Any) -> LeafStats:
    name = table.column_names[0]
    facts = RowFacts(frozenset({(name,)}) if nan_free else frozenset())
    columns = StatsColumns((StatsLeaf((name,), kind),))
    return read_file_stats(footer(table, **options), columns, facts).leaves[(name,)]


def test_a_row_group_without_bounds_leaves_none() -> None:
    # Arrow keeps no bounds of more than 4 KiB.
    table = pa.table({"c": ["a", "z" * 5000, "b", "c"]})
    stats = read_one(table, "string", row_group_size=2)
    assert (stats.null_count, stats.maximum) == (0, None)


def test_floats_need_word_that_no_nan_is_there() -> None:
    table = pa.table({"c": [1.0, 2.0]})
    assert read_one(table, "float") == LeafStats(0)
    assert read_one(table, "float", nan_free=True) == LeafStats(0, 1.0, 2.0)


def test_all_digits_of_decimals_stay() -> None:
    low, high = Decimal("-99999999999999999999.999999999999999999"), Decimal("1E-18")
    table = pa.table({"c": pa.array([low, high], pa.decimal128(38, 18))})
    assert read_one(table, "decimal") == LeafStats(0, low, high)
    short = pa.table({"c": pa.array([Decimal("-1.50"), Decimal("2.25")], pa.decimal128(5, 2))})
    for as_integer in (True, False):
        found = read_one(short, "decimal", store_decimal_as_integer=as_integer)
        assert str(found.minimum) == "-1.50"
        assert str(found.maximum) == "2.25"


@pytest.mark.parametrize(
    ("unit", "value", "low", "high"),
    [("ms", -1, -1000, -1000), ("us", -1, -1, -1), ("ns", -1500, -2, -1), ("ns", 1500, 1, 2)],
)
def test_timestamps_are_microseconds(unit: str, value: int, low: int, high: int) -> None:
    table = pa.table({"c": pa.array([value], pa.timestamp(unit))})
    assert read_one(table, "timestamp_ntz", version="2.6") == LeafStats(0, low, high)


def test_int96_has_no_bounds() -> None:
    table = pa.table({"c": pa.array([5], pa.timestamp("us"))})
    found = read_one(table, "timestamp", use_deprecated_int96_timestamps=True)
    assert (found.minimum, found.maximum) == (None, None)


def test_leaves_are_found_by_structure_not_by_dotted_paths() -> None:
    inner = pa.struct([("b", pa.int64())])
    table = pa.table(
        {
            "l": pa.array([[{"b": 5}]], pa.list_(inner)),
            "m": pa.array([[("k", 6)]], pa.map_(pa.string(), pa.int64())),
            "a.b": pa.array([1]),
            "a": pa.array([{"b": 2}], inner),
        }
    )
    columns = StatsColumns((StatsLeaf(("a.b",), "integer"), StatsLeaf(("a", "b"), "integer")))
    leaves = read_file_stats(footer(table), columns).leaves
    assert leaves == {("a.b",): LeafStats(0, 1, 1), ("a", "b"): LeafStats(0, 2, 2)}


def test_missing_columns_say_nothing() -> None:
    columns = StatsColumns((StatsLeaf(("gone",), "integer"), StatsLeaf(("l",), "nested")))
    stats = read_file_stats(footer(pa.table({"c": [1]})), columns)
    assert stats.leaves == {("l",): LeafStats()}


def test_variants_are_null_where_their_metadata_are() -> None:
    variant = pa.struct(
        [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]
    )
    table = pa.table({"v": pa.array([None, {"value": b"\0", "metadata": b"\1"}], variant)})
    assert read_one(table, "variant") == LeafStats(1)


def test_void_columns_are_null_in_every_row() -> None:
    stats = read_file_stats(
        footer(pa.table({"a": [1, 2]})), StatsColumns((StatsLeaf(("v",), "void"),))
    )
    assert stats.leaves == {("v",): LeafStats(2)}


def test_footers_without_statistics() -> None:
    metadata = footer(pa.table({"c": [1]}), write_statistics=False)
    columns = StatsColumns((StatsLeaf(("c",), "integer"),))
    assert read_file_stats(metadata, columns).leaves == {("c",): LeafStats()}
    with pytest.raises(DataFileError, match="'c'"):
        read_null_counts(metadata)


@given(tables())
def test_null_counts_of_footers_and_rows_agree(made: tuple[Metadata, pa.Table]) -> None:
    _, table = made
    brute = {
        name: sum(null_slots(value, table.schema.field(name).type) for value in column.to_pylist())
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    stored = read_null_counts(footer(table, row_group_size=5, store_schema=False))
    assert stored == {name: brute[name] for name in stored}
    flat = {field.name for field in table.schema if field.type.num_fields == 0}
    assert stored.keys() >= (brute.keys() if COUNTS_NULL_LISTS else flat)
    sliced = pa.concat_tables([table, table, table]).combine_chunks().slice(len(table), len(table))
    for part in (table, sliced):
        counts = dict.fromkeys(table.column_names, 0)
        for batch in part.to_batches():
            for name in counts:
                counts[name] += count_nulls(batch.column(name))
        assert counts == brute


def test_null_lists_may_span_values() -> None:
    offsets = pa.array(np.array([0, 2, 3], np.int32))
    mask = pa.array([True, False])
    array = pa.ListArray.from_arrays(offsets, pa.array([1, None, None]), mask=mask)
    assert count_nulls(array) == 2
