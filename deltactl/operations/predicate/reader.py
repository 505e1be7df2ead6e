"""Convert the parser's tree to terms over the columns of one table.

Unsupported syntax is refused, and the error shows it: a predicate is never applied partially.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from deltactl.errors import PredicateError
from deltactl.operations.predicate.literals import (
    Constant,
    LiteralKind,
    comparable,
    describe_type,
    fit_constant,
)
from deltactl.operations.predicate.sql import (
    FORMS_HINT,
    QUOTING_HINT,
    quote_node,
    refuse,
    spell_name,
    strip_parentheses,
)
from deltactl.operations.predicate.terms import (
    Column,
    Comparison,
    Junction,
    Membership,
    Negation,
    NullTest,
    Operator,
    Term,
    Truth,
    build_likeness,
)
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partition_texts import text_parser
from deltactl.protocol.schema import StructType

_OPERATORS: Final[Mapping[type[Any], Operator]] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_FLIPPED: Final[Mapping[Operator, Operator]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TRUE: Final = Constant("boolean", "true")
_FALSE: Final = Constant("boolean", "false")

# Types that literals can be cast to: the resulting kind of literal, and the type that checks it.
_CASTS: Final[Mapping[str, tuple[LiteralKind, pa.DataType]]] = {
    "TEXT": ("string", pa.string()),
    "VARCHAR": ("string", pa.string()),
    "CHAR": ("string", pa.string()),
    "TINYINT": ("number", pa.int8()),
    "SMALLINT": ("number", pa.int16()),
    "INT": ("number", pa.int32()),
    "BIGINT": ("number", pa.int64()),
    "FLOAT": ("number", pa.float32()),
    "DOUBLE": ("number", pa.float64()),
    "BOOLEAN": ("boolean", pa.bool_()),
    "DATE": ("date", pa.date32()),
    "TIMESTAMP": ("timestamp", pa.timestamp("us", "UTC")),
    "TIMESTAMPTZ": ("timestamp", pa.timestamp("us", "UTC")),
    "TIMESTAMPLTZ": ("timestamp", pa.timestamp("us", "UTC")),
    "TIMESTAMPNTZ": ("timestamp_ntz", pa.timestamp("us")),
}


class PredicateReader:
    """Convert the tree of the parser to terms over the columns of one table."""

    def __init__(self, partition_columns: StructType) -> None:
        self.columns: dict[str, Column] = {}
        self._fields = partition_columns
        self._readers: Mapping[type[Any], Callable[[Any], Term]] = {
            exp.Paren: lambda node: self.read(node.this),
            exp.And: lambda node: Junction("AND", self._read_chain(node)),
            exp.Or: lambda node: Junction("OR", self._read_chain(node)),
            exp.Not: lambda node: Negation(self.read(node.this)),
            exp.Boolean: lambda node: Truth(bool(node.this)),
            exp.Null: lambda _: Truth(None),
            exp.Column: self._read_flag,
            exp.NullSafeNEQ: lambda node: Negation(self._read_comparison(node)),
            exp.Is: self._read_is,
            exp.In: self._read_in,
            exp.Between: self._read_between,
            exp.Like: self._read_like,
            exp.Escape: self._read_like,
        } | dict.fromkeys(_OPERATORS, self._read_comparison)

    def read(self, node: Any) -> Term:
        """Return a condition as a term.

        Raises:
            PredicateError: it contains something unsupported.
        """
        reader = self._readers.get(type(node))
        if reader is None:
            raise refuse(node)
        term = reader(node)
        return Negation(term) if node.args.get("negate") else term

    def _read_chain(self, node: Any) -> tuple[Term, ...]:
        """Return the members of ``a AND b AND c`` without recursion: there may be thousands."""
        kind, terms, stack = type(node), [], [node]
        while stack:
            member = stack.pop()
            if type(member) is kind:
                stack += [member.expression, member.this]
            else:
                terms.append(self.read(member))
        return tuple(terms)

    def _read_flag(self, node: Any) -> Term:
        column = self._column(node)
        if not pa.types.is_boolean(column.type):
            raise PredicateError(
                f"column {column.name!r} is of type {describe_type(column.type)}: only a boolean "
                "column can be a condition without a comparison",
                hint=FORMS_HINT,
            )
        return self._compare(column, "=", _TRUE)

    def _read_comparison(self, node: Any) -> Term:
        left, right = strip_parentheses(node.this), strip_parentheses(node.expression)
        operator = _OPERATORS.get(type(node), "<=>")
        if not isinstance(left, exp.Column):
            left, right, operator = right, left, _FLIPPED.get(operator, operator)
        if isinstance(left, exp.Column):
            return self._compare(self._column(left), operator, _constant(right))
        # Report the first operand that is not a literal, if any.
        _constant(right), _constant(left)
        raise PredicateError(
            f"the predicate compares two literals{quote_node(node)}",
            hint="Write a column name without quotes or in backticks: double quotes make a string.",
        )

    def _compare(self, column: Column, operator: Operator, constant: Constant) -> Term:
        value = fit_constant(constant, column.type, column.name)
        return Comparison(column, operator, constant, value)

    def _read_is(self, node: Any) -> Term:
        column, word = self._column(node.this), node.expression
        if isinstance(word, exp.Null):
            return NullTest(column)
        if isinstance(word, exp.Boolean):
            return self._compare(column, "<=>", _TRUE if word.this else _FALSE)
        raise refuse(node)

    def _read_in(self, node: Any) -> Term:
        column = self._column(node.this)
        if node.args.get("query") is not None:
            raise refuse(node.args["query"])
        if not node.expressions:
            raise PredicateError("IN needs a list of literals in parentheses", hint=FORMS_HINT)
        constants = tuple(_constant(member) for member in node.expressions)
        values = [
            fit_constant(constant, column.type, column.name)
            for constant in constants
            if constant.text is not None
        ]
        of_type = comparable(pa.array([], column.type)).type
        return Membership(column, constants, pa.array(values, of_type))

    def _read_between(self, node: Any) -> Term:
        if node.args.get("symmetric"):
            raise refuse(node)
        column = self._column(node.this)
        low, high = _constant(node.args["low"]), _constant(node.args["high"])
        bounds = self._compare(column, ">=", low), self._compare(column, "<=", high)
        return Junction("AND", bounds)

    def _read_like(self, node: Any) -> Term:
        escape = Constant("string", "\\")
        like = node
        if isinstance(node, exp.Escape):
            like, escape = node.this, _constant(node.expression)
        negated = isinstance(like, exp.Not)
        like = like.this if negated else like
        if not isinstance(like, exp.Like):
            raise refuse(node)
        if escape.kind != "string" or escape.text is None or len(escape.text) != 1:
            raise PredicateError(f"ESCAPE takes a single character, not {escape.sql[:80]}")
        term = build_likeness(self._column(like.this), _constant(like.expression), escape.text)
        # `read` takes the negation of the inner node from the outer one.
        negated ^= like is not node and bool(like.args.get("negate"))
        return Negation(term) if negated else term

    def _column(self, node: Any) -> Column:
        node = strip_parentheses(node)
        if not isinstance(node, exp.Column):
            raise refuse(node)
        # Without backticks, a name with dots is the name of a column, as in other options.
        is_path = len(node.parts) > 1 and any(part.args.get("quoted") for part in node.parts)
        name = ".".join(part.name for part in node.parts)
        found = None if is_path else self._fields.find(name)
        if found is None:
            raise self._no_partition_column(name)
        known = self.columns.get(found.name)
        if known is None:
            kind = arrow_type(found.type)
            if not pa.types.is_string(kind) and text_parser(kind) is None:
                raise PredicateError(
                    f"column {found.name!r} is of type {describe_type(kind)}, which a predicate "
                    "cannot compare"
                )
            known = Column(found.name, found.physical_name, kind, spell_name(found.name))
            self.columns[found.name] = known
        return known

    def _no_partition_column(self, name: str) -> PredicateError:
        if not self._fields.fields:
            return PredicateError(
                f"the predicate uses {name!r}, but the table is not partitioned",
                hint="Omit the predicate: the table has no partitions to select.",
            )
        names = ", ".join(spell_name(f.name) for f in self._fields.fields)
        return PredicateError(
            f"{name!r} is not a partition column; the table is partitioned by {names}",
            hint="Use only partition columns: a predicate selects whole partitions. "
            f"{QUOTING_HINT}",
        )


def _constant(node: Any) -> Constant:
    """Return a literal with its sign and casts applied."""
    node = strip_parentheses(node)
    if isinstance(node, exp.Literal):
        return Constant("string" if node.is_string else "number", str(node.this))
    if isinstance(node, exp.RawString):
        return Constant("string", str(node.this))
    if isinstance(node, exp.Null):
        return Constant("string", None)
    if isinstance(node, exp.Boolean):
        return _TRUE if node.this else _FALSE
    if isinstance(node, exp.Neg):
        return _negate(node)
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.Column):
        raise PredicateError(
            f"{node.name!r} is used where a literal is required",
            hint=f"Compare columns with literals only. {QUOTING_HINT}",
        )
    raise refuse(node)


def _negate(node: Any) -> Constant:
    inner = _constant(node.this)
    if inner.kind != "number" or inner.text is None:
        raise refuse(node)
    positive = inner.text.startswith("-")
    return Constant("number", inner.text[1:] if positive else f"-{inner.text}")


def _cast(node: Any) -> Constant:
    inner, name = _constant(node.this), node.to.this.name
    kind: LiteralKind = "number"
    if name == "DECIMAL":
        of_type = _decimal(node.to)
    elif name in _CASTS:
        kind, of_type = _CASTS[name]
    else:
        raise PredicateError(f"predicates cannot contain casts to this type{quote_node(node)}")
    if inner.text is None:
        return inner
    if kind == "string":
        return Constant(kind, inner.text)
    try:
        inner.as_value_of(of_type)
    except ValueError:
        raise PredicateError(
            f"{inner.sql[:80]} cannot be cast to {describe_type(of_type)}"
        ) from None
    return Constant(kind, inner.text.strip())


def _decimal(data_type: Any) -> pa.DataType:
    try:
        numbers = [int(parameter.name) for parameter in data_type.expressions]
        return pa.decimal128(*(numbers or [10, 0]))
    except (ValueError, TypeError):
        raise PredicateError(
            f"the predicate contains an invalid decimal type{quote_node(data_type)}",
            hint="Write DECIMAL(PRECISION, SCALE), with a precision of at most 38.",
        ) from None
