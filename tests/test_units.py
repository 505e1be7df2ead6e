"""Sizes, durations, instants: what is read and refused, and that both directions agree; a clock."""

import subprocess
import sys
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.clock import Clock, SystemClock
from deltactl.errors import UsageError
from deltactl.units import (
    format_age,
    format_count,
    format_duration,
    format_size,
    format_timestamp,
    parse_duration,
    parse_size,
    parse_timestamp,
    to_timestamp_ms,
)

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("128MiB", 128 << 20),
        ("64 MiB", 64 << 20),
        ("1GB", 10**9),
        ("1.5 gib", 3 << 29),
        ("512k", 512 << 10),
        ("128m", 128 << 20),
        (" 100 bytes ", 100),
        ("0B", 0),
        ("1.9B", 1),
        ("7EiB", 7 << 60),
    ],
)
def test_sizes_are_read(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MiB", "1 XB", "-1MiB", "1,5GB", "1e3KB", "8EiB", "9" * 5000])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


@pytest.mark.parametrize("text", ["-5", "+5", ".5", "5."])
def test_no_unit_is_advised_that_would_be_refused(text: str) -> None:
    for parse in (parse_size, parse_duration):
        with pytest.raises(UsageError, match="is not a") as refused:
            parse(text)
        assert text not in str(refused.value.hint)


@pytest.mark.parametrize("text", ["128", "0", "1.5", " 7 "])
def test_a_bare_number_is_answered_with_the_unit_to_add(text: str) -> None:
    with pytest.raises(UsageError, match="has no unit") as size:
        parse_size(text)
    assert f'"{text.strip()}MiB"' in str(size.value.hint)
    with pytest.raises(UsageError, match="has no unit") as duration:
        parse_duration(text)
    assert f'"{text.strip()}h"' in str(duration.value.hint)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (128 << 20, "128 MiB"),
        (-2048, "-2 KiB"),
        (2**63, "8 EiB"),
        (2**80, "1048576 EiB"),
    ],
)
def test_sizes_are_shown(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@given(st.integers(0, 7 << 60))
def test_a_shown_size_is_read_back_within_its_precision(size_bytes: int) -> None:
    assert abs(parse_size(format_size(size_bytes)) - size_bytes) <= size_bytes * 0.051 + 1


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("7d", 7 * DAY),
        ("168h", 7 * DAY),
        ("10min", 600_000),
        ("30m", 1_800_000),
        ("1h30m", 5_400_000),
        ("interval 7 days", 7 * DAY),
        ("INTERVAL 1 WEEK", 7 * DAY),
        ("1 week 2 days", 9 * DAY),
        ("1 week, 2 days", 9 * DAY),
        ("interval 1500 microseconds", 1),
        ("250ms", 250),
        ("1.5 hours", 5_400_000),
        ("0 hours", 0),
        ("PT1H", HOUR),
        ("P1DT2H3.5S", DAY + 2 * HOUR + 3500),
        ("p2w", 14 * DAY),
    ],
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "d", "-7d", "interval", "interval -7 days", "7 fortnights", "7d junk", "P", "PT", "1d,",
     "interval7days", "99999999999999999999w"],
)  # fmt: skip
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1 month", "interval 2 years", "P1M", "P1Y2D"])
def test_months_and_years_have_no_length(text: str) -> None:
    with pytest.raises(UsageError, match="months or years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (250, "250ms"),
        (83_456, "1min 23.456s"),
        (7 * DAY, "7d"),
        (36 * HOUR, "1d 12h"),
        (-DAY, "-1d"),
    ],
)
def test_durations_are_shown(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@given(st.integers(0, 2**63 - 1))
def test_a_shown_duration_is_read_back_exactly(ms: int) -> None:
    assert parse_duration(format_duration(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14 22:13:20.5", 1_700_000_000_500),
        ("2023-11-14t22:13:20.123999z", 1_700_000_000_123),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
        ("2023-11-14T14:13:20-0800", 1_700_000_000_000),
        ("2023-11-14 22:13 UTC", 1_699_999_980_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01", -62_135_596_800_000),
    ],
)
def test_timestamps_are_read(text: str, ms: int) -> None:
    assert parse_timestamp(text) == ms


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2024-02-30", "2024-01-01T25:00:00", "20240101", "2024-W01", "1700000000000",
     "2024-01-01Z", "2024-01-01T12:30.5", "2024-01-01T12:30:00+25:00", "0000-01-01"],
)  # fmt: skip
def test_other_timestamps_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_timestamp(text)


def test_a_missing_time_of_pandas_is_refused() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    with pytest.raises(UsageError, match="NaT is not a timestamp"):
        to_timestamp_ms(pandas.NaT)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
        (2**63 - 1, "+292278994-08-17T07:12:55.807Z"),
        (-(2**63), "-292275055-05-16T16:47:04.192Z"),
    ],
)
def test_timestamps_are_shown_whatever_the_number(ms: int, text: str) -> None:
    assert format_timestamp(ms) == text


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_shown_timestamp_is_read_back_exactly(ms: int) -> None:
    assert parse_timestamp(format_timestamp(ms)) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "just now"),
        (999, "just now"),
        (59_999, "59 s ago"),
        (3 * HOUR + 5, "3 h ago"),
        (40 * DAY, "40 d ago"),
        (800 * DAY, "2 y ago"),
        (-2 * DAY, "in 2 d"),
    ],
)
def test_ages_are_shown(ms: int, text: str) -> None:
    assert format_age(ms) == text


def test_counts_are_shown() -> None:
    assert format_count(1_234_567) == "1,234,567"
    assert [format_count(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert format_count(2, "entry", "entries") == "2 entries"


def test_the_system_clock_shows_the_time_and_fresh_ids() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 60_000
    assert clock.monotonic() <= clock.monotonic()
    first, second = clock.new_id(), clock.new_id()
    assert first != second
    assert str(uuid.UUID(first)) == first


def test_help_can_load_units_and_clock_without_arrow() -> None:
    code = (
        "import sys, deltactl.units, deltactl.clock;"
        "sys.exit(bool({'pyarrow', 'numpy', 'fsspec'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
