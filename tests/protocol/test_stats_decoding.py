"""JSON statistics to structs: every type, and texts that only the slow way can read."""

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.stats_decoding import parse_stats, parsed_stats_type
from tests.support.table_builder import Column, array_of, map_of, struct_of

BOUNDS = pa.struct(
    [
        ("i", pa.int32()),
        ("b", pa.int8()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("m", pa.decimal128(20, 3)),
        ("o", pa.struct([("p", pa.int64())])),
    ]
)
TYPE = pa.struct([("numRecords", pa.int64()), ("minValues", BOUNDS), ("tightBounds", pa.bool_())])
NOON = dt.datetime(2024, 1, 2, 12, 0, 0, 123000)
UTC_NOON = NOON.replace(tzinfo=dt.UTC)


def parse(*texts: str | None) -> list[Any]:
    return list(parse_stats(pa.array(texts, pa.string()), TYPE).to_pylist())


def parse_min(slow: bool = False, **bounds: Any) -> dict[str, Any]:
    """The bounds as they are parsed; ``slow`` puts a row beside that only the slow way reads."""
    beside = ['{"numRecords":"many"}'] if slow else []
    found: dict[str, Any] = parse(json.dumps({"minValues": bounds}), *beside)[0]["minValues"]
    return {name: found[name] for name in bounds}


CASES: list[tuple[str, Any, Any]] = [
    ("i", -5, -5),
    ("s", 'a"b', 'a"b'),
    ("x", 1, 1.0),
    ("x", 1.5e300, 1.5e300),
    ("d", "1969-12-31", dt.date(1969, 12, 31)),
    ("t", "2024-01-02T12:00:00.123Z", UTC_NOON),
    ("t", "2024-01-02T05:00:00.123-07:00", UTC_NOON),
    ("t", "2024-01-02 12:00:00.123", UTC_NOON),
    ("n", "2024-01-02T12:00:00.123", NOON),
    ("n", "2024-01-02", dt.datetime(2024, 1, 2)),
    ("m", 12, Decimal("12.000")),
    ("o", {"p": 2**62}, {"p": 2**62}),
    ("o", {}, {"p": None}),
    ("i", None, None),
]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(("name", "value", "expected"), CASES)
def test_values_of_each_type(name: str, value: Any, expected: Any, slow: bool) -> None:
    assert parse_min(slow, **{name: value}) == {name: expected}


@pytest.mark.parametrize(
    ("name", "value"),
    [("i", 2**40), ("b", 300), ("d", "soon"), ("t", "later"), ("m", "x"), ("i", 1.5), ("s", 7)]
    + [("x", "many"), ("x", "1.5"), ("x", True), ("i", True), ("m", 1e30), ("o", 3), ("i", [1])],
)
def test_what_is_no_value_of_the_type_is_no_information(name: str, value: Any) -> None:
    found = parse_min(**({"s": "kept"} | {name: value}))
    assert found == {"s": "kept"} | {name: None}


def test_numbers_that_json_lacks_come_as_texts() -> None:
    assert math.isnan(parse_min(x="NaN")["x"])
    assert parse_min(x="Infinity") == {"x": math.inf}
    assert parse_min(x="-Infinity") == {"x": -math.inf}


def test_decimals_keep_every_digit() -> None:
    found = parse('{"minValues":{"m":12345678901234567.891}}', '{"minValues":{"m":1E-3}}')
    assert [row["minValues"]["m"] for row in found] == [
        Decimal("12345678901234567.891"),
        Decimal("0.001"),
    ]


def test_decimals_with_more_digits_than_the_column_are_not_rounded() -> None:
    """A bound that was rounded would no longer be one."""
    (row,) = parse('{"minValues":{"m":1.23456,"i":3}}')
    assert (row["minValues"]["m"], row["minValues"]["i"]) == (None, 3)


def test_nulls_absences_and_the_unknown() -> None:
    found = parse(None, "{}", '{"numRecords":3,"neverHeardOf":[1,{"x":2}]}', None)
    assert found[0] is None
    assert found[3] is None
    assert found[1] == {"numRecords": None, "minValues": None, "tightBounds": None}
    assert found[2]["numRecords"] == 3


@pytest.mark.parametrize("text", ["", "oops", "[1]", "null", '{"numRecords":1}{"numRecords":2}'])
def test_texts_that_are_no_statistics_are_null(text: str) -> None:
    found = parse('{"numRecords":1}', text, '{"numRecords":2}')
    assert [None if row is None else row["numRecords"] for row in found] == [1, None, 2]


def test_line_breaks_inside_a_text_do_not_shift_rows() -> None:
    found = parse('{"numRecords":\n1}', '{"numRecords":2}')
    assert [row["numRecords"] for row in found] == [1, 2]


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8))
def test_rows_stay_in_their_places(numbers: list[int | None]) -> None:
    texts = [None if n is None else json.dumps({"minValues": {"i": n}}) for n in numbers]
    found = parse(*texts)
    assert [None if row is None else row["minValues"]["i"] for row in found] == numbers


def _type_of(*columns: Column, partition_by: tuple[str, ...] = ()) -> pa.StructType:
    metadata = Metadata("x", json.dumps(struct_of(*columns)), partition_by)
    return parsed_stats_type(metadata, Protocol(1, 2))


def test_the_type_has_only_leaves_that_get_statistics() -> None:
    found = _type_of(
        Column("i"),
        Column("f", "boolean"),
        Column("v", "void"),
        Column("e", struct_of()),
        Column("a", array_of("long")),
        Column("m", map_of("string", "long")),
        Column("s", struct_of(Column("t", "timestamp"), Column("w", "void"))),
        Column("p", "string"),
        partition_by=("p",),
    )
    bounds = pa.struct([("i", pa.int64()), ("s", pa.struct([("t", pa.timestamp("us", "UTC"))]))])
    assert found.field("minValues").type == bounds
    nulls = found.field("nullCount").type
    assert [field.name for field in nulls] == ["i", "f", "v", "a", "m", "s"]
    assert [field.name for field in nulls.field("s").type] == ["t", "w"]


def test_a_table_without_such_leaves_counts_rows() -> None:
    assert _type_of(Column("e", struct_of())) == pa.struct([("numRecords", pa.int64())])
    counted = _type_of(Column("v", "void"))
    assert [field.name for field in counted] == ["numRecords", "nullCount"]
