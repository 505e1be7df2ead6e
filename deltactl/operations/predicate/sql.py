"""Parse SQL text to a tree, and build the errors for unsupported trees."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError, SqlglotError

from deltactl.errors import PredicateError

# Each level takes a dozen stack frames of the parser; predicates written by people are shallower.
_MAX_DEPTH: Final = 40
# Rendering SQL for a message costs as much as parsing, and recurses.
_MAX_EXPLAINED: Final = 80

_OPENING: Final = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING: Final = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIXES: Final = {TokenType.NOT, TokenType.DASH, TokenType.PLUS}

QUOTING_HINT: Final = (
    "Write strings in single or double quotes. Write names that are keywords or have special "
    "characters in backticks: `order date` >= '2024-01-31'."
)
FORMS_HINT: Final = (
    "Compare partition columns with literals by =, !=, <, <=, >, >=, <=>, IN, BETWEEN, LIKE or "
    "IS NULL. Join such conditions by AND, OR and NOT."
)


def parse_condition(text: str) -> Any:
    """Return the parser's tree of one condition.

    Raises:
        PredicateError: it is not one condition, or is nested too deeply.
    """
    _ensure_one_shallow_condition(text)
    try:
        return sqlglot.parse_one(text, into=exp.Condition, dialect="spark")
    except ParseError as error:
        where = next((e for e in error.errors if e.get("highlight")), None)
        near = f" near {where['highlight'][:80]!r}" if where else ""
        raise PredicateError(f"the predicate is not valid SQL{near}", hint=QUOTING_HINT) from None


def _ensure_one_shallow_condition(text: str) -> None:
    # The tokenizer does not recurse; the parser does.
    try:
        kinds = [token.token_type for token in sqlglot.tokenize(text, dialect="spark")]
    except SqlglotError:
        raise PredicateError(
            "the predicate contains an unterminated quote or comment", hint=QUOTING_HINT
        ) from None
    if not kinds:
        raise PredicateError("the predicate is empty", hint=FORMS_HINT)
    if TokenType.SEMICOLON in kinds:
        raise PredicateError(
            "the predicate contains a semicolon", hint="Give one condition, without semicolons."
        )
    depth = prefixes = 0
    for kind in kinds:
        depth = max(0, depth + (kind in _OPENING) - (kind in _CLOSING))
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if depth + prefixes > _MAX_DEPTH:
            raise too_deep()


def too_deep() -> PredicateError:
    """Return the error for a predicate that would exhaust the stack."""
    return PredicateError(
        f"the predicate is nested more than {_MAX_DEPTH} levels deep",
        hint="Use IN for lists of values.",
    )


def strip_parentheses(node: Any) -> Any:
    """Return the node without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def spell_name(name: str) -> str:
    """Return the name in SQL: in backticks unless it is a plain word."""
    if name.isidentifier() and name.isascii():
        tokens = sqlglot.tokenize(name, dialect="spark")
        if len(tokens) == 1 and tokens[0].token_type == TokenType.VAR:
            return name
    return "`" + name.replace("`", "``") + "`"


def refuse(node: Any) -> PredicateError:
    """Return the error for unsupported syntax."""
    arithmetic = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.DPipe)
    if isinstance(node, exp.Query | exp.Exists):
        return PredicateError(
            f"predicates cannot contain subqueries{quote_node(node)}", hint=FORMS_HINT
        )
    if isinstance(node, arithmetic):
        return PredicateError(
            f"predicates cannot contain arithmetic{quote_node(node)}",
            hint="Quote dates: '2024-01-31'; write other values as literals.",
        )
    if isinstance(node, exp.Concat):
        return PredicateError(
            f"there is no operator between two strings{quote_node(node)}",
            hint="Write a quote inside a string as \\'.",
        )
    if isinstance(node, exp.Func):
        return PredicateError(
            f"predicates cannot contain functions{quote_node(node)}",
            hint="Compare the column itself: date >= '2024-01-01' AND date < '2025-01-01'.",
        )
    return PredicateError(
        f"the predicate contains unsupported syntax{quote_node(node)}", hint=FORMS_HINT
    )


def quote_node(node: Any) -> str:
    """Return a colon and the node's SQL, truncated."""
    if next(islice(node.walk(), _MAX_EXPLAINED, None), None) is not None:
        return ""
    text = node.sql(dialect="spark")
    return f": {text if len(text) <= _MAX_EXPLAINED else text[:_MAX_EXPLAINED] + '...'}"
