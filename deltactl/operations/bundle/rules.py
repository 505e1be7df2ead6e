"""Define which values a bundle keeps; a value without a rule is replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from typing import Any, Final, TypeAlias

from deltactl.log.commits.info import parse_json_line
from deltactl.operations.bundle.pseudonyms import Pseudonyms

Rule: TypeAlias = Callable[[Pseudonyms, Any], Any]
"""``rule(names, value) -> value``: the result contains no text of the table."""

MOST_DIGITS: Final = 20
_COUNT: Final = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")
_FEATURE: Final = re.compile(r"[A-Za-z][A-Za-z0-9.-]{0,63}")
# Units are listed: any word after a number could be a password.
_UNIT: Final = (
    r"us|ms|s|m|min|h|d|w|(?:(?:micro|milli)?second|minute|hour|day|week|month|year)s?"
    r"|b|[kmgt]i?b?|bytes?"
)
_DURATION: Final = re.compile(
    rf"(?:interval )?[0-9]{{1,12}}(?:\.[0-9]{{1,6}})? ?(?:{_UNIT})?|true|false", re.IGNORECASE
)


def hide(names: Pseudonyms, value: Any) -> Any:
    """Replace a value."""
    return names.hide(value)


def name(names: Pseudonyms, value: Any) -> Any:
    """Replace a name, unless names are kept."""
    return names.name(value)


def columns(names: Pseudonyms, value: Any) -> Any:
    """Replace the names in a list of partition columns, unless names are kept."""
    names.learn_columns(value if isinstance(value, list) else ())
    return items(name)(names, value)


def path(names: Pseudonyms, value: Any) -> Any:
    """Replace the parts of a path."""
    return names.path(value)


def prose(names: Pseudonyms, value: Any) -> Any:
    """Keep words of the program in a message."""
    return names.prose(value)


def number(names: Pseudonyms, value: Any) -> Any:
    """Keep a whole number, a truth value or null."""
    return value if value is None or isinstance(value, bool | int) else names.hide(value)


def own(names: Pseudonyms, value: Any) -> Any:
    """Keep a value that the program wrote, such as a code or a time."""
    return value


def count_text(names: Pseudonyms, value: Any) -> Any:
    """Keep a whole number, also one written as text, and a truth value."""
    if isinstance(value, str) and (_COUNT.fullmatch(value) or value in ("true", "false")):
        return value
    return number(names, value)


def setting(names: Pseudonyms, value: Any) -> Any:
    """Keep a number, a size, a duration or a truth value."""
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return value
    return number(names, value)


def feature(names: Pseudonyms, value: Any) -> Any:
    """Keep the name of a table feature."""
    return value if isinstance(value, str) and _FEATURE.fullmatch(value) else names.hide(value)


def one_of(*known: str) -> Rule:
    """Keep one of the texts that the protocol or a writer defines."""
    return lambda names, value: (
        value if isinstance(value, str) and value in known else number(names, value)
    )


def like(pattern: str) -> Rule:
    """Keep a text of this form."""
    form = re.compile(pattern)
    return lambda names, value: (
        value
        if value is None or (isinstance(value, str) and form.fullmatch(value))
        else names.hide(value)
    )


def items(rule: Rule) -> Rule:
    """Apply a rule to each item of a list."""
    return lambda names, value: (
        [rule(names, item) for item in value] if isinstance(value, list) else names.hide(value)
    )


def members(rules: Mapping[str, Rule], *, other: Rule = hide, key: Rule = hide) -> Rule:
    """Apply the rule of its name to each field; apply ``other`` and ``key`` to unknown fields."""

    def apply(names: Pseudonyms, value: Any) -> Any:
        if not isinstance(value, dict):
            return names.hide(value)
        return {
            (it if it in rules else str(key(names, it))): rules.get(it, other)(names, content)
            for it, content in value.items()
        }

    return apply


def keyed(key: Rule, value: Rule) -> Rule:
    """Apply rules to all keys and all values of a map."""
    return members({}, other=value, key=key)


def inside_text(rule: Rule) -> Rule:
    """Apply a rule to the JSON in a text; text that is not JSON is replaced."""

    def apply(names: Pseudonyms, value: Any) -> Any:
        if not isinstance(value, str):
            return names.hide(value)
        try:
            return json.dumps(rule(names, parse_json_line(value.encode())))
        except (ValueError, RecursionError):
            return names.hide(value)

    return apply


def known_keys(known: Set[str], value: Rule) -> Rule:
    """Keep these keys, and apply the rule to their values; anything else is replaced."""
    return members(dict.fromkeys(known, value), key=name)
