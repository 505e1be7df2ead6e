"""Partition values: every form of every type, and the map that carries them."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.errors import CorruptLogError
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partitions import build_map, lookup_map, parse_partition_column
from deltactl.protocol.schema import PrimitiveType

INSTANT = pa.timestamp("us", "UTC")
LOCAL = pa.timestamp("us")
STRING_MAP = pa.map_(pa.string(), pa.string())


def parse_one(text: str, type: pa.DataType) -> Any:
    column = parse_partition_column(pa.array([text]), type)
    assert column.type == type
    return column[0].as_py()


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("-128", pa.int8(), -128),
        ("32767", pa.int16(), 32767),
        ("+1", pa.int32(), 1),
        ("-9223372036854775808", pa.int64(), -(2**63)),
        ("1.0", pa.float64(), 1.0),
        ("1.0E10", pa.float64(), 1e10),
        ("1", pa.float64(), 1.0),
        ("Infinity", pa.float32(), math.inf),
        ("-Infinity", pa.float64(), -math.inf),
        ("inf", pa.float64(), math.inf),
        ("1.230000", pa.decimal128(10, 6), Decimal("1.230000")),
        ("-0.05", pa.decimal128(5, 2), Decimal("-0.05")),
        ("1", pa.decimal128(20, 3), Decimal("1.000")),
        ("1E-18", pa.decimal128(38, 18), Decimal("1E-18")),
        ("9" * 38, pa.decimal128(38, 0), Decimal("9" * 38)),
        ("true", pa.bool_(), True),
        ("False", pa.bool_(), False),
        ("2021-09-08", pa.date32(), date(2021, 9, 8)),
        ("1582-10-15", pa.date32(), date(1582, 10, 15)),
        ("2021-9-8", pa.date32(), date(2021, 9, 8)),
        ("null", pa.string(), "null"),
        ("a%3Ab", pa.large_string(), "a%3Ab"),
        ("aé", pa.binary(), b"a\xc3\xa9"),
        ("\x01\x02", pa.binary(), b"\x01\x02"),
        ("\\u0001\\u00ff", pa.binary(), b"\x01\xff"),
        ("x\\u0001", pa.binary(), b"x\\u0001"),
    ],
)
def test_texts_are_read(text: str, type: pa.DataType, value: Any) -> None:
    assert parse_one(text, type) == value


def test_nan_is_read() -> None:
    assert math.isnan(parse_one("NaN", pa.float64()))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-06-15T19:30:45.000000Z", datetime(2024, 6, 15, 19, 30, 45)),
        ("2024-06-15T12:30:45.123456-07:00", datetime(2024, 6, 15, 19, 30, 45, 123456)),
        ("2024-06-15 19:30:45+0000", datetime(2024, 6, 15, 19, 30, 45)),
        ("2024-06-15 19:30:45", datetime(2024, 6, 15, 19, 30, 45)),
        ("2020-01-01 08:09:10.001", datetime(2020, 1, 1, 8, 9, 10, 1000)),
        ("1969-12-31 23:59:59.999999", datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("2024-06-15", datetime(2024, 6, 15)),
        ("2024-06-15 19:30:45.123456789", datetime(2024, 6, 15, 19, 30, 45, 123456)),
        ("2024-06-15 9:30:45 UTC", datetime(2024, 6, 15, 9, 30, 45)),
    ],
)
def test_instants_are_read_and_without_zone_are_utc(text: str, moment: datetime) -> None:
    assert parse_one(text, INSTANT) == moment.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2021-11-18 02:30:00.123456", datetime(2021, 11, 18, 2, 30, 0, 123456)),
        ("2021-11-18T02:30:00", datetime(2021, 11, 18, 2, 30)),
        ("2021-11-18", datetime(2021, 11, 18)),
        ("2021-11-18T02:30:00+05:00", datetime(2021, 11, 18, 2, 30)),
    ],
)
def test_local_times_are_read(text: str, moment: datetime) -> None:
    assert parse_one(text, LOCAL) == moment


def test_forms_of_timestamps_mix_in_one_column() -> None:
    texts = ["2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00", "2024-01-01", None, ""]
    parsed = parse_partition_column(pa.array(texts), INSTANT)
    assert pc.count_distinct(parsed, mode="only_valid").as_py() == 1
    assert parsed.null_count == 2


def test_years_beyond_four_digits_are_read() -> None:
    parsed = parse_partition_column(pa.array(["+10000-01-01", "0000-02-29"]), pa.date32())
    assert parsed.cast(pa.int32()).to_pylist() == [2_932_897, -719_469]


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("128", pa.int8()),
        ("1.0", pa.int32()),
        ("1_0", pa.int32()),
        ("0x1F", pa.int64()),
        (" 1", pa.int64()),
        ("9" * 5000, pa.int64()),
        ("1.0f", pa.float64()),
        ("1_0.0", pa.float64()),
        ("1.234", pa.decimal128(5, 2)),
        ("1000", pa.decimal128(5, 2)),
        ("NaN", pa.decimal128(5, 2)),
        ("1e999999999999999999999", pa.decimal128(5, 2)),
        ("yes", pa.bool_()),
        ("2021-02-30", pa.date32()),
        ("20210908", pa.date32()),
        ("2021-09-08 25:00:00", INSTANT),
        ("2021-09-08 12:00:00+24:00", INSTANT),
        ("+300000-01-01", INSTANT),
        ("__HIVE_DEFAULT_PARTITION__", pa.int32()),
    ],
)
def test_what_is_no_value_is_named(text: str, type: pa.DataType) -> None:
    with pytest.raises(CorruptLogError, match="of column 'p' is not a valid"):
        parse_partition_column(pa.array([text]), type, column="p")


@pytest.mark.parametrize(
    "name", ["byte", "integer", "double", "boolean", "date", "timestamp", "decimal(5,2)"]
)
def test_the_type_of_an_error_is_that_of_the_schema(name: str) -> None:
    with pytest.raises(CorruptLogError) as caught:
        parse_partition_column(pa.array(["x"]), arrow_type(PrimitiveType(name)), column="p")
    assert caught.value.message == f"partition value 'x' of column 'p' is not a valid {name}"


def test_a_type_that_cannot_partition_is_refused() -> None:
    with pytest.raises(CorruptLogError, match="cannot partition"):
        parse_partition_column(pa.array(["1"]), pa.list_(pa.int32()), column="p")


@pytest.mark.parametrize(
    "type",
    [pa.int32(), pa.float32(), pa.decimal128(9, 2), pa.bool_(), pa.date32(), INSTANT, LOCAL,
     pa.string(), pa.large_string(), pa.binary()],
)  # fmt: skip
def test_null_and_empty_are_null(type: pa.DataType) -> None:
    assert parse_partition_column(pa.array([None, ""], pa.string()), type).equals(pa.nulls(2, type))


def test_chunks_and_slices_stay() -> None:
    texts = pa.array(["1", "2", None, "1", ""], pa.large_string())
    chunked = pa.chunked_array([texts[:2], texts[2:2], texts[2:]])
    parsed = parse_partition_column(chunked, pa.int32())
    assert [chunk.to_pylist() for chunk in parsed.chunks] == [[1, 2], [], [None, 1, None]]
    assert parse_partition_column(texts[3:], pa.int32()).to_pylist() == [1, None]
    none = parse_partition_column(pa.chunked_array([], pa.string()), pa.int32())
    assert (none.type, len(none)) == (pa.int32(), 0)


rows = st.lists(st.none() | st.dictionaries(st.sampled_from("abc"), st.none() | st.text("xy")))


@given(rows, st.data())
def test_lookup_finds_what_a_loop_finds(
    maps: list[dict[str, str | None] | None], data: st.DataObject
) -> None:
    array = pa.array([None if m is None else list(m.items()) for m in maps], STRING_MAP)
    cut = data.draw(st.integers(0, len(maps)))
    for key in "abd":
        expected = [None if m is None else m.get(key) for m in maps]
        assert lookup_map(array, key).to_pylist() == expected
        assert lookup_map(array[cut:], key).to_pylist() == expected[cut:]
        chunked = pa.chunked_array([array[:cut], array[cut:]])
        assert lookup_map(chunked, key).to_pylist() == expected


def test_lookup_heeds_the_offset_of_the_entries() -> None:
    entries = pa.StructArray.from_arrays(
        [pa.array(["x", "a", "b"]), pa.array(["0", "1", "2"])],
        fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string())],
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), entries[1:])
    assert lookup_map(lists.view(STRING_MAP), "a").to_pylist() == ["1", None]


def test_lookup_skips_the_entries_under_a_null_row() -> None:
    maps = pa.MapArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()),
        pa.array(["a", "a"]),
        pa.array(["1", "2"]),
        mask=pa.array([True, False]),
    )
    assert lookup_map(maps, "a").to_pylist() == [None, "2"]


@given(st.lists(st.tuples(st.none() | st.text("xy"), st.none() | st.text("xy"))))
def test_a_built_map_is_looked_up_again(pairs: list[tuple[str | None, str | None]]) -> None:
    columns = {
        "p": pa.array([p for p, _ in pairs], pa.string()),
        "q": pa.array([q for _, q in pairs], pa.large_string()),
    }
    built = build_map(columns)
    built.validate(full=True)
    assert built.type == STRING_MAP
    assert built.to_pylist() == [[("p", p), ("q", q)] for p, q in pairs]
    assert lookup_map(built, "q").to_pylist() == [q for _, q in pairs]


def test_an_unpartitioned_table_has_empty_maps() -> None:
    assert build_map({}, num_rows=2).to_pylist() == [[], []]
    assert build_map({}).to_pylist() == []


def test_a_built_map_takes_one_column_and_chunks() -> None:
    chunked = pa.chunked_array([["1"], ["2", None]])
    assert build_map({"p": chunked}).to_pylist() == [[("p", "1")], [("p", "2")], [("p", None)]]


def test_lookup_in_rows_of_one_entry() -> None:
    maps = pa.array([[("a", "1")], [("a", None)], [("a", "3")]], STRING_MAP)
    assert lookup_map(maps, "a").to_pylist() == ["1", None, "3"]
    assert lookup_map(maps[1:], "a").to_pylist() == [None, "3"]
    assert lookup_map(maps[1:2], "a").to_pylist() == [None]
    uneven = pa.array([[("a", "1"), ("a", "2")], [], [("a", "3")]], STRING_MAP)
    assert lookup_map(uneven, "a").to_pylist() == ["2", None, "3"]
