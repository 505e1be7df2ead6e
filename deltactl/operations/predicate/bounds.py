"""Decide by minima and maxima which rows a condition may match, and which bounds match it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import reduce
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.operations.predicate.terms import (
    Call,
    Column,
    Comparison,
    Fixed,
    Junction,
    Membership,
    Negation,
    Operand,
    Rows,
    Term,
    Truth,
    repeat,
)

FindBounds: TypeAlias = Callable[[Column], "tuple[pa.Array, pa.Array] | None"]
"""``find(column)``: the minimum and the maximum in each file; null or ``None`` where unknown."""

_LOWER: Final = {"<": "less", "<=": "less_equal", "=": "less_equal", "<=>": "less_equal"}
_UPPER: Final = {
    ">": "greater",
    ">=": "greater_equal",
    "=": "greater_equal",
    "<=>": "greater_equal",
}


def may_match(term: Term, find: FindBounds, count: int) -> pa.Array:
    """Return for each of ``count`` files whether the condition may be true for a row of it.

    Bounds of floating point numbers are not used: they leave out NaN.
    """
    match term:
        case Junction(word, terms):
            join = pc.and_ if word == "AND" else pc.or_
            return reduce(join, (may_match(part, find, count) for part in terms))
        case Truth(answer):
            return repeat(bool(answer), count)
        case Comparison(Column() as column, operator, _, value, "at") if value.is_valid:
            bounds = None if pa.types.is_floating(column.type) else find(column)
            low, high = _LOWER.get(operator), _UPPER.get(operator)
            return _within(bounds, (low, value), (high, value), count)
        case Membership(Column() as column, _, values):
            if not len(values):
                return repeat(False, count)
            bounds = None if pa.types.is_floating(column.type) else find(column)
            ordered = values.take(pc.sort_indices(values))
            return _within(
                bounds, ("less_equal", ordered[-1]), ("greater_equal", ordered[0]), count
            )
        case _:
            return repeat(True, count)


def _within(
    bounds: tuple[pa.Array, pa.Array] | None,
    low: tuple[str | None, pa.Scalar],
    high: tuple[str | None, pa.Scalar],
    count: int,
) -> pa.Array:
    found = repeat(True, count)
    for bound, (kernel, value) in zip(bounds or (), (low, high), strict=False):
        if kernel is not None:
            held = pc.call_function(kernel, [bound, value])
            found = pc.and_(found, pc.fill_null(held, True))
    return found


def columns_of(part: Term | Operand) -> Iterator[Column]:
    """Yield the columns of a condition or operand."""
    match part:
        case Column():
            yield part
        case Junction(_, terms):
            for term in terms:
                yield from columns_of(term)
        case Negation(term):
            yield from columns_of(term)
        case Call(_, _, operands):
            for operand in operands:
                yield from columns_of(operand)
        case Truth() | Fixed():
            return
        case _:
            yield from columns_of(part.operand)  # type: ignore[union-attr]


def held_by(term: Term, column: str, rows: Rows, known: Set[str]) -> pa.Array:
    """Return whether a value of one column makes the condition true, for some other values.

    ``rows`` have this column, and the ``known`` ones; every value of other columns is possible.
    """
    if isinstance(term, Junction):
        parts = [(part, column in _names(part)) for part in term.terms]
        if term.word == "OR":
            return reduce(pc.or_, (held_by(p, column, rows, known) for p, has in parts if has))
        held = (
            held_by(part, column, rows, known) if has else _possible(part, rows, known)
            for part, has in parts
        )
        return reduce(pc.and_, held)
    return _possible(term, rows, known | {column})


def _possible(term: Term, rows: Rows, known: Set[str]) -> pa.Array:
    if isinstance(term, Junction):
        join = pc.and_ if term.word == "AND" else pc.or_
        return reduce(join, (_possible(part, rows, known) for part in term.terms))
    if _names(term) <= known:
        return pc.fill_null(term.evaluate(rows), False)
    return repeat(True, rows.num_rows)


def _names(term: Term) -> Set[str]:
    return {column.name for column in columns_of(term)}
