"""Define the terms of a predicate: each has SQL text, and evaluates all rows at once with Arrow.

Results are three-valued, as in SQL: null where unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.operations.predicate.literals import Constant, Side, comparable
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


class Operand(Protocol):
    """What a condition compares with literals: a partition column, or a function of some."""

    @property
    def type(self) -> pa.DataType:
        """Return the type of the values."""
        ...

    @property
    def sql(self) -> str:
        """Return the operand in Spark's SQL."""
        ...

    @property
    def described(self) -> str:
        """Return how messages name it."""
        ...

    def values(self, rows: Rows) -> pa.Array:
        """Return a value for each row."""
        ...


@dataclass(frozen=True, slots=True)
class Column:
    """A partition column of a predicate."""

    name: str
    physical_name: str
    type: pa.DataType
    sql: str

    @property
    def described(self) -> str:
        """Return how messages name it."""
        return f"column {self.name!r}"

    def values(self, rows: Rows) -> pa.Array:
        """Return the typed values."""
        return rows.typed(self)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A literal among the operands of a function; ``value`` has the type."""

    sql: str
    type: pa.DataType
    value: pa.Scalar

    @property
    def described(self) -> str:
        """Return how messages name it."""
        return self.sql

    def values(self, rows: Rows) -> pa.Array:
        """Return the literal for each row."""
        return repeat(self.value, rows.num_rows)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of operands, which ``apply`` computes for all rows at once."""

    sql: str
    type: pa.DataType
    operands: tuple[Operand, ...]
    apply: Callable[..., pa.Array] = field(repr=False, compare=False)

    @property
    def described(self) -> str:
        """Return how messages name it."""
        return self.sql

    def values(self, rows: Rows) -> pa.Array:
        """Return the results."""
        return self.apply(*(it.values(rows) for it in self.operands))


# With a literal above or below the value of the type that is next to it.
_BESIDE: Final[Mapping[tuple[Side, Operator], Operator]] = {
    ("above", "<"): "<=",
    ("above", ">="): ">",
    ("below", "<="): "<",
    ("below", ">"): ">=",
}


class Rows(Protocol):
    """The rows for which a condition is evaluated."""

    def typed(self, column: Column) -> pa.Array:
        """Return the typed values of a column."""
        ...

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        ...


@dataclass(frozen=True, slots=True)
class PartitionRows:
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

    @property
    def num_rows(self) -> int:
        """Return the number of rows."""
        return len(self.partition_values)


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """Rows whose typed columns are in memory, by the names that the predicate has for them."""

    columns: Mapping[str, pa.Array]
    num_rows: int

    def typed(self, column: Column) -> pa.Array:
        """Return the values of a column."""
        return self.columns[column.name]


def repeat(value: pa.Scalar | bool | None, count: int) -> pa.Array:
    """Return a value, or the truth value of true, false or ``None``, ``count`` times."""
    return pa.repeat(value if isinstance(value, pa.Scalar) else pa.scalar(value, pa.bool_()), count)


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
        return repeat(self.answer, rows.num_rows)


@dataclass(frozen=True, slots=True)
class Comparison:
    """An operand compared with a literal; ``value`` is in the operand's type, see ``Side``."""

    operand: Operand
    operator: Operator
    constant: Constant
    value: pa.Scalar
    side: Side = "at"

    @property
    def sql(self) -> str:
        """Return operand, operator and literal."""
        return f"{self.operand.sql} {self.operator} {self.constant.sql}"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return null where the operand is null, except for ``<=>``."""
        values = comparable(self.operand.values(rows))
        if not self.value.is_valid:
            return pc.is_null(values) if self.operator == "<=>" else repeat(None, rows.num_rows)
        if self.side != "at" and self.operator == "<=>":
            return repeat(False, rows.num_rows)
        if self.side != "at" and self.operator in ("=", "!="):  # no value of the type is equal
            unknown = pa.scalar(None, pa.bool_())
            return pc.if_else(pc.is_null(values), unknown, self.operator == "!=")
        operator = _BESIDE.get((self.side, self.operator), self.operator)
        if operator == "<=>":
            return pc.fill_null(pc.equal(values, self.value), False)
        return pc.call_function(_KERNELS[operator], [values, self.value])


@dataclass(frozen=True, slots=True)
class Membership:
    """An operand in a list of literals; ``values`` are those of the operand's type."""

    operand: Operand
    constants: tuple[Constant, ...]
    values: pa.Array

    @property
    def sql(self) -> str:
        """Return ``operand IN (literals)``."""
        return f"{self.operand.sql} IN ({', '.join(c.sql for c in self.constants)})"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return null where the operand is null, or where only NULL in the list could match."""
        values = comparable(self.operand.values(rows))
        found = pc.is_in(values, value_set=self.values)
        null = pa.scalar(None, pa.bool_())
        if any(constant.text is None for constant in self.constants):
            return pc.if_else(found, found, null)
        return pc.if_else(pc.is_null(values), null, found)


@dataclass(frozen=True, slots=True)
class NullTest:
    """``operand IS NULL``."""

    operand: Operand

    @property
    def sql(self) -> str:
        """Return the test."""
        return f"{self.operand.sql} IS NULL"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return true or false for each row, never null."""
        return pc.is_null(self.operand.values(rows))


def replace_invalid(texts: pa.Array) -> pa.Array:
    """Return strings with U+FFFD for bytes that are not UTF-8, as Java decodes strings of files."""
    data = texts.cast(pa.binary())
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if it is None else it.decode(errors="replace") for it in data.to_pylist()]
        return pa.array(decoded, pa.string())


@dataclass(frozen=True, slots=True)
class Likeness:
    """A text LIKE or RLIKE a pattern, which ``regex`` translates for RE2; ``None``: it is NULL."""

    operand: Operand
    word: Literal["LIKE", "RLIKE"]
    pattern: Constant
    regex: str | None
    escape: str = "\\"

    @property
    def sql(self) -> str:
        """Return operand and pattern, with its escape character unless it is a backslash."""
        text = f"{self.operand.sql} {self.word} {self.pattern.sql}"
        if self.escape == "\\":
            return text
        return f"{text} ESCAPE {Constant('string', self.escape).sql}"

    def evaluate(self, rows: Rows) -> pa.Array:
        """Return null where the text or the pattern is null."""
        if self.regex is None:
            return repeat(None, rows.num_rows)
        return pc.match_substring_regex(replace_invalid(self.operand.values(rows)), self.regex)


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
        case Comparison(operand=Column() as column, operator="=" | "<=>"):
            yield column, [term.constant]
        case Membership(operand=Column() as column):
            yield column, term.constants
