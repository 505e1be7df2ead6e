"""Windows by the clocks on the wall: over midnight, in spring and autumn, overlapping."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from deltactl.errors import UsageError
from deltactl.operations.maintain.windows import find_closed, parse_windows

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, zone: object = UTC) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=zone)  # type: ignore[arg-type]
    return int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("time", "is_open"),
    [
        ("2026-01-10T21:59", False),
        ("2026-01-10T22:00", True),
        ("2026-01-10T23:59", True),
        ("2026-01-11T00:00", True),
        ("2026-01-11T05:59", True),
        ("2026-01-11T06:00", False),
        ("2026-01-11T12:00", False),
    ],
)
def test_a_window_may_end_after_midnight(time: str, is_open: bool) -> None:
    [window] = parse_windows("22:00-06:00 Europe/Berlin")
    assert window.is_open(at(time, BERLIN)) == is_open


def test_the_zone_counts_in_summer_and_in_winter() -> None:
    [window] = parse_windows("22:00-06:00 Europe/Berlin")
    assert window.is_open(at("2026-07-01T20:30"))  # 22:30 there
    assert not window.is_open(at("2026-01-01T20:30"))  # 21:30 there


def test_an_hour_that_clocks_skip_is_in_no_window() -> None:
    # On 2026-03-29 clocks go from 02:00 to 03:00.
    [window] = parse_windows("02:00-03:00 Europe/Berlin")
    minutes = range(at("2026-03-29T00:00"), at("2026-03-29T04:00"), 60_000)
    assert not any(window.is_open(ms) for ms in minutes)
    assert window.next_start_ms(at("2026-03-28T12:00")) == at("2026-03-30T02:00", BERLIN)


def test_an_hour_that_clocks_show_twice_is_in_the_window_twice() -> None:
    # On 2026-10-25 clocks go from 03:00 back to 02:00.
    [window] = parse_windows("02:00-03:00 Europe/Berlin")
    minutes = range(at("2026-10-24T22:00"), at("2026-10-25T04:00"), 60_000)
    assert sum(window.is_open(ms) for ms in minutes) == 120


def test_overlapping_windows_are_their_union() -> None:
    windows = parse_windows("20:00-23:00, 22:00-02:00, 22:30-22:45")
    opened = [h for h in range(24) if find_closed(windows, at(f"2026-01-10T{h:02}:30")) is None]
    assert opened == [0, 1, 20, 21, 22, 23]


def test_closed_windows_say_when_the_first_of_them_opens() -> None:
    windows = parse_windows("22:00-06:00 Europe/Berlin, 18:30-19:00 UTC")
    assert find_closed(windows, at("2026-01-10T12:00")) == (
        "outside its window 22:00-06:00 Europe/Berlin, 18:30-19:00 UTC; it opens at "
        "2026-01-10T18:30+00:00"
    )
    assert "2026-01-10T22:00+01:00" in str(find_closed(windows, at("2026-01-10T20:00")))


def test_no_window_is_always() -> None:
    assert parse_windows("") == ()
    assert find_closed((), 0) is None


def test_midnight_as_an_end() -> None:
    [window] = parse_windows("20:00-24:00")
    assert window.is_open(at("2026-01-10T23:59"))
    assert not window.is_open(at("2026-01-11T00:00"))


@pytest.mark.parametrize(
    "text",
    ["22-06", "22:00-22:00", "25:00-06:00", "22:60-06:00", "22:00-06:00 Nowhere/City", "nights"],
)
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_windows(text)
    assert caught.value.hint
