"""Parse the string of a partition value to a Python value, and find strings in other forms.

Readers accept different other forms than those of the protocol: Spark those that it can cast, the
Rust kernel (delta-rs, DuckDB) only some, and it refuses the table.

This module does not handle escapes in directory names: ``paths`` does (``hive_escape``). Source:
PROTOCOL.md, "Partition Value Serialization", and other forms that writers use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal, Inexact
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Parser = Callable[[str], object]
"""Parses a string that is not empty. Raises ``ValueError`` or ``ArithmeticError``."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_UNICODE_ESCAPES: Final = re.compile(r"(?:\\u00[0-9a-fA-F]{2})+")
_MOMENT: Final = re.compile(
    r"(?P<year>[+-]?[0-9]{4,6})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?:[T ](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2}))?)?"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?"
    r" ?(?P<zone>Z|UTC|GMT|(?P<sign>[+-])(?P<zh>[0-9]{1,2})(?::?(?P<zm>[0-9]{2}))?)?)?"
)
_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
# The Gregorian calendar repeats every 400 years.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097

_ZONE: Final = r"(?:[Zz]|UTC|GMT|[+-]\d{1,2}(?::?\d{2})?)\s*$"
_HAS_ZONE: Final = rf"[T ].*{_ZONE}"
_DATE: Final = r"^[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
_TIME: Final = r"\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?"
_LONGER_FRACTION: Final = r"\.\d{6}\d*[1-9]"
# Java writes numbers outside of this range with an exponent, as Spark does.
_PLAIN_FLOATS: Final = (1e-3, 1e7)


def text_parser(type: pa.DataType) -> Parser | None:  # noqa: PLR0911 - a table of types
    """Return the parser for a column of ``type``; ``None`` if no partition column has this type.

    Timestamps become microseconds since 1970: in UTC, or in local time for a type without time
    zone. Dates become days since 1970.
    """
    if pa.types.is_signed_integer(type):
        return _integer_parser(type.bit_width)
    if pa.types.is_floating(type):
        return _parse_float
    if pa.types.is_decimal128(type):
        return _decimal_parser(type.precision, type.scale)
    if pa.types.is_boolean(type):
        return _parse_boolean
    if pa.types.is_date32(type):
        return _parse_date
    if pa.types.is_timestamp(type) and type.unit == "us":
        return _parse_instant if type.tz else _parse_local
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return _parse_binary
    return None


def _integer_parser(bits: int) -> Parser:
    def parse(text: str) -> int:
        # int() alone would accept "1_000" and digits of other scripts.
        if not _INTEGER.fullmatch(text):
            raise ValueError(text)
        return _within(int(text), bits)

    return parse


