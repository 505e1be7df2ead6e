"""Define the terms of a predicate: each has SQL text, and evaluates all rows at once with Arrow.

Results are three-valued, as in SQL: null where unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltactl.errors import PredicateError
from deltactl.operations.predicate.literals import Constant, comparable, describe_type
from deltactl.protocol.partitions import lookup_map, parse_partition_column

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "<=>"]

_KERNELS: Final[Mapping[Operator, str]] = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A partition column of a predicate."""

    name: str
    physical_name: str
    type: pa.DataType
    sql: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Partition values of some files; each column is parsed once."""

    partition_values: pa.Array
    _typed: dict[str, pa.Array] = field(default_factory=dict)

    def typed(self, column: Column) -> pa.Array:
        """Return the typed values of a column."""
        found = self._typed.get(column.name)
        if found is None:
            texts = lookup_map(self.partition_values, column.physical_name)
            found = parse_partition_column(texts, column.type, column=column.name)
            self._typed[column.name] = found
        return found

    def repeat(self, answer: bool | None) -> pa.Array:
        """Return the same result for every row."""
        return pa.repeat(pa.scalar(answer, pa.bool_()), len(self.partition_values))


class Term(Protocol):
    """A condition."""

    @property
    def sql(self) -> str:
        """Return the condition in Spark's SQL."""
        ...

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return true, false or null for each row."""
        ...


@dataclass(frozen=True, slots=True)
class Truth:
    """The constant TRUE, FALSE or NULL."""

    answer: bool | None

    @property
    def sql(self) -> str:
        """Return the keyword."""
        return "NULL" if self.answer is None else str(self.answer).upper()

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return the constant for each row."""
        return rows.repeat(self.answer)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a literal; ``value`` is the literal in the column's type."""

    column: Column
    operator: Operator
    constant: Constant
    value: pa.Scalar

    @property
    def sql(self) -> str:
        """Return column, operator and literal."""
        return f"{self.column.sql} {self.operator} {self.constant.sql}"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return null where the column is null, except for ``<=>``."""
        values = rows.typed(self.column)
        if self.operator != "<=>":
            if not self.value.is_valid:
                return rows.repeat(None)
            return pc.call_function(_KERNELS[self.operator], [comparable(values), self.value])
        if not self.value.is_valid:
            return pc.is_null(values)
        return pc.fill_null(pc.equal(comparable(values), self.value), False)


@dataclass(frozen=True, slots=True)
class Membership:
    """A column in a list of literals; ``values`` are those except NULL, in the column's type."""

    column: Column
    constants: tuple[Constant, ...]
    values: pa.Array

    @property
    def sql(self) -> str:
        """Return ``column IN (literals)``."""
        return f"{self.column.sql} IN ({', '.join(c.sql for c in self.constants)})"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return null where the column is null, or where only NULL in the list could match."""
        values = comparable(rows.typed(self.column))
        found = pc.is_in(values, value_set=self.values)
        null = pa.scalar(None, pa.bool_())
        if len(self.values) < len(self.constants):
            return pc.if_else(found, found, null)
        return pc.if_else(pc.is_null(values), null, found)


@dataclass(frozen=True, slots=True)
class NullTest:
    """``column IS NULL``."""

    column: Column

    @property
    def sql(self) -> str:
        """Return the test."""
        return f"{self.column.sql} IS NULL"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return true or false for each row, never null."""
        return pc.is_null(rows.typed(self.column))


@dataclass(frozen=True, slots=True)
class Likeness:
    """A column LIKE a pattern; dates, integers and booleans as strings."""

    column: Column
    pattern: Constant
    escape: str
    regex: str | None

    @property
    def sql(self) -> str:
        """Return ``column LIKE pattern``, with its escape character unless it is a backslash."""
        text = f"{self.column.sql} LIKE {self.pattern.sql}"
        if self.escape == "\\":
            return text
        return f"{text} ESCAPE {Constant('string', self.escape).sql}"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return null where the column or the pattern is null."""
        if self.regex is None:
            return rows.repeat(None)
        texts = rows.typed(self.column).cast(pa.string())
        return pc.match_substring_regex(texts, self.regex)


def build_likeness(column: Column, pattern: Constant, escape: str) -> Likeness:
    """Return LIKE as a term.

    Raises:
        PredicateError: the pattern is invalid, or the column has no canonical string form.
    """
    kind = column.type
    if not (pt.is_string(kind) or pt.is_date(kind) or pt.is_integer(kind) or pt.is_boolean(kind)):
        raise PredicateError(
            f"LIKE works on strings: column {column.name!r} is of type {describe_type(kind)}"
        )
    if pattern.text is None:
        return Likeness(column, pattern, escape, None)
    if pattern.kind != "string":
        raise PredicateError(f"LIKE takes a string, not {pattern.sql}")
    regex = rf"(?s)\A{_translate_pattern(pattern.text, escape)}\z"
    try:
        pc.match_substring_regex(pa.array([], pa.string()), regex)
    except pa.ArrowInvalid as error:
        raise PredicateError("the pattern of LIKE is too long") from error
    return Likeness(column, pattern, escape, regex)


def _translate_pattern(pattern: str, escape: str) -> str:
    """Return a LIKE pattern as a regular expression of RE2."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character != escape and character in "%_":
            parts.append(".*" if character == "%" else ".")
            continue
        literal = character if character != escape else next(characters, "")
        if character == escape and literal not in ("%", "_", escape):
            raise PredicateError(
                f"in the LIKE pattern {pattern[:80]!r} the escape character {escape!r} is "
                "not followed by %, _ or itself"
            )
        # By number, because RE2 and Python escape different characters.
        plain = literal.isascii() and literal.isalnum()
        parts.append(literal if plain else f"\\x{{{ord(literal):x}}}")
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT a condition."""

    term: Term

    @property
    def sql(self) -> str:
        """Return NOT and the condition."""
        return f"NOT ({self.term.sql})"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return the inverse; null stays null."""
        return pc.invert(self.term.evaluate(rows))


@dataclass(frozen=True, slots=True)
class Junction:
    """Any number of conditions joined by AND or OR, in a flat list."""

    word: Literal["AND", "OR"]
    terms: tuple[Term, ...]

    @property
    def sql(self) -> str:
        """Return the conditions, with inner AND and OR in parentheses."""
        texts = (f"({t.sql})" if isinstance(t, Junction) else t.sql for t in self.terms)
        return f" {self.word} ".join(texts)

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return false over null in AND, true over null in OR."""
        join = pc.and_kleene if self.word == "AND" else pc.or_kleene
        return reduce(join, (term.evaluate(rows) for term in self.terms))


def sought_constants(term: Term) -> Iterator[tuple[Column, Sequence[Constant]]]:
    """Yield the columns of a condition that must equal a literal, with the literals."""
    match term:
        case Junction():
            for part in term.terms:
                yield from sought_constants(part)
        case Comparison(operator="=" | "<=>"):
            yield term.column, [term.constant]
        case Membership():
            yield term.column, term.constants
        case _:
            return
