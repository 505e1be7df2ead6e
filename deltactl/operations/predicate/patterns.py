"""Translate the patterns of LIKE, and regular expressions of Java, to those of RE2."""

from __future__ import annotations

import re
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import PredicateError
from deltactl.operations.predicate.functions import as_text
from deltactl.operations.predicate.literals import Constant
from deltactl.operations.predicate.terms import Likeness, Operand

_LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"
_SPACE: Final = r"\t\n\x{b}\f\r "
# What means the same in both, or is translated; ``$`` only where nothing can follow.
_TOKEN: Final = re.compile(
    r"(?P<end>\$(?=\||\)|$))|(?P<dot>\.)|(?P<space>\\s)|(?P<same>\\[dDwW]|\\[^\w\s]|\(\?:|\((?!\?)|[)|^]|"
    r"[*+?](?![+])\??|\{[0-9]{1,3}(?:,[0-9]{0,3})?\}(?![+])\??|[^\\.$()\[\]{}|^*+?])|"
    r"(?P<set>\[\^?(?:[^\\\[\]^&]|\\[dDwW]|\\[^\w\s])+\])",
    re.DOTALL,
)


def build_pattern(
    operand: Operand, word: Literal["LIKE", "RLIKE"], pattern: Constant, escape: str = "\\"
) -> Likeness:
    """Return LIKE or RLIKE as a term.

    Raises:
        PredicateError: the pattern is invalid, or the operand has no canonical string form.
    """
    text = as_text(operand, word)
    if pattern.text is None:
        return Likeness(text, word, pattern, None, escape)
    if pattern.kind != "string":
        raise PredicateError(f"{word} takes a string, not {pattern.sql}")
    is_like = word == "LIKE"
    regex = _translate_like(pattern.text, escape) if is_like else _translate_java(pattern.text)
    try:
        pc.match_substring_regex(pa.array([], pa.string()), regex)
    except pa.ArrowInvalid as error:
        if is_like:
            raise PredicateError("the pattern of LIKE is too long") from error
        raise _unsupported(pattern.text) from error
    return Likeness(text, word, pattern, regex, escape)


def _translate_like(pattern: str, escape: str) -> str:
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
    return rf"(?s)\A{''.join(parts)}\z"


def _translate_java(pattern: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            raise _unsupported(pattern)
        position = match.end()
        by_kind = {
            "end": rf"(?:\r\n|[{_LINE_ENDS}])?\z",
            "dot": f"[^{_LINE_ENDS}]",
            "space": f"[{_SPACE}]",
        }
        parts.append(by_kind.get(match.lastgroup or "", match[0]))
    return "".join(parts)


def _unsupported(pattern: str) -> PredicateError:
    return PredicateError(
        f"the regular expression {pattern[:80]!r} contains syntax that deltactl does not evaluate "
        "as Java does",
        hint="Use characters, sets, groups, |, ^, $, ., *, +, ?, {n,m}, \\d, \\w and \\s; "
        "or LIKE, with UPPER or LOWER to ignore the case.",
    )
