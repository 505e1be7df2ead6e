"""Parse and format sizes, durations, timestamps and counts.

Numbers inside the program are plain integers with the unit in their name (``size_bytes``,
``retention_ms``, ``timestamp_ms``); only input and output are
strings. A number without a unit is an error: ``--retention 168`` read as hours instead of days
would delete data.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Annotated, Final, NamedTuple, NoReturn, TypeAlias

from deltactl.clock import SystemClock
from deltactl.errors import UsageError

MAX_LONG: Final = 2**63 - 1

# As in coreutils: KB is 1000 bytes, KiB is 1024. A letter alone is also 1024, as Spark and Hadoop
# read "128m".
_PREFIXES: Final = "KMGTPE"
_SIZE_UNITS: Final[dict[str, int]] = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    **{f"{p.lower()}b": 1000**i for i, p in enumerate(_PREFIXES, start=1)},
    **{f"{p.lower()}ib": 1024**i for i, p in enumerate(_PREFIXES, start=1)},
    **{p.lower(): 1024**i for i, p in enumerate(_PREFIXES, start=1)},
}

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
HOUR_MS: Final = 60 * _MINUTE
DAY_MS: Final = 24 * HOUR_MS
_DURATION_NAMES: Final[dict[Fraction, tuple[str, ...]]] = {
    Fraction(1, 1000): ("us", "microsecond"),
    Fraction(1): ("ms", "msec", "millisecond"),
    Fraction(_SECOND): ("s", "sec", "second"),
    Fraction(_MINUTE): ("m", "min", "minute"),
    Fraction(HOUR_MS): ("h", "hr", "hour"),
    Fraction(DAY_MS): ("d", "day"),
    Fraction(7 * DAY_MS): ("w", "week"),
}
_DURATION_UNITS: Final[dict[str, Fraction]] = {
    spelling: ms
    for ms, names in _DURATION_NAMES.items()
    for name in names
    for spelling in ((name, f"{name}s") if len(name) > 2 else (name,))
}
_CALENDAR_UNITS: Final = frozenset({"mo", "month", "months", "mon", "y", "yr", "year", "years"})

_AMOUNT: Final = r"[0-9]{1,20}(?:\.[0-9]{1,20})?"
_BARE_NUMBER: Final = re.compile(_AMOUNT)
_SIZE: Final = re.compile(rf"({_AMOUNT})\s*([A-Za-z]+)")
_DURATION_PART: Final = re.compile(rf"\s*({_AMOUNT})\s*([A-Za-z]+)\s*,?")
_ISO_DURATION: Final = re.compile(
    rf"P(?=.)(?:({_AMOUNT})Y)?(?:({_AMOUNT})M)?(?:({_AMOUNT})W)?(?:({_AMOUNT})D)?"
    rf"(?:T(?=.)(?:({_AMOUNT})H)?(?:({_AMOUNT})M)?(?:({_AMOUNT})S)?)?",
    re.IGNORECASE,
)
_TIMESTAMP: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<time>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.(?P<fraction>[0-9]{1,9}))?"
    r"\s?(?P<zone>[Zz]|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_EPOCH: Final = datetime(1970, 1, 1)
# The Gregorian calendar repeats after 400 years.
_CYCLE_YEARS: Final = 400
_CYCLE_MS: Final = 146_097 * DAY_MS


def parse_size(text: str) -> int:
    """Return the bytes of a size: ``128MiB``, ``1GB``, ``1.5 GiB``, ``512k``, ``100 bytes``.

    ``KB``, ``MB``, ... are powers of 1000; ``KiB``, ``MiB``, ... and the single letters ``K``,
    ``M``, ... powers of 1024. Case does not matter; fractions of a byte are dropped.

    Raises:
        UsageError: no unit, an unknown unit, or more than 2^63-1 bytes.
    """
    stripped = text.strip()
    if _BARE_NUMBER.fullmatch(stripped):
        raise UsageError(
            f"size {text!r} has no unit",
            hint=f'Add the unit: "{stripped}MiB", or "{stripped}B" for bytes.',
        )
    match = _SIZE.fullmatch(stripped)
    factor = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(
            f"{text!r} is not a size",
            hint='Write a number and a unit, such as "128MiB", "1GB" or "500KB".',
        )
    return _fitting(int(Fraction(match[1]) * factor), text, "size")


def format_size(n: int) -> str:
    """Return a size as text, in binary units with at most one decimal: ``1.5 MiB``, ``12 B``."""
    sign, amount = ("-", -n) if n < 0 else ("", n)
    if amount < 1024:
        return f"{sign}{amount} B"
    power, tenths = 0, 10240
    while tenths >= 10240 and power < len(_PREFIXES):  # 1023.96 KiB would print as "1024 KiB"
        power += 1
        scale = 1024**power
        tenths = (amount * 20 + scale) // (2 * scale)  # rounded half up, exactly
    whole, tenth = divmod(tenths, 10)
    return f"{sign}{whole}{f'.{tenth}' if tenth else ''} {_PREFIXES[power - 1]}iB"


def format_compact_size(n: int) -> str:
    """Return a size as people type it in an option: ``64GiB``."""
    return format_size(n).replace(" ", "")


def parse_duration(text: str) -> int:
    """Return milliseconds of ``7d``, ``1h30m``, ``interval 7 days``, ``1 week 2 days`` or ``PT1H``.

    For options and for interval properties of a table: ``interval`` is optional, case does not
    matter, and ``m`` is minutes. Fractions of a millisecond are dropped, as Delta does.

    Raises:
        UsageError: no unit, unknown unit, months or years (they have no fixed length), negative,
            or more than 2^63-1 ms.
    """
    stripped = text.strip()
    if _BARE_NUMBER.fullmatch(stripped):
        raise UsageError(
            f"duration {text!r} has no unit",
            hint=f'Add the unit: "{stripped}d" (days), "{stripped}h" (hours) or "{stripped}min".',
        )
    iso = _ISO_DURATION.fullmatch(stripped)
    parts = _iso_parts(iso) if iso else _named_parts(stripped, text)
    total = Fraction(0)
    for amount, unit in parts:
        if unit in _CALENDAR_UNITS:
            raise UsageError(
                f"duration {text!r} counts months or years, which have no fixed length",
                hint='Use weeks, days or hours, such as "30d".',
            )
        if unit not in _DURATION_UNITS:
            _refuse_duration(text)
        total += Fraction(amount) * _DURATION_UNITS[unit]
    return _fitting(int(total), text, "duration")


def _iso_parts(match: re.Match[str]) -> list[tuple[str, str]]:
    units = ("year", "month", "w", "d", "h", "m", "s")
    return [(a, u) for a, u in zip(match.groups(), units, strict=True) if a is not None]


def _named_parts(stripped: str, text: str) -> list[tuple[str, str]]:
    body = re.sub(r"^interval\s+", "", stripped, flags=re.IGNORECASE)
    parts: list[tuple[str, str]] = []
    position = 0
    while position < len(body):
        match = _DURATION_PART.match(body, position)
        if match is None:
            _refuse_duration(text)
        parts.append((match[1], match[2].lower()))
        position = match.end()
    if not parts or body.endswith(","):
        _refuse_duration(text)
    return parts


def _refuse_duration(text: str) -> NoReturn:
    raise UsageError(
        f"{text!r} is not a duration",
        hint='Write numbers with units, such as "7d", "168h", "30min" or "interval 7 days".',
    )


def to_bytes(size: int | str) -> int:
    """Return the bytes of a size: a number of bytes, or a text for ``parse_size``."""
    return parse_size(size) if isinstance(size, str) else size


def to_duration_ms(duration: timedelta | str) -> int:
    """Return the milliseconds of a duration or of a text for ``parse_duration``."""
    if isinstance(duration, str):
        return parse_duration(duration)
    return duration // timedelta(milliseconds=1)


def to_timedelta(duration: timedelta | str) -> timedelta:
    """Return a duration, also that of a text for ``parse_duration``.

    Raises:
        UsageError: the text is not valid, or the duration is too long.
    """
    try:
        return timedelta(milliseconds=to_duration_ms(duration))
    except OverflowError as error:
        raise UsageError(f"{duration!r} is more than {timedelta.max.days} days") from error


def to_timestamp_ms(timestamp: datetime | str) -> int:
    """Return milliseconds since 1970 UTC; a time without a zone is UTC; "2h" is two hours ago.

    Raises:
        UsageError: the text is not valid, or the time is pandas' ``NaT``.
    """
    if isinstance(timestamp, str):
        try:
            return SystemClock().now_ms() - parse_duration(timestamp)
        except UsageError:
            return parse_timestamp(timestamp)
    if repr(timestamp) == "NaT":
        raise UsageError("NaT is not a timestamp")
    zoned = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return (zoned - _EPOCH.replace(tzinfo=UTC)) // timedelta(milliseconds=1)


SizeBytes: TypeAlias = Annotated[int, to_bytes]
DurationMs: TypeAlias = Annotated[int, to_duration_ms]
Duration: TypeAlias = Annotated[timedelta, to_timedelta]
TimestampMs: TypeAlias = Annotated[int, to_timestamp_ms]
"""Types of options: the library takes the argument of the function instead of the number."""


def _fitting(value: int, text: str, what: str) -> int:
    if value > MAX_LONG:
        raise UsageError(f"{what} {text!r} is too large")
    return value


def format_duration(ms: int) -> str:
    """Return a duration as exact text: ``7d``, ``1d 12h``, ``1min 23.456s``, ``250ms``, ``0s``.

    ``parse_duration`` returns the same number for it, unless it is negative.
    """
    if ms < 0:
        return f"-{format_duration(-ms)}"
    if ms < _SECOND:
        return f"{ms}ms" if ms else "0s"
    days, rest = divmod(ms, DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    minutes, rest = divmod(rest, _MINUTE)
    seconds, millis = divmod(rest, _SECOND)
    fraction = f".{millis:03d}".rstrip("0") if millis else ""
    parts = [f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if n]
    if seconds or millis:
        parts.append(f"{seconds}{fraction}s")
    return " ".join(parts)


def parse_timestamp(text: str) -> int:
    """Return milliseconds since 1970: of RFC 3339, ``2024-01-31 12:00:00.5`` or ``2024-01-31``.

    A timestamp without a time zone is UTC, in any time zone of this machine. Fractions of a
    millisecond are dropped.

    Raises:
        UsageError: the form is another one, such as a number, or the day or time does not exist.
    """
    stripped = text.strip()
    if _BARE_NUMBER.fullmatch(stripped):
        raise UsageError(
            f"timestamp {text!r} is only a number",
            hint='Write the timestamp as in RFC 3339, such as "2024-01-31T12:00:00Z".',
        )
    match = _TIMESTAMP.fullmatch(stripped)
    try:
        if match is None:
            raise ValueError
        return _instant_ms(match)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a timestamp",
            hint='Write the timestamp as "2024-01-31", "2024-01-31 12:00:00" or '
            '"2024-01-31T12:00:00+02:00".',
        ) from None


def _instant_ms(match: re.Match[str]) -> int:
    clock = match["time"] or "00:00"
    local = datetime.fromisoformat(f"{match['date']}T{clock}")
    millis = int((match["fraction"] or "0").ljust(3, "0")[:3])
    if match["fraction"] and clock.count(":") != 2:
        raise ValueError("a fraction of a minute")
    return (local - _EPOCH) // timedelta(milliseconds=1) + millis - _zone_ms(match["zone"])


def _zone_ms(zone: str | None) -> int:
    if zone is None or zone in "ZzUTC":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or "0")
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (1 if zone[0] == "+" else -1) * (hours * HOUR_MS + minutes * _MINUTE)


def format_timestamp(ms: int) -> str:
    """Return a timestamp in UTC with milliseconds, as RFC 3339: ``2024-01-31T12:00:00.000Z``.

    Accepts every integer, since a log may contain any. Years outside 0000-9999 have a sign and
    more digits, as in ISO 8601 (``+292278994-08-17T07:12:55.807Z``).
    """
    cycles, within = divmod(ms, _CYCLE_MS)
    # 1970 plus at most 400 years is in the range of datetime.
    moment = _EPOCH + timedelta(milliseconds=within)
    year = moment.year + cycles * _CYCLE_YEARS
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}{moment:-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


class _AgeUnit(NamedTuple):
    ms: int
    name: str


_AGE_UNITS: Final = (
    _AgeUnit(365 * DAY_MS, "y"),
    _AgeUnit(DAY_MS, "d"),
    _AgeUnit(HOUR_MS, "h"),
    _AgeUnit(_MINUTE, "min"),
    _AgeUnit(_SECOND, "s"),
)


def format_age(ms: int) -> str:
    """Return an age in ms as text, rounded down: ``3 h ago``, ``just now``, ``in 2 d``."""
    for unit in _AGE_UNITS:
        if abs(ms) >= unit.ms:
            amount = f"{abs(ms) // unit.ms:,} {unit.name}"
            return f"{amount} ago" if ms > 0 else f"in {amount}"
    return "just now"


def format_instant(ms: int, now_ms: int) -> str:
    """Return a time with its age."""
    return f"{format_timestamp(ms)} ({format_age(now_ms - ms)})"


def format_count(n: int, noun: str | None = None, plural: str | None = None) -> str:
    """Return a count with commas, and its noun if given: ``1,234``, ``1 file``."""
    if noun is None:
        return f"{n:,}"
    return f"{n:,} {noun if abs(n) == 1 else plural or f'{noun}s'}"


KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
