"""Parse SQL text to a tree, and build the errors for unsupported trees."""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar, Final

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError

from deltactl.errors import PredicateError
from deltactl.protocol.column_names import quote_column

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
    "Compare columns with literals by =, !=, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, RLIKE "
    "or IS NULL. Join such conditions by AND, OR and NOT."
)
_FUNCTIONS_HINT: Final = (
    "Use only CURRENT_DATE, CURRENT_TIMESTAMP, DATE_ADD, DATE_SUB, ADD_MONTHS, YEAR, MONTH, DAY, "
    "CAST, COALESCE, UPPER, LOWER, and dates plus or minus an INTERVAL or days."
)
_SHOWN_TOKENS: Final = 40


class _Dialect(Spark):
    """Spark 4: a quote in a string may also be doubled."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


def parse_condition(text: str) -> Any:
    """Return the parser's tree of one condition.

    Raises:
        PredicateError: it is not one condition, or is nested too deeply.
    """
    _ensure_one_shallow_condition(text)
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect=_Dialect)
        tree.meta["text"] = text
        return tree
    except ParseError as error:
        where = next((e for e in error.errors if e.get("highlight")), None)
        near = f" near {where['highlight'][:80]!r}" if where else ""
        raise PredicateError(f"the predicate is not valid SQL{near}", hint=QUOTING_HINT) from None


def _ensure_one_shallow_condition(text: str) -> None:
    # The tokenizer does not recurse; the parser does.
    try:
        kinds = [token.token_type for token in sqlglot.tokenize(text, dialect=_Dialect)]
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
    return quote_column([name])


def refuse(node: Any) -> PredicateError:
    """Return the error for unsupported syntax."""
    arithmetic = (
        exp.Interval,
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.Mod,
        exp.IntDiv,
        exp.Neg,
        exp.DPipe,
    )
    if isinstance(node, exp.Query | exp.Exists):
        return PredicateError(
            f"predicates cannot contain subqueries{quote_node(node)}", hint=FORMS_HINT
        )
    if isinstance(node, arithmetic):
        return PredicateError(
            f"predicates cannot contain this arithmetic{quote_node(node)}",
            hint="Quote dates: '2024-01-31'. Only dates and timestamps may have an INTERVAL added.",
        )
    if isinstance(node, exp.Func):
        return PredicateError(
            f"predicates cannot contain this function{quote_node(node)}", hint=_FUNCTIONS_HINT
        )
    return PredicateError(
        f"the predicate contains unsupported syntax{quote_node(node)}", hint=FORMS_HINT
    )


def quote_node(node: Any) -> str:
    """Return a colon and the node as the user wrote it, truncated."""
    text = quote(node)
    return f": {text}" if text else ""


def quote(node: Any) -> str:
    """Return the node as the user wrote it, truncated; empty if it is too long to render."""
    if next(islice(node.walk(), _MAX_EXPLAINED, None), None) is not None:
        return ""
    text = _find_source(node) or node.sql(dialect="spark")
    return text if len(text) <= _MAX_EXPLAINED else text[:_MAX_EXPLAINED] + "..."


def _find_source(node: Any) -> str | None:
    """Return the part of the text that parses to the node; ``None``: the text is long."""
    text, wanted = node.root().meta.get("text", ""), node.sql(dialect="spark")
    tokens = sqlglot.tokenize(text, dialect=_Dialect)
    if len(tokens) > _SHOWN_TOKENS:
        return None
    for length in range(1, len(tokens) + 1):
        for first, last in zip(tokens, tokens[length - 1 :], strict=False):
            part = text[first.start : last.end + 1]
            if part.count("(") != part.count(")"):
                continue
            try:
                found = sqlglot.parse_one(part, into=exp.Condition, dialect=_Dialect)
            except SqlglotError:
                continue
            if found.sql(dialect="spark") == wanted:
                return str(part)
    return None