def _within(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise OverflowError(value)
    return value


def _parse_float(text: str) -> float:
    if not (_NUMBER.fullmatch(text) or _NOT_FINITE.fullmatch(text)):
        raise ValueError(text)
    return float(text)


def _decimal_parser(precision: int, scale: int) -> Parser:
    # If a value has more digits than the scale, it would be another partition after rounding. So
    # values are not rounded.
    context = Context(prec=precision, traps=[Inexact])
    unit = Decimal((0, (1,), -scale))

    def parse(text: str) -> Decimal:
        if not _NUMBER.fullmatch(text):
            raise ValueError(text)
        value = Decimal(text).quantize(unit, context=context)
        if not value.is_finite():  # more digits than the precision
            raise OverflowError(text)
        return value

    return parse


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _parse_binary(text: str) -> bytes:
    # delta-rs, and the example in the protocol, escape every byte; Spark writes the bytes as UTF-8.
    # A string counts as escaped only if it consists of escapes.
    if _UNICODE_ESCAPES.fullmatch(text):
        return bytes(int(code, 16) for code in text[2:].split("\\u"))
    return text.encode()


def _parse_date(text: str) -> int:
    return _within(_days(_match_moment(text)), 32)


def _parse_instant(text: str) -> int:
    match = _match_moment(text)
    return _within(_local_us(match) - _zone_us(match), 64)


def _parse_local(text: str) -> int:
    # As in Spark, a time zone is ignored if the type has no time zone.
    return _within(_local_us(_match_moment(text)), 64)


def _match_moment(text: str) -> re.Match[str]:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _days(match: re.Match[str]) -> int:
    # Use the same year of another cycle of 400 years, because Arrow and Spark support more years
    # than datetime.
    cycles, year = divmod(int(match["year"]), _CYCLE_YEARS)
    day = date(year + _CYCLE_YEARS, int(match["month"]), int(match["day"]))
    return day.toordinal() - _EPOCH_ORDINAL + (cycles - 1) * _CYCLE_DAYS


def _local_us(match: re.Match[str]) -> int:
    hour, minute, second = (int(match[unit] or 0) for unit in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(match[0])
    seconds = (hour * 60 + minute) * 60 + second
    fraction_us = int((match["fraction"] or "0").ljust(6, "0")[:6])
    return _days(match) * _DAY_US + seconds * _SECOND_US + fraction_us


def _zone_us(match: re.Match[str]) -> int:
    if match["sign"] is None:
        return 0
    hours, minutes = int(match["zh"]), int(match["zm"] or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(match[0])
    return (1 if match["sign"] == "+" else -1) * (hours * 60 + minutes) * 60 * _SECOND_US


def zone_mask(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a mask of the timestamps with a time zone; null for nulls."""
    return pc.match_substring_regex(texts, _HAS_ZONE)


def find_malformed(texts: pa.Array, type: pa.DataType) -> list[str]:
    """Return the texts that are values of a column of ``type``, but not in the protocol's form.

    These are dates with a time, and timestamps without a time, or without seconds. Between date and
    time, a timestamp without a zone has a space.
    """
    if pa.types.is_date(type):
        form = rf"{_DATE}$"
    elif pa.types.is_timestamp(type):
        zone = rf"(?: ?{_ZONE})" if type.tz else ""
        zoned = f"|T{_TIME}{zone}" if zone else ""
        form = rf"{_DATE}(?: {_TIME}{zone}?{zoned})$"
    else:
        return []
    matches = pc.or_(pc.match_substring_regex(texts, form), pc.equal(texts, ""))
    found: list[str] = texts.filter(pc.invert(matches)).to_pylist()
    return found


def find_inexact(texts: pa.Array, type: pa.DataType) -> list[str]:
    """Return the texts with a part that a column of ``type`` does not store.

    These are a time in a date, a zone in a timestamp without time zone, digits after the
    microseconds, and a number that is too large for a float.
    """
    if pa.types.is_floating(type):
        numbers = [it for it in texts.drop_null().to_pylist() if _NUMBER.fullmatch(it)]
        values = pa.array(map(float, numbers), type)
        return [
            it for it, is_lost in zip(numbers, pc.is_inf(values), strict=True) if is_lost.as_py()
        ]
    if pa.types.is_date(type):
        lost = r"[T ]"
    elif pa.types.is_timestamp(type):
        lost = _LONGER_FRACTION if type.tz else rf"{_LONGER_FRACTION}|{_HAS_ZONE}"
    else:
        return []
    found: list[str] = texts.filter(pc.match_substring_regex(texts, lost)).to_pylist()
    return found


def find_unsigned_years(texts: pa.Array, type: pa.DataType) -> list[str]:
    """Return the moments with a year above 9999 without a sign: the Rust kernel refuses the table.

    Spark writes a sign before such years.
    """
    if not pa.types.is_temporal(type):
        return []
    found: list[str] = texts.filter(pc.match_substring_regex(texts, r"^\d{5,}-")).to_pylist()
    return found


def format_float(value: Any) -> str | None:
    """Return a float scalar as Java and Spark write it; ``None`` for null."""
    if not value.is_valid:
        return None
    number = value.as_py()
    if value.type == pa.float32():
        number = np.float32(number)  # with fewer digits
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    least, most = _PLAIN_FLOATS
    if number == 0 or least <= abs(number) < most:
        return np.format_float_positional(number, trim="0")
    digits, _, exponent = np.format_float_scientific(number, trim="0").partition("e")
    return f"{digits}E{int(exponent)}"
