"""The parser's side of predicates: text to tree, and what to say of trees nobody can answer."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from deltactl.errors import PredicateError

# Each level costs the parser a dozen frames of the stack; no person writes as many.
_MAX_DEPTH: Final = 40
# Explaining costs as much as parsing, and recurses.
_MAX_EXPLAINED: Final = 80

_OPENING: Final = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING: Final = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIXES: Final = {TokenType.NOT, TokenType.DASH, TokenType.PLUS}

QUOTING_HINT: Final = (
    "As in Spark, strings stand in single or double quotes, and names that are keywords or hold "
    "special characters in backticks: `order date` >= '2024-01-31'."
)
FORMS_HINT: Final = (
    "Compare partition columns with literals by =, !=, <, <=, >, >=, <=>, IN, BETWEEN, LIKE or "
    "IS NULL, and join such conditions by AND, OR and NOT."
)


def parse_condition(text: str) -> Any:
    """The parser's tree of one condition.

    Raises:
        PredicateError: this is not one condition, or one nested too deeply.
    """
    _ensure_one_shallow_condition(text)
    try:
        return sqlglot.parse_one(text, into=exp.Condition, dialect="spark")
    except ParseError as error:
        where = next((e for e in error.errors if e.get("highlight")), None)
        near = f" near {where['highlight'][:80]!r}" if where else ""
        raise PredicateError(f"the predicate is not valid SQL{near}", hint=QUOTING_HINT) from None


def _ensure_one_shallow_condition(text: str) -> None:
    # The words come without recursion; the parser recurses.
    try:
        kinds = [token.token_type for token in sqlglot.tokenize(text, dialect="spark")]
    except SqlglotError:
        raise PredicateError(
            "the predicate holds a quote or comment that does not end", hint=QUOTING_HINT
        ) from None
    if not kinds:
        raise PredicateError("the predicate is empty", hint=FORMS_HINT)
    if TokenType.SEMICOLON in kinds:
        raise PredicateError("a predicate is one condition, without semicolons")
    depth = prefixes = 0
    for kind in kinds:
        depth = max(0, depth + (kind in _OPENING) - (kind in _CLOSING))
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if depth + prefixes > _MAX_DEPTH:
            raise too_deep()


def too_deep() -> PredicateError:
    """The error for what would exhaust the stack."""
    return PredicateError(
        f"the predicate is nested more than {_MAX_DEPTH} levels deep", hint="Use IN for lists."
    )


def strip_parentheses(node: Any) -> Any:
    """The node without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def spell_name(name: str) -> str:
    """The name as SQL takes it: in backticks unless it is a plain word."""
    if name.isidentifier() and name.isascii():
        tokens = sqlglot.tokenize(name, dialect="spark")
        if len(tokens) == 1 and tokens[0].token_type == TokenType.VAR:
            return name
    return "`" + name.replace("`", "``") + "`"


def refuse(node: Any) -> PredicateError:
    """The error for something that predicates do not have."""
    arithmetic = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.DPipe)
    if isinstance(node, exp.Query | exp.Exists):
        return PredicateError(f"a predicate has no subqueries{quote_node(node)}", hint=FORMS_HINT)
    if isinstance(node, arithmetic):
        return PredicateError(
            f"a predicate has no arithmetic{quote_node(node)}",
            hint="Dates are quoted: '2024-01-31'; other values are written out.",
        )
    if isinstance(node, exp.Concat):
        return PredicateError(
            f"strings side by side are ambiguous{quote_node(node)}",
            hint="A quote inside a string is written \\'.",
        )
    if isinstance(node, exp.Func):
        return PredicateError(
            f"a predicate has no functions{quote_node(node)}",
            hint="Compare the column itself: date >= '2024-01-01' AND date < '2025-01-01'.",
        )
    return PredicateError(
        f"the predicate holds what is not supported{quote_node(node)}", hint=FORMS_HINT
    )


def quote_node(node: Any) -> str:
    """The node's SQL behind a colon, where it is short."""
    if next(islice(node.walk(), _MAX_EXPLAINED, None), None) is not None:
        return ""
    text = node.sql(dialect="spark")
    return f": {text if len(text) <= _MAX_EXPLAINED else text[:_MAX_EXPLAINED] + '...'}"
