"""Statistics of many files are those of each file alone."""

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
from deltactl.parquet.footer import StatsReader, read_file_stats
from deltactl.protocol.stats_columns import StatsColumns, list_leaves
from deltactl.protocol.stats_encoding import encode_leaf, encode_stats, encode_stats_of_files
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


EPOCH = dt.datetime(1970, 1, 1)


def _stored(name: str, value: Any) -> Any:
    """Return a value as a footer has it."""
    if value is None or name in "ib":
        return value
    if name == "m":  # nanoseconds
        return value
    if name == "d":
        return (value - EPOCH.date()).days
    if name in "tn":
        return (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
    return value.encode() if isinstance(value, str) else value


def _choose(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return _stored(path[-1], value)


@given(st.lists(st.tuples(st.lists(ROW, max_size=6), st.integers(1, 3)), min_size=1, max_size=4))
def test_statistics_are_those_of_the_rows(files: list[tuple[list[dict[str, Any]], int]]) -> None:
    footers = [footer_of(rows, group_rows) for rows, group_rows in files]
    columns = StatsColumns(list_leaves(read_file_schema(footers[0].schema).struct))
    reader = StatsReader(footers[0].schema, columns)
    for footer in footers:
        reader.add(footer)
    found = reader.finish()
    assert found.keys() == {leaf.path for leaf in columns.leaves}
    for leaf in columns.leaves:
        stats = found[leaf.path]
        if leaf.kind == "nested":
            assert stats.nulls == [None] * len(files)
            continue
        values = [[_choose(row, leaf.path) for row in rows] for rows, _ in files]
        known = [[value for value in one if value is not None] for one in values]
        assert stats.nulls == [one.count(None) for one in values]
        bounded = leaf.has_bounds and leaf.kind != "float"
        lower = [min(one) if one and bounded else None for one in known]
        upper = [max(one) if one and bounded else None for one in known]
        if leaf.path == ("m",):
            lower = [None if value is None else value // 1000 for value in lower]
            upper = [None if value is None else -(-value // 1000) for value in upper]
        assert (stats.lower, stats.upper) == (lower, upper)


def _encode(footer: Any, columns: StatsColumns) -> Any:
    """Return the statistics of one file, encoded as those of many and as those of one."""
    reader = StatsReader(footer.schema, columns)
    reader.add(footer)
    known = reader.finish()
    leaves = {
        leaf.path: encode_leaf(leaf, values.nulls, values.lower, values.upper, 32)
        for leaf in columns.leaves
        if (values := known.get(leaf.path))
    }
    (text,) = encode_stats_of_files(pa.array([footer.num_rows]), leaves, columns).to_pylist()
    return json.loads(text)


@given(st.lists(ROW, max_size=6))
def test_one_file_is_encoded_as_many_are(rows: list[dict[str, Any]]) -> None:
    footer = footer_of(rows, 2)
    columns = StatsColumns(list_leaves(read_file_schema(footer.schema).struct))
    assert _encode(footer, columns) == json.loads(
        encode_stats(read_file_stats(footer, columns), columns)
    )


@pytest.mark.parametrize(
    ("version", "first", "known"),
    [
        (b"2.4.0", dt.date(1582, 10, 15), True),
        (b"2.4.0", dt.date(1582, 10, 14), False),
        (b"3.5.0", dt.date(1582, 10, 14), True),
    ],
)
def test_bounds_in_the_legacy_calendar_are_unknown(
    version: bytes, first: dt.date, known: bool
) -> None:
    """Spark 2 wrote other numbers for the days before the Gregorian calendar."""
    schema = pa.schema([("d", pa.date32())], {"org.apache.spark.version": version})
    rows = [{"d": first}, {"d": dt.date(2020, 1, 1)}]
    footers = [footer_of(rows, 1, schema), footer_of(rows[1:], 1, schema)]
    columns = StatsColumns(list_leaves(read_file_schema(footers[0].schema).struct))
    reader = StatsReader(footers[0].schema, columns)
    for footer in footers:
        reader.add(footer)
    days = [(day - EPOCH.date()).days for day in (first, dt.date(2020, 1, 1))]
    found = reader.finish()[("d",)]
    assert found.nulls == [0, 0]
    assert found.lower == [days[0] if known else None, days[1]]
    assert found.upper == [days[1] if known else None, days[1]]


def test_unsigned_bounds_are_those_of_the_values() -> None:
    schema = pa.schema([("a", pa.uint32()), ("b", pa.uint64()), ("c", pa.uint8())])
    footer = footer_of(
        [{"a": 2**32 - 1, "b": 2**64 - 1, "c": 255}, {"a": 1, "b": 2, "c": 3}], 9, schema
    )
    columns = StatsColumns(list_leaves(read_file_schema(footer.schema).struct))
    stats = _encode(footer, columns)
    assert stats["minValues"] == {"a": 1, "b": 2, "c": 3}
    assert stats["maxValues"] == {"a": 2**32 - 1, "b": 2**64 - 1, "c": 255}


def test_a_column_that_files_lack_is_null_throughout() -> None:
    footer = footer_of([{"a": 1}], 9, pa.schema([("a", pa.int64())]))
    leaves = list_leaves(read_file_schema(footer.schema).struct)
    more = StatsColumns((*leaves, *(type(leaf)(("z",), "string") for leaf in leaves)))
    assert _encode(footer, more)["nullCount"] == {"a": 0, "z": 1}


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
