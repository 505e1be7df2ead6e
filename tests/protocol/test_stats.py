"""Values as Delta on Spark 4.4.0 writes them; where ours differ, the test says why."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.protocol.stats import FileStats, LeafStats, Value, num_records
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.stats_encoding import encode_stats, truncate_maximum, truncate_minimum

EMOJI = "\U0001f600"
LAST = "\U0010ffff"
DEL = "\x7f"


def encode_bounds(kind: str, low: Value | None, high: Value | None) -> tuple[str, str]:
    columns = StatsColumns((StatsLeaf(("c",), kind),))
    text = encode_stats(FileStats(1, {("c",): LeafStats(0, low, high)}), columns)
    assert json.loads(text)["numRecords"] == 1
    head, low_text = text.split('"minValues":')
    low_text, high_text = low_text.split(',"maxValues":')
    assert head == '{"numRecords":1,'
    assert high_text.endswith(',"nullCount":{"c":0}}')
    return low_text, high_text.removesuffix(',"nullCount":{"c":0}}')


def micros(text: str) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (moment.days * 86_400 + moment.seconds) * 1_000_000 + moment.microseconds


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("x" * 33, "x" * 32, "x" * 32 + DEL),
        ("x" * 32, "x" * 32, "x" * 32),
        ("x" * 32 + DEL, "x" * 32, "x" * 32 + LAST),
        ("x" * 32 + "é", "x" * 32, "x" * 32 + LAST),
        ("x" * 32 + LAST + "a", "x" * 32, "x" * 32 + LAST + DEL),
        ("x" * 32 + LAST * 40, "x" * 32, None),
        (EMOJI * 40, EMOJI * 32, EMOJI * 16 + LAST),
        ("x" * 31 + EMOJI + "yyy", "x" * 31 + EMOJI, "x" * 31 + EMOJI + DEL),
        ("", "", ""),
        ('\t\x00"\\', '\t\x00"\\', '\t\x00"\\'),
        # Reaching the end of the string gives the string.
        ("x" * 32 + LAST * 3, "x" * 32, "x" * 32 + LAST * 3),
    ],
)
def test_strings_are_cut_as_spark_does(value: str, low: str, high: str | None) -> None:
    assert truncate_minimum(value, 32) == low
    assert truncate_maximum(value, 32) == high
    low_text, high_text = encode_bounds("string", value, value)
    assert json.loads(low_text) == {"c": low}
    assert json.loads(high_text) == ({} if high is None else {"c": high})


def test_no_prefix_keeps_no_maximum() -> None:
    assert truncate_maximum("a", 0) is None
    assert truncate_maximum("a", -1) is None
    assert truncate_maximum("", 0) == ""
    assert truncate_minimum("a", -1) == ""


TEXTS = st.text(st.sampled_from(["a", "b", "~", DEL, "é", "\ue000", "\uffff", EMOJI, LAST]))


@given(st.lists(TEXTS | st.text(), min_size=1), st.integers(0, 5))
def test_bounds_hold_for_every_value_in_byte_order(values: list[str], prefix: int) -> None:
    low = truncate_minimum(min(values, key=str.encode), prefix).encode()
    high = truncate_maximum(max(values, key=str.encode), prefix)
    assert all(low <= value.encode() for value in values)
    assert len(low.decode()) <= prefix
    if high is not None:
        assert all(value.encode() <= high.encode() for value in values)
        assert len(high) <= 2 * prefix + 2


@pytest.mark.parametrize(
    ("kind", "low", "high", "low_text", "high_text"),
    [
        ("integer", -(2**63), 2**63 - 1, "-9223372036854775808", "9223372036854775807"),
        (
            "decimal",
            Decimal("-0.500000000000000000"),
            Decimal("12345678901234567890.123456789012345678"),
            "-0.500000000000000000",
            "12345678901234567890.123456789012345678",
        ),
        # Spark writes 1E-18; the same number.
        ("decimal", Decimal("1E-18"), Decimal("2"), "0.000000000000000001", "2"),
        ("float", float("-inf"), float("inf"), '"-Infinity"', '"Infinity"'),
        ("float", 0.0, -0.0, "-0.0", "0.0"),
        ("float", -1.5, 1e20, "-1.5", "1e+20"),
        ("date", -719162, 2932896, '"0001-01-01"', '"9999-12-31"'),
        (
            "timestamp",
            micros("1900-01-01 00:00:00.999999"),
            micros("2024-06-01 12:00:00.123456"),
            '"1900-01-01T00:00:00.999Z"',
            # Spark: ...123Z, which it takes for up to a millisecond more. Others do not.
            '"2024-06-01T12:00:00.123456Z"',
        ),
        (
            "timestamp_ntz",
            micros("1969-12-31 23:59:59.000500"),
            micros("9999-12-31 23:59:59.999999"),
            '"1969-12-31T23:59:59.000"',
            '"9999-12-31T23:59:59.999999"',
        ),
        ("timestamp", 0, 5_000, '"1970-01-01T00:00:00.000Z"', '"1970-01-01T00:00:00.005Z"'),
    ],
)
def test_values_are_spelled(
    kind: str, low: Value, high: Value, low_text: str, high_text: str
) -> None:
    assert encode_bounds(kind, low, high) == (f'{{"c":{low_text}}}', f'{{"c":{high_text}}}')


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float", float("nan")),
        ("date", 2932897),
        ("date", -719163),
        ("date", 2**31 - 1),
        ("timestamp", 2**63 - 1),
        ("timestamp_ntz", -(2**63)),
        ("integer", None),
    ],
)
def test_what_readers_cannot_take_is_left_out(kind: str, value: Value | None) -> None:
    assert encode_bounds(kind, value, value) == ("{}", "{}")


@given(st.integers(-62135596800000000, 253402300799999999))
def test_timestamps_bound_the_value(value: int) -> None:
    low_text, high_text = encode_bounds("timestamp", value, value)
    low, high = json.loads(low_text)["c"], json.loads(high_text)["c"]
    assert value - 1000 < micros(low.removesuffix("Z")) <= value
    assert micros(high.removesuffix("Z")) == value


def test_float32_bounds_hold_when_read_as_double() -> None:
    value = pa.scalar(1.1, pa.float32()).as_py()
    _, high = encode_bounds("float", value, value)
    assert json.loads(high)["c"] >= value


def test_members_stand_in_order_and_structs_nest() -> None:
    columns = StatsColumns(
        (
            StatsLeaf(("a",), "integer"),
            StatsLeaf(("st", "x"), "integer"),
            StatsLeaf(("st", "arr"), "nested"),
            StatsLeaf(("st", "y", "z"), "integer"),
            StatsLeaf(("m",), "nested"),
            StatsLeaf(("b",), "string"),
        ),
        string_prefix=2,
    )
    stats = FileStats(
        1,
        {
            ("a",): LeafStats(0, 1, 1),
            ("st", "x"): LeafStats(1),
            ("st", "arr"): LeafStats(1),
            ("st", "y", "z"): LeafStats(1),
            ("m",): LeafStats(1),
            ("b",): LeafStats(0, "bcdef", "bcdef"),
        },
    )
    # The last line of the transcript, but for its column c.
    assert encode_stats(stats, columns) == (
        '{"numRecords":1,"minValues":{"a":1,"st":{"y":{}},"b":"bc"},'
        '"maxValues":{"a":1,"st":{"y":{}},"b":"bc\x7f"},'
        '"nullCount":{"a":0,"st":{"x":1,"arr":1,"y":{"z":1}},"m":1,"b":0}}'
    )


def test_no_columns_leave_the_row_count() -> None:
    assert encode_stats(FileStats(3), StatsColumns()) == '{"numRecords":3}'
    tight = encode_stats(FileStats(3), StatsColumns(tight_bounds=True))
    assert tight == '{"numRecords":3,"tightBounds":true}'


def test_unknown_null_counts_are_left_out() -> None:
    columns = StatsColumns((StatsLeaf(("c",), "other"),))
    assert encode_stats(FileStats(1), columns) == '{"numRecords":1,"nullCount":{}}'


def test_without_columns_that_have_bounds_there_is_no_member_for_them() -> None:
    stats = FileStats(1, {("bo",): LeafStats(0)})
    columns = StatsColumns((StatsLeaf(("bo",), "other"),))
    assert encode_stats(stats, columns) == '{"numRecords":1,"nullCount":{"bo":0}}'


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('{"numRecords":5,"minValues":{"numRecords":1}}', 5),
        ('{"minValues":{"numRecords":5}}', None),
        ('{"minValues":{"numRecords":5},"numRecords":7}', 7),
        ('{"minValues":{"s":"\\"numRecords\\":3"},"numRecords":7}', 7),
        (' {\n "numRecords" : 12 }', 12),
        ('{"numRecords":0}', 0),
        ('{"numRecords":3.0}', None),
        ('{"numRecords":4611686018427387904}', 2**62),
        ('{"numRecords":9223372036854775807}', 2**63 - 1),
        ('{"numRecords":9223372036854775808}', None),
        ('{"numRecords":-1}', None),
        ('{"numRecords":1.5}', None),
        ('{"numRecords":"7"}', None),
        ('{"numRecords":true}', None),
        ('{"numRecords":null}', None),
        ('{"numRecords":7,"' + "é" * 40 + '":1}', 7),
        ("[1]", None),
        ("[" * 100_000, None),
        ("", None),
        ("{", None),
        (None, None),
    ],
)
def test_row_counts_are_found(text: str | None, rows: int | None) -> None:
    for type_ in (pa.string(), pa.large_string()):
        column = pa.chunked_array([[text], [], ['{"numRecords":1}', text]], type_)
        assert num_records(column).to_pylist() == [rows, 1, rows]


def test_no_texts_no_counts() -> None:
    assert num_records(pa.chunked_array([], pa.string())).type == pa.int64()


JSON: Any = st.recursive(
    st.none() | st.integers(-3, 3) | st.sampled_from(["numRecords", '"numRecords":4', "{", "}"]),
    lambda inner: st.dictionaries(st.sampled_from(["numRecords", "a", '"']), inner),
)


@given(st.lists(JSON, max_size=6), st.sampled_from([None, 1]))
def test_row_counts_equal_those_of_the_json_module(nodes: list[Any], indent: int | None) -> None:
    texts = [json.dumps(node, indent=indent) for node in nodes]
    expected = [
        value if isinstance(value, int) and value >= 0 else None
        for value in (n.get("numRecords") if isinstance(n, dict) else None for n in nodes)
    ]
    assert num_records(pa.chunked_array([pa.array(texts, pa.string())])).to_pylist() == expected
