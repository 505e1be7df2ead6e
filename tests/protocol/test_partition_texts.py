"""Partition values in the form of the protocol, and texts that are not in it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.protocol.partition_texts import find_inexact, find_malformed, zone_mask
from deltactl.protocol.partitions import format_partition_values, parse_partition_column

INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
DATE, MONEY = pa.date32(), pa.decimal128(10, 2)


def form(text: str | None, type: pa.DataType, assume_utc: bool = False) -> str | None:
    found = format_partition_values(pa.array([text], pa.string()), type, assume_utc=assume_utc)
    assert found.type == pa.string()
    formed: str | None = found[0].as_py()
    return formed


@pytest.mark.parametrize(
    ("text", "type", "formed"),
    [
        ("007", pa.int32(), "7"),
        ("+7", pa.int8(), "7"),
        ("-0", pa.int64(), "0"),
        ("1", MONEY, "1.00"),
        ("-.5", MONEY, "-0.50"),
        ("1.500", MONEY, "1.50"),
        ("1E-18", pa.decimal128(38, 18), "0.000000000000000001"),
        ("1E2", pa.decimal128(38, 0), "100"),
        ("1", pa.float64(), "1.0"),
        ("1e7", pa.float64(), "1.0E7"),
        ("12345678.9", pa.float64(), "1.23456789E7"),
        ("0.001", pa.float32(), "0.001"),
        ("0.00012", pa.float32(), "1.2E-4"),
        ("0.1", pa.float32(), "0.1"),
        ("-0", pa.float64(), "-0.0"),
        ("-inf", pa.float64(), "-Infinity"),
        ("nan", pa.float32(), "NaN"),
        ("TRUE", pa.bool_(), "true"),
        ("2025-2-9", DATE, "2025-02-09"),
        ("2025-02-19 13:00:00", DATE, "2025-02-19"),
        ("+10000-01-01", DATE, "+10000-01-01"),
        ("2025-02-19", LOCAL, "2025-02-19 00:00:00"),
        ("2025-02-19T13:00", LOCAL, "2025-02-19 13:00:00"),
        ("2025-02-19 13:00:00.100", LOCAL, "2025-02-19 13:00:00.100000"),
        ("2025-02-19T13:00:00+01:00", INSTANT, "2025-02-19T12:00:00.000000Z"),
        ("2025-02-19 13:00:00 UTC", INSTANT, "2025-02-19T13:00:00.000000Z"),
        ("2025-02-19T13:00:00", INSTANT, "2025-02-19 13:00:00"),
        ("a b", pa.string(), "a b"),
        ("", pa.string(), ""),
        ("\x01", pa.binary(), "\x01"),
        ("", pa.int32(), None),
        ("", INSTANT, None),
        (None, MONEY, None),
        (None, pa.string(), None),
    ],
)
def test_values_are_written_in_the_form_of_the_protocol(
    text: str | None, type: pa.DataType, formed: str | None
) -> None:
    assert form(text, type) == formed
    assert form(formed, type) == formed


def test_a_time_without_a_zone_gets_one_only_on_request() -> None:
    assert form("2025-02-19", INSTANT, assume_utc=True) == "2025-02-19T00:00:00.000000Z"
    assert form("2025-02-19", LOCAL, assume_utc=True) == "2025-02-19 00:00:00"


@given(st.floats(width=32) | st.floats(), st.sampled_from([pa.float32(), pa.float64()]))
def test_a_float_keeps_its_value(value: float, type: pa.DataType) -> None:
    text = pa.array([repr(value)])
    before = parse_partition_column(text, type)
    after = parse_partition_column(format_partition_values(text, type), type)
    assert str(after[0]) == str(before[0])


@pytest.mark.parametrize(
    ("text", "type", "is_malformed", "is_inexact"),
    [
        ("2025-02-19", DATE, False, False),
        ("2025-2-9", DATE, False, False),
        ("2025-02-19 00:00:00", DATE, True, True),
        ("2025-02-19T00", DATE, True, True),
        ("2025-02-19 13:00:00.5", LOCAL, False, False),
        ("2025-02-19T13:00:00", LOCAL, True, False),
        ("2025-02-19", LOCAL, True, False),
        ("2025-02-19 13:00", LOCAL, True, False),
        ("2025-02-19 13:00:00Z", LOCAL, True, True),
        ("2025-02-19 13:00:00-07:00", LOCAL, True, True),
        ("2025-02-19 13:00:00.123456789", LOCAL, False, True),
        ("2025-02-19 13:00:00.123456000", LOCAL, False, False),
        ("2025-02-19 13:00:00", INSTANT, False, False),
        ("2025-02-19T13:00:00Z", INSTANT, False, False),
        ("2025-02-19 13:00:00 +01:00", INSTANT, False, False),
        ("2025-02-19T13:00:00", INSTANT, True, False),
        ("2025-02-19", INSTANT, True, False),
        ("2025-02-19T13:00:00.1234567Z", INSTANT, False, True),
        ("", DATE, False, False),
        (None, LOCAL, False, False),
        ("1.5", MONEY, False, False),
        ("007", pa.int32(), False, False),
        ("-1e308", pa.float64(), False, False),
        ("-1e309", pa.float64(), False, True),
        ("1e38", pa.float32(), False, False),
        ("1e39", pa.float32(), False, True),
        ("-inf", pa.float64(), False, False),
        ("", pa.float64(), False, False),
        (None, pa.float64(), False, False),
    ],
)
def test_texts_in_another_form(
    text: str | None, type: pa.DataType, is_malformed: bool, is_inexact: bool
) -> None:
    texts = pa.array([text], pa.string())
    assert find_malformed(texts, type) == ([text] if is_malformed else [])
    assert find_inexact(texts, type) == ([text] if is_inexact else [])


def test_zones() -> None:
    zoned = ["2025-02-19 1:00:00Z", "2025-02-19T01:00:00+01:00", "2025-02-19 01:00:00 UTC"]
    without = ["2025-02-19", "2025-02-19 01:00:00", "2025-02-19T01:00:00.000001"]
    assert zone_mask(pa.array([*zoned, *without])).to_pylist() == [True] * 3 + [False] * 3
