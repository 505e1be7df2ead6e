"""Convert the parser's tree to terms over the columns of one table.

Unsupported syntax is refused, and the error shows it: a predicate is never applied partially.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from deltactl.errors import PredicateError
from deltactl.operations.predicate import functions
from deltactl.operations.predicate.literals import (
    INSTANT,
    LOCAL_TIME,
    Constant,
    LiteralKind,
    comparable,
    fit_constant,
    ill_fitting,
)
from deltactl.operations.predicate.patterns import build_pattern
from deltactl.operations.predicate.sql import (
    FORMS_HINT,
    QUOTING_HINT,
    quote,
    quote_node,
    refuse,
    spell_name,
    strip_parentheses,
)
from deltactl.operations.predicate.terms import (
    Column,
    Comparison,
    Fixed,
    Junction,
    Membership,
    Negation,
    NullTest,
    Operand,
    Operator,
    Term,
    Truth,
)
from deltactl.protocol.arrow_schemas import arrow_type, describe_type
from deltactl.protocol.column_names import format_column, quote_column
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
    "TIMESTAMP": ("timestamp", INSTANT),
    "TIMESTAMPTZ": ("timestamp", INSTANT),
    "TIMESTAMPLTZ": ("timestamp", INSTANT),
    "TIMESTAMPNTZ": ("timestamp_ntz", LOCAL_TIME),
}


# The types of literals among the operands of a function.
_KINDS: Final[Mapping[LiteralKind, pa.DataType]] = {
    "string": pa.string(),
    "number": pa.int64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": LOCAL_TIME,
}
_MOMENTS: Final[tuple[LiteralKind, ...]] = ("date", "timestamp", "timestamp_ntz")
_PLAIN_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")


class PredicateReader:
    """Convert the tree of the parser to terms over the columns of one table."""

    def __init__(
        self,
        fields: StructType,
        now_ms: int | None,
        explain: Callable[[str], PredicateError] | None,
        spell: Callable[[str], str] | None,
    ) -> None:
        self.columns: dict[str, Column] = {}
        self._fields, self._now_ms, self._spell = fields, now_ms, spell or spell_name
        self._explain = explain or self._no_partition_column
        self._functions: Mapping[type[Any], Callable[[Any], Operand | Constant | None]] = {
            exp.Cast: self._read_cast,
            exp.TryCast: self._read_cast,
            exp.TsOrDsToDate: lambda node: functions.cast(self._operand(node.this), pa.date32()),
            exp.Year: lambda node: functions.date_part("YEAR", self._operand(node.this)),
            exp.Month: lambda node: functions.date_part("MONTH", self._operand(node.this)),
            exp.Day: lambda node: functions.date_part("DAY", self._operand(node.this)),
            exp.DayOfMonth: lambda node: functions.date_part("DAY", self._operand(node.this)),
            exp.Upper: lambda node: functions.change_case("UPPER", self._operand(node.this)),
            exp.Lower: lambda node: functions.change_case("LOWER", self._operand(node.this)),
            exp.Coalesce: lambda node: functions.coalesce(
                [self._value(it) for it in (node.this, *node.expressions)]
            ),
            exp.TsOrDsAdd: self._read_date_add,
            exp.AddMonths: self._read_add_months,
            exp.Add: lambda node: self._read_sum(node, 1),
            exp.Sub: lambda node: self._read_sum(node, -1),
            exp.CurrentDate: lambda _: self._now("date"),
            exp.CurrentTimestamp: lambda _: self._now("timestamp"),
            exp.Anonymous: self._read_anonymous,
        }
        self._readers: Mapping[type[Any], Callable[[Any], Term]] = {
            exp.Paren: lambda node: self.read(node.this),
            exp.And: lambda node: Junction("AND", self._read_chain(node)),
            exp.Or: lambda node: Junction("OR", self._read_chain(node)),
            exp.Not: lambda node: Negation(self.read(node.this)),
            exp.Boolean: lambda node: Truth(bool(node.this)),
            exp.Null: lambda _: Truth(None),
            exp.Column: self._read_flag,
            exp.Coalesce: self._read_flag,
            exp.RegexpLike: self._read_rlike,
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
        operand = self._tested(node)
        if not pa.types.is_boolean(operand.type):
            raise PredicateError(
                f"{operand.described} is of type {describe_type(operand.type)}: only a boolean "
                "column can be a condition without a comparison",
                hint=FORMS_HINT,
            )
        return self._compare(operand, "=", node, _TRUE)

    def _read_comparison(self, node: Any) -> Term:
        left, right = node.this, node.expression
        operator = _OPERATORS.get(type(node), "<=>")
        value = self._value(left)
        if isinstance(value, Constant):
            left, right, operator = right, left, _FLIPPED.get(operator, operator)
            value = self._value(left)
        if isinstance(value, Constant):
            raise PredicateError(
                f"the predicate compares two literals{quote_node(node)}",
                hint="Write a column name without quotes or in backticks: double quotes make a "
                "string.",
            )
        return self._compare(value, operator, right)

    def _compare(
        self, operand: Operand, operator: Operator, node: Any, constant: Constant | None = None
    ) -> Comparison:
        """Return a comparison with a literal: that of ``node``, unless one is given."""
        constant = constant or self._constant(node)
        try:
            value, side = fit_constant(constant, operand.type)
        except ValueError:
            said = quote(node) or constant.sql
            raise ill_fitting(said, operand.described, operand.type) from None
        return Comparison(operand, operator, constant, value, side)

    def _read_is(self, node: Any) -> Term:
        operand, word = self._tested(node.this), node.expression
        if isinstance(word, exp.Null):
            return NullTest(operand)
        if isinstance(word, exp.Boolean):
            return self._compare(operand, "<=>", word)
        raise refuse(node)

    def _read_in(self, node: Any) -> Term:
        operand = self._tested(node.this)
        if node.args.get("query") is not None:
            raise refuse(node.args["query"])
        if not node.expressions:
            raise PredicateError("IN needs a list of literals in parentheses", hint=FORMS_HINT)
        constants = [self._constant(member) for member in node.expressions]
        kinds = {it.kind for it in constants}
        if moment := next((it for it in _MOMENTS[1:] if it in kinds), None):
            # Spark gives the list one type. A DATE ignores the time of a string, others do not.
            constants = [
                Constant(moment, it.text) if it.kind == "string" else it for it in constants
            ]
        pairs = zip(node.expressions, constants, strict=True)
        terms = [self._compare(operand, "=", *pair) for pair in pairs]
        values = [it.value for it in terms if it.side == "at" and it.constant.text is not None]
        of_type = comparable(pa.array([], operand.type)).type
        return Membership(operand, tuple(constants), pa.array(values, of_type))

    def _read_between(self, node: Any) -> Term:
        if node.args.get("symmetric"):
            raise refuse(node)
        operand = self._tested(node.this)
        low = self._compare(operand, ">=", node.args["low"])
        return Junction("AND", (low, self._compare(operand, "<=", node.args["high"])))

    def _read_like(self, node: Any) -> Term:
        escape = Constant("string", "\\")
        like = node
        if isinstance(node, exp.Escape):
            like, escape = node.this, self._constant(node.expression)
        negated = isinstance(like, exp.Not)
        like = like.this if negated else like
        if not isinstance(like, exp.Like):
            raise refuse(node)
        if escape.kind != "string" or escape.text is None or len(escape.text) != 1:
            raise PredicateError(f"ESCAPE takes a single character, not {escape.sql[:80]}")
        tested, pattern = self._tested(like.this), self._constant(like.expression)
        term = build_pattern(tested, "LIKE", pattern, escape.text)
        # `read` takes the negation of the inner node from the outer one.
        negated ^= like is not node and bool(like.args.get("negate"))
        return Negation(term) if negated else term

    def _read_rlike(self, node: Any) -> Term:
        if node.args.get("flag") is not None:
            raise refuse(node)
        return build_pattern(self._tested(node.this), "RLIKE", self._constant(node.expression))

    def _value(self, node: Any) -> Operand | Constant:
        """Return a column, a function of one, or a literal."""
        node = strip_parentheses(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if (literal := _literal(node)) is not None:
            return literal
        read = self._functions.get(type(node))
        found = None if read is None else read(node)
        if found is None:
            raise refuse(node)
        return found if isinstance(found, Constant) else functions.fold(found)

    def _tested(self, node: Any) -> Operand:
        """Return what a condition tests: not a literal."""
        value = self._value(node)
        if isinstance(value, Constant):
            raise refuse(node)
        return value

    def _constant(self, node: Any) -> Constant:
        """Return a literal, or a function of literals."""
        value = self._value(node)
        if isinstance(value, Constant):
            return value
        raise PredicateError(
            f"{(value.name if isinstance(value, Column) else quote(node))!r} is used where a "
            "literal is required",
            hint=f"Compare columns with literals only. {QUOTING_HINT}",
        )

    def _operand(self, node: Any) -> Operand:
        """Return the operand of a function; a literal has the type of its own kind."""
        value = self._value(node)
        if not isinstance(value, Constant):
            return value
        kind = _KINDS[value.kind]
        try:
            return Fixed(value.sql, kind, pa.scalar(value.as_value_of(kind), kind))
        except ValueError:
            raise refuse(node) from None

    def _read_cast(self, node: Any) -> Operand | Constant:
        value, name = self._value(node.this), node.to.this.name
        is_moment = name == "DATE" or name.startswith("TIMESTAMP")
        if isinstance(value, Constant) and not (is_moment and value.kind in _MOMENTS):
            return _cast(node, value)
        if name not in _CASTS:
            raise _no_cast(node)
        return functions.cast(self._operand(node.this), _CASTS[name][1])

    def _read_date_add(self, node: Any) -> Operand | None:
        days, sign = node.expression, 1
        if isinstance(days, exp.Mul):  # this is how the parser reads DATE_SUB
            days, sign = days.this, -1
        count = self._integer(days)
        return None if count is None else functions.add_days(self._operand(node.this), sign * count)

    def _read_add_months(self, node: Any) -> Operand | None:
        count = self._integer(node.expression)
        date = functions.cast(self._operand(node.this), pa.date32())
        return None if count is None else functions.shift(date, count, 0)

    def _integer(self, node: Any) -> int | None:
        value = self._value(node)
        if not isinstance(value, Constant):
            return None
        try:
            return int(str(value.as_value_of(pa.int32())))
        except ValueError:
            return None

    def _read_sum(self, node: Any, sign: int) -> Operand | None:
        left, right = node.this, node.expression
        if sign == 1 and _find_interval(left) is not None:
            left, right = right, left
        interval = _find_interval(right)
        operand = None if isinstance(left, exp.Literal) else self._operand(left)
        if operand is None or interval is None:
            is_number = operand is not None and not isinstance(right, exp.Interval)
            days = self._integer(right) if is_number else None
            if operand is None or days is None or not pa.types.is_date(operand.type):
                return None
            return functions.add_days(operand, sign * days)
        return functions.shift(operand, *(sign * it for it in interval))

    def _now(self, kind: LiteralKind) -> Constant | None:
        if self._now_ms is None:
            return None
        moment = pa.array([self._now_ms * 1000], INSTANT)
        text = functions.to_constant(moment).text
        return Constant(kind, text if kind == "timestamp" else str(text)[:10])

    def _read_anonymous(self, node: Any) -> Constant | None:
        is_now = node.name.lower() == "now" and not node.expressions
        return self._now("timestamp") if is_now else None

    def _column(self, node: Any) -> Column:
        # Without backticks, a name with dots is the name of a column, as in other options.
        names = [part.name for part in node.parts]
        is_path = len(names) > 1 and any(part.args.get("quoted") for part in node.parts)
        name = ".".join(names)
        found = None if is_path else self._fields.find(name)
        if found is None and self._explain != self._no_partition_column:  # may be in a struct
            found = self._fields.find(quote_column(names))
        if found is None:
            raise self._explain(format_column(names) if is_path else name)
        known = self.columns.get(found.name)
        if known is None:
            kind = arrow_type(found.type)
            if not pa.types.is_string(kind) and text_parser(kind) is None:
                raise PredicateError(
                    f"column {found.name!r} is of type {describe_type(kind)}, which a predicate "
                    "cannot compare"
                )
            known = Column(found.name, found.physical_name, kind, self._spell(found.name))
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


def _literal(node: Any) -> Constant | None:
    """Return a literal with its sign applied; ``None`` for anything else."""
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
    if isinstance(node, exp.Concat):  # strings one after another
        parts = [_literal(it) for it in node.expressions]
        texts = [it.text for it in parts if it is not None and it.kind == "string"]
        if len(texts) == len(parts):
            return Constant("string", "".join(filter(None, texts)))
    return None


def _negate(node: Any) -> Constant:
    inner = _literal(strip_parentheses(node.this))
    if inner is None or inner.kind != "number" or inner.text is None:
        raise refuse(node)
    positive = inner.text.startswith("-")
    return Constant("number", inner.text[1:] if positive else f"-{inner.text}")


def _find_interval(node: Any) -> tuple[int, int] | None:
    """Return an interval, or a sum of some, as months and microseconds; ``None``: it is none."""
    node = strip_parentheses(node)
    if isinstance(node, exp.Add):
        parts = [_find_interval(node.this), _find_interval(node.expression)]
        known = [it for it in parts if it is not None]
        return (sum(it[0] for it in known), sum(it[1] for it in known)) if len(known) == 2 else None
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    if unit is not None and not isinstance(unit, exp.Var):
        return None
    return functions.read_interval(node.this.name, None if unit is None else unit.name)


def _cast(node: Any, inner: Constant) -> Constant:
    name = node.to.this.name
    kind: LiteralKind = "number"
    if name == "DECIMAL":
        of_type = _decimal(node.to)
    elif name in _CASTS:
        kind, of_type = _CASTS[name]
    else:
        raise _no_cast(node)
    if inner.text is None:
        return inner
    text = inner.text.strip()
    if kind == "string":
        if inner.kind not in ("string", "boolean") and not _PLAIN_INTEGER.fullmatch(text):
            raise _no_cast(node)
        return Constant(kind, inner.text)
    try:
        value = inner.as_value_of(of_type)
    except ValueError:
        raise PredicateError(
            f"{quote(node.this) or inner.sql[:80]} cannot be cast to {describe_type(of_type)}"
        ) from None
    if kind == "date":
        return functions.to_constant(pa.array([value], of_type))
    if pa.types.is_float32(of_type) and text[-1].isdigit():
        text = repr(pa.scalar(value, of_type).as_py())
    return Constant(kind, text)


def _no_cast(node: Any) -> PredicateError:
    return PredicateError(f"predicates cannot contain this cast{quote_node(node)}")


def _decimal(data_type: Any) -> pa.DataType:
    try:
        numbers = [int(parameter.name) for parameter in data_type.expressions]
        return pa.decimal128(*(numbers or [10, 0]))
    except (ValueError, TypeError):
        raise PredicateError(
            f"the predicate contains an invalid decimal type{quote_node(data_type)}",
            hint="Write DECIMAL(PRECISION, SCALE), with a precision of at most 38.",
        ) from None
