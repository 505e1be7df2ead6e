"""Convert literals of a predicate to the type of a column.

A literal is converted to the type of the column it is compared with, never the reverse: a value
that the type cannot represent exactly is an error in the predicate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from deltactl.errors import PredicateError
from deltactl.protocol.partition_texts import text_parser

LiteralKind: TypeAlias = Literal[
    "string", "number", "boolean", "date", "timestamp", "timestamp_ntz"
]

_LOCAL_TIME: Final = pa.timestamp("us")
_INSTANT: Final = pa.timestamp("us", "UTC")
_DAY_US: Final = 86_400_000_000
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
    if pt.is_integer(type) and kind == "number":
        text = _integral(text)
    # A TIMESTAMP is a point in time, by its zone or in UTC; for a column without zone it is the
    # of UTC's clocks, as in a session of Spark in UTC.
    is_instant = kind == "timestamp" and pt.is_timestamp(type)
    parse = text_parser(_INSTANT if is_instant else type)
    if parse is None or not text:
        raise ValueError(text)
    value = parse(text)
    # The texts of partition values may contain a time that a date ignores; a literal may not.
    if pt.is_date(type) and _microseconds(text) % _DAY_US:
        raise ValueError(text)
    too_large = pt.is_floating(type) and math.isinf(pa.scalar(value, type).as_py())
    if too_large and "inf" not in text.lower():
        raise ValueError(text)
    return value


def _integral(text: str) -> str:
    """Return ``1.0`` and ``1e3`` in integer form, other strings unchanged."""
    from decimal import Decimal

    if text.lstrip("+-").isdigit():
        return text
    value = Decimal(text)
    # Exponents can produce a number of any length.
    if value.adjusted() > 18 or value != value.to_integral_value():
        raise ValueError(text)
    return str(int(value))


def _microseconds(text: str) -> int:
    parse = text_parser(_LOCAL_TIME)
    if parse is None:
        raise ValueError(text)
    return int(str(parse(text)))


def describe_type(type: pa.DataType) -> str:
    """Return the SQL name of the type."""
    if pt.is_timestamp(type):
        return "timestamp" if type.tz else "timestamp_ntz"
    if pt.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    names = {"int64": "long", "int32": "integer", "int16": "short", "int8": "byte"}
    names |= {"date32[day]": "date", "bool": "boolean"}
    return names.get(str(type), str(type))


def fit_constant(constant: Constant, type: pa.DataType, column: str) -> pa.Scalar:
    """Return the literal as a value to compare ``column`` with; see :func:`comparable`.

    Raises:
        PredicateError: it does not fit the column's type.
    """
    try:
        value = constant.as_value_of(type)
    except ValueError:
        raise PredicateError(
            f"{_shorten(constant.sql)} is not a value of column {column!r}, which is of type "
            f"{describe_type(type)}",
            hint=_hint(type),
        ) from None
    return comparable(pa.array([value], type))[0]


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
