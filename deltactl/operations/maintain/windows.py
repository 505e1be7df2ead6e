"""Parse windows of time in which work may begin, such as ``22:00-06:00 Europe/Berlin``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from deltactl.errors import UsageError

_FORM: Final = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})(?:\s+(\S+))?")
_HINT: Final = (
    "Write the window as 22:00-06:00 Europe/Berlin. Without a zone, the times are in UTC."
)
_LAST_DAY: Final = 8


@dataclass(frozen=True, slots=True)
class Window:
    """From ``start`` (included) to ``end`` (not included), in local time of ``zone``.

    It includes midnight if ``end`` is before ``start``. If clocks skip a time in spring, it is in
    no window; if they repeat a time in autumn, it is in the window twice.
    """

    text: str
    start: time
    end: time
    zone: tzinfo

    def is_open(self, now_ms: int) -> bool:
        """Return whether a time (ms since 1970 UTC) is in the window."""
        shown = _wall_time(now_ms, self.zone).time()
        if self.start < self.end:
            return self.start <= shown < self.end
        return shown >= self.start or shown < self.end

    def next_start_ms(self, now_ms: int) -> int | None:
        """Return the start of the window after a time; ``None`` if clocks skip it for a week."""
        today = _wall_time(now_ms, self.zone).date()
        for day in range(_LAST_DAY):
            start_ms = self._start_ms(today + timedelta(days=day))
            if start_ms > now_ms and self.is_open(start_ms):
                return start_ms
        return None

    def _start_ms(self, day: date) -> int:
        moment = datetime.combine(day, self.start, self.zone)
        return int(moment.timestamp() * 1000)


def _wall_time(now_ms: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)


def parse_windows(text: str) -> tuple[Window, ...]:
    """Parse windows that commas separate; an empty text has none.

    Raises:
        UsageError: one of them is not a window.
    """
    parts = (part.strip() for part in text.split(","))
    return tuple(_parse(part) for part in parts if part)


def _parse(text: str) -> Window:
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a window of time", hint=_HINT)
    start, end = _parse_time(text, match[1], match[2]), _parse_time(text, match[3], match[4])
    if start == end:
        raise UsageError(
            f"window {text!r} begins and ends at the same time",
            hint="Write two different times. To allow any time, omit the window.",
        )
    return Window(text, start, end, _find_zone(match[5] or "UTC"))


def _parse_time(text: str, hours: str, minutes: str) -> time:
    hour, minute = int(hours), int(minutes)
    if (hour, minute) == (24, 0):  # the end of a day
        return time(0)
    if hour > 23 or minute > 59:
        raise UsageError(f"window {text!r}: {hours}:{minutes} is not a time of day", hint=_HINT)
    return time(hour, minute)


def _find_zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z"):  # also on machines without a database of time zones
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise _no_zone(name) from error
    except KeyError as error:
        raise _no_zone(name) from error


def _no_zone(name: str) -> UsageError:
    return UsageError(
        f"there is no time zone {name!r} on this machine",
        hint="Write a name such as Europe/Berlin, or install the Python package tzdata.",
    )


def find_closed(windows: Sequence[Window], now_ms: int) -> str | None:
    """Return why no work may begin now, and the next start; ``None`` if a window is open.

    Windows may overlap: one open window is enough. Without windows work may begin at any time.
    """
    if not windows or any(window.is_open(now_ms) for window in windows):
        return None
    names = ", ".join(window.text for window in windows)
    openings = [(ms, w) for w in windows if (ms := w.next_start_ms(now_ms)) is not None]
    if not openings:
        return f"outside its window {names}"
    start_ms, window = min(openings, key=lambda pair: pair[0])
    opens = _wall_time(start_ms, window.zone).isoformat(timespec="minutes")
    return f"outside its window {names}; it opens at {opens}"
