"""Convert literals of a predicate to the type of a column.

A literal is converted to the type of the column it is compared with, never the reverse. If it lies
between two values of the type, it becomes the lower one, with a note of the side.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from deltactl.errors import PredicateError
from deltactl.protocol.arrow_schemas import describe_type
from deltactl.protocol.partition_texts import text_parser

LiteralKind: TypeAlias = Literal[
    "string", "number", "boolean", "date", "timestamp", "timestamp_ntz"
]

Side: TypeAlias = Literal["at", "above", "below"]
"""Where a literal is: at a value of the column's type, or next to it with no value between."""

LOCAL_TIME: Final = pa.timestamp("us")
INSTANT: Final = pa.timestamp("us", "UTC")
DAY_US: Final = 86_400_000_000
_EXACT_DOUBLE: Final = 1 << 53
_DOUBLE_DIGITS: Final = 15
_DIGITS: Final = 60
_PLAIN: Final = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)\s*")
_FLOOR: Final = Context(prec=200, rounding=ROUND_FLOOR)
_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\u0000"}
)
_MOMENTS: Final = ("string", "date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal as written; ``text`` is ``None`` for NULL."""

    kind: LiteralKind
    text: str | None

    @property
    def sql(self) -> str:
        """Return the literal in Spark's SQL."""
        if self.text is None:
            return "NULL"
        if self.kind == "number":
            return self.text if self.text[-1].isdigit() else f"CAST('{self.text}' AS DOUBLE)"
        if self.kind == "boolean":
            return self.text.upper()
        quoted = f"'{self.text.translate(_ESCAPES)}'"
        return quoted if self.kind == "string" else f"{self.kind.upper()} {quoted}"

    def as_value_of(self, type: pa.DataType) -> object:
        """Return the literal as a value for an Arrow scalar of ``type``; ``None`` for NULL.

        Raises:
            ValueError: the type cannot represent this value exactly.
        """
        if self.text is None:
            return None
        if self.kind not in _kinds_of(type):
            raise ValueError(self.text)
        if pt.is_string(type):
            return self.text
        if pt.is_binary(type):
            return self.text.encode()
        try:
            return _parse(self.text.strip(), self.kind, type)
        except (ArithmeticError, UnicodeError) as error:
            raise ValueError(self.text) from error


def _kinds_of(type: pa.DataType) -> tuple[LiteralKind, ...]:
    """Return the kinds of literals that may be compared with a column of ``type``."""
    if pt.is_string(type) or pt.is_binary(type):
        return ("string",)
    if pt.is_boolean(type):
        return ("string", "boolean")
    return _MOMENTS if pt.is_temporal(type) else ("string", "number")


def _parse(text: str, kind: LiteralKind, type: pa.DataType) -> object:
    # A TIMESTAMP is a point in time, by its zone or in UTC; for a column without zone it is the
    # of UTC's clocks, as in a session of Spark in UTC.
    is_instant = kind == "timestamp" and pt.is_timestamp(type)
    parse = text_parser(INSTANT if is_instant else type)
    if parse is None or not text:
        raise ValueError(text)
    value = parse(text)
    too_large = pt.is_floating(type) and math.isinf(pa.scalar(value, type).as_py())
    if too_large and "inf" not in text.lower():
        raise ValueError(text)
    return value


def fit_constant(constant: Constant, type: pa.DataType) -> tuple[pa.Scalar, Side]:
    """Return the nearest value of a type, :func:`comparable`, and where the literal is.

    Raises:
        ValueError: it cannot be compared with the type as Spark does.
    """
    value, side = find_nearest(constant, type)
    # Spark compares a FLOAT with numbers as a DOUBLE.
    kind = pa.float64() if pt.is_floating(type) else type
    return comparable(pa.array([value], kind))[0], side


def find_nearest(constant: Constant, type: pa.DataType) -> tuple[object, Side]:
    """Return the nearest value of a type, for an Arrow scalar, and where the literal is.

    Raises:
        ValueError: it cannot be compared with the type as Spark does.
    """
    text, kind = constant.text, constant.kind
    if text is not None and kind == "number" and (pt.is_integer(type) or pt.is_decimal(type)):
        return _round_down(text, type)
    if text is not None and kind == "string" and pt.is_decimal(type) and _PLAIN.fullmatch(text):
        if type.precision > _DOUBLE_DIGITS:
            raise ValueError(text)  # Spark compares DOUBLE values
        return _round_down(text.strip(), type)
    if text is not None and kind in ("timestamp", "timestamp_ntz") and pt.is_date(type):
        value = constant.as_value_of(INSTANT if kind == "timestamp" else LOCAL_TIME)
        days, rest = divmod(int(str(value)), DAY_US)
        return days, "above" if rest else "at"
    return constant.as_value_of(pa.float64() if pt.is_floating(type) else type), "at"


def _round_down(text: str, type: pa.DataType) -> tuple[object, Side]:
    """Return the greatest value of an integer or decimal type that is not above a number."""
    try:
        number = Decimal(text)
    except ArithmeticError as error:
        raise ValueError(text) from error
    if not number.is_finite() or ("e" in text.lower() and number.copy_abs() >= _EXACT_DOUBLE):
        raise ValueError(text)  # Spark compares DOUBLE values, and they are not exact
    digits, scale = (type.precision, type.scale) if pt.is_decimal(type) else (0, 0)
    most = Decimal((1 << (type.bit_width - 1)) - 1)
    least = -most - 1
    if digits:
        most = Decimal((0, (9,) * digits, -scale))
        least = -most
    found, side = most, "above"
    if number < least:
        found, side = least, "below"
    elif number <= most:
        tiny = number.adjusted() < -_DIGITS  # the number of its digits is not limited
        number = Decimal((number.is_signed(), (1,), -_DIGITS)) if number and tiny else number
        found = number.quantize(Decimal((0, (1,), -scale)), context=_FLOOR)
        side = "at" if found == number else "above"
    return (found if digits else int(found)), side  # type: ignore[return-value]


def ill_fitting(said: str, described: str, type: pa.DataType) -> PredicateError:
    """Return the error for a literal that cannot be compared with a column or a function."""
    return PredicateError(
        f"{_shorten(said)} is not a value of {described}, which is of type {describe_type(type)}",
        hint=_hint(type),
    )


def _hint(type: pa.DataType) -> str | None:
    if pt.is_temporal(type):
        time = "" if pt.is_date(type) else ", or '2024-01-31 12:00:00' with a zone or in UTC"
        return f"Write it as '2024-01-31'{time}."
    return "Put the value into quotes." if pt.is_string(type) or pt.is_binary(type) else None


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def comparable(values: pa.Array) -> pa.Array:
    """Convert ``values`` to a form that Arrow compares as SQL does.

    Floating point numbers become integers in the same order, because NaN equals itself in Spark,
    and is greater than any number; zero has no sign.
    """
    if not pt.is_floating(values.type):
        return values
    floats = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    floats = np.where(np.isnan(floats), np.nan, floats)
    bits = floats.view(np.int64)
    keys = bits ^ ((bits >> 63) & np.iinfo(np.int64).max)
    return pa.array(keys, mask=values.is_null().to_numpy(zero_copy_only=False))
