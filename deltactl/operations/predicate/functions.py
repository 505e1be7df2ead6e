"""Build operands from functions of SQL: each works on a whole column with Arrow, as Spark does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltactl.errors import CorruptLogError, PredicateError
from deltactl.operations.predicate.literals import (
    DAY_US,
    INSTANT,
    LOCAL_TIME,
    Constant,
    fit_constant,
)
from deltactl.operations.predicate.terms import Call, Fixed, Operand, replace_invalid
from deltactl.protocol.arrow_schemas import describe_type
from deltactl.protocol.partitions import parse_partition_column

_DATE: Final = pa.date32()
_MOST_DAYS: Final = 4_000_000  # ten thousand years: beyond them, a date may overflow
_UNITS_US: Final = {
    "week": 7 * DAY_US,
    "day": DAY_US,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_UNITS_MONTHS: Final = {"year": 12, "month": 1}
_PART: Final = re.compile(r"\s*([+-]?[0-9]{1,18})\s+([a-z]+?)s?(?=\s|$)")


def fold(operand: Operand) -> Operand | Constant:
    """Return the value of a function of literals as a literal; another operand unchanged."""
    value = _compute(operand)
    return operand if value is None else to_constant(value)


def _compute(operand: Operand) -> pa.Array | None:
    if isinstance(operand, Fixed):
        return pa.repeat(operand.value, 1)
    if not isinstance(operand, Call):
        return None
    values = [_compute(it) for it in operand.operands]
    return None if any(it is None for it in values) else operand.apply(*values)


def to_constant(value: pa.Array) -> Constant:
    """Return the only value of an array as a literal."""
    kind = value.type
    if pt.is_timestamp(kind):
        text = value.cast(LOCAL_TIME).cast(pa.string())[0].as_py()
        word, zone = ("timestamp", "+00:00") if kind.tz else ("timestamp_ntz", "")
        return Constant(word, None if text is None else text + zone)  # type: ignore[arg-type]
    text = value.cast(pa.string())[0].as_py()
    if pt.is_date(kind):
        return Constant("date", text)
    if pt.is_boolean(kind):
        return Constant("boolean", text)
    return Constant("string" if pt.is_string(kind) else "number", text)


def cast(operand: Operand, to: pa.DataType) -> Operand:
    """Return ``CAST(operand AS to)``.

    Raises:
        PredicateError: the cast is not supported.
    """
    if operand.type == to:
        return operand
    change = _find_cast(operand.type, to)
    if change is None:
        raise PredicateError(
            f"{operand.described} is of type {describe_type(operand.type)}, which a predicate "
            f"cannot cast to {describe_type(to)}",
            hint="Compare it with literals of its own type.",
        )
    sql = f"CAST({operand.sql} AS {_SQL_NAMES.get(str(to), describe_type(to)).upper()})"
    return Call(sql, to, (operand,), change)


_SQL_NAMES: Final = {"int64": "bigint", "int16": "smallint", "int8": "tinyint", "int32": "int"}


def _find_cast(of: pa.DataType, to: pa.DataType) -> Callable[[pa.Array], pa.Array] | None:
    is_moment = pt.is_date(of) or pt.is_timestamp(of)
    if pt.is_string(of) and (pt.is_date(to) or pt.is_timestamp(to) or pt.is_integer(to)):
        return lambda texts: _parse_texts(texts, to)
    if pt.is_string(to) and (pt.is_date(of) or pt.is_integer(of) or pt.is_boolean(of)):
        return lambda values: values.cast(pa.string())
    if pt.is_date(to) and is_moment:
        return _to_date
    if pt.is_timestamp(to) and is_moment:
        return lambda values: values.cast(LOCAL_TIME).cast(to)
    if pt.is_integer(of) and pt.is_integer(to) and to.bit_width > of.bit_width:
        return lambda values: values.cast(to)
    return None


def _to_date(moments: pa.Array) -> pa.Array:
    return pc.floor_temporal(moments.cast(LOCAL_TIME), unit="day").cast(_DATE)


def _parse_texts(texts: pa.Array, to: pa.DataType) -> pa.Array:
    try:
        return parse_partition_column(pc.utf8_trim_whitespace(replace_invalid(texts)), to)
    except CorruptLogError as error:
        raise PredicateError(
            f"a value of the table cannot be cast to {describe_type(to)}: {error.message}",
            hint="Compare the column with strings, or exclude this value first.",
        ) from None


def as_text(operand: Operand, word: str) -> Operand:
    """Return the operand as a string, for a function or an operator.

    Raises:
        PredicateError: the type has no canonical text.
    """
    if _find_cast(operand.type, pa.string()) is None and not pt.is_string(operand.type):
        raise PredicateError(
            f"{word} works on strings: {operand.described} is of type {describe_type(operand.type)}"
        )
    return cast(operand, pa.string())


def date_part(name: str, operand: Operand) -> Operand:
    """Return ``YEAR``, ``MONTH`` or ``DAY`` of a date."""
    date = cast(operand, _DATE)
    part = getattr(pc, name.lower())
    return Call(f"{name}({date.sql})", pa.int32(), (date,), lambda it: part(it).cast(pa.int32()))


def change_case(name: str, operand: Operand) -> Operand:
    """Return ``UPPER`` or ``LOWER`` of a text, by the rules of Unicode, as Java does."""
    text = as_text(operand, name)
    change = str.upper if name == "UPPER" else str.lower

    def apply(texts: pa.Array) -> pa.Array:
        texts = replace_invalid(texts)
        distinct = pc.unique(texts)
        changed = [None if it is None else change(it) for it in distinct.to_pylist()]
        return pa.array(changed, pa.string()).take(pc.index_in(texts, value_set=distinct))

    return Call(f"{name}({text.sql})", pa.string(), (text,), apply)


def coalesce(operands: Sequence[Operand | Constant]) -> Operand | None:
    """Return ``COALESCE``; all operands have one type. ``None``: this is not supported."""
    first = next((it for it in operands if not isinstance(it, Constant)), None)
    if first is None or pt.is_floating(first.type):
        return None
    typed: list[Operand] = []
    for it in operands:
        if isinstance(it, Constant):
            if it.text is None:
                continue
            try:
                value, side = fit_constant(it, first.type)
            except ValueError:
                return None
            if side != "at":
                return None
            typed.append(Fixed(it.sql, first.type, value))
        elif it.type != first.type:
            return None
        else:
            typed.append(it)
    sql = f"COALESCE({', '.join(it.sql for it in typed)})"
    return Call(sql, first.type, tuple(typed), pc.coalesce)


def read_interval(text: str, unit: str | None) -> tuple[int, int] | None:
    """Return an interval as months and microseconds; ``None`` if it is not one.

    ``text`` is the number of ``unit``, or has pairs of both, such as ``1 day 2 hours``.
    """
    months = micros = position = 0
    words = (f"{text} {unit}" if unit else text).lower()
    while match := _PART.match(words, position):
        number, name = int(match[1]), match[2]
        if name not in _UNITS_US and name not in _UNITS_MONTHS:
            return None
        months += number * _UNITS_MONTHS.get(name, 0)
        micros += number * _UNITS_US.get(name, 0)
        position = match.end()
    return (months, micros) if position and not words[position:].strip() else None


def shift(operand: Operand, months: int, micros: int) -> Operand | None:
    """Return a date or a timestamp plus an interval; ``None``: this is not supported."""
    is_date = pt.is_date(operand.type)
    if not (is_date or pt.is_timestamp(operand.type)) or (months and micros):
        return None
    if is_date and micros % DAY_US:
        operand, is_date = cast(operand, INSTANT), False
    if is_date and not months:
        return add_days(operand, micros // DAY_US)
    if abs(micros) > _MOST_DAYS * DAY_US or abs(months) > _MOST_DAYS // 31:
        return None
    if is_date:
        sql = f"ADD_MONTHS({operand.sql}, {months})"
    else:
        sign, unit = "-" if months + micros < 0 else "+", "MONTH" if months else "MICROSECOND"
        sql = f"{operand.sql} {sign} INTERVAL '{abs(months + micros)}' {unit}"

    def apply(moments: pa.Array) -> pa.Array:
        if months:
            return _add_months(moments, months)
        return pc.add_checked(moments.cast(pa.int64()), micros).cast(moments.type)

    return Call(sql, operand.type, (operand,), apply)


def add_days(operand: Operand, days: int) -> Operand | None:
    """Return ``DATE_ADD``; ``None``: too many days."""
    date = cast(operand, _DATE)
    if abs(days) > _MOST_DAYS:
        return None
    return Call(
        f"DATE_ADD({date.sql}, {days})",
        _DATE,
        (date,),
        lambda it: pc.add(it.cast(pa.int32()), pa.scalar(days, pa.int32())).cast(_DATE),
    )


def _add_months(moments: pa.Array, months: int) -> pa.Array:
    """Add months; the day is at most the last of its month."""
    local = moments.cast(LOCAL_TIME).cast(pa.int64())
    micros = local.fill_null(0).to_numpy(zero_copy_only=False).astype("M8[us]")
    days = micros.astype("M8[D]")
    old = days.astype("M8[M]")
    new = old + np.timedelta64(months, "M")
    after = (new + np.timedelta64(1, "M")).astype("M8[D]")
    last = after - new.astype("M8[D]") - np.timedelta64(1, "D")
    offset = np.minimum(days - old.astype("M8[D]"), last)
    moved = (new.astype("M8[D]") + offset).astype("M8[us]") + (micros - days.astype("M8[us]"))
    mask = moments.is_null().to_numpy(zero_copy_only=False)
    result = pa.array(moved.astype(np.int64), mask=mask).cast(LOCAL_TIME)
    return _to_date(result) if pt.is_date(moments.type) else result.cast(moments.type)
