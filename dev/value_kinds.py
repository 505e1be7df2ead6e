"""Find the kind of value of an option or argument from its placeholder, for completions."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from deltactl.cli.help import ArgumentDoc
from deltactl.cli.options.declared import Declared
from deltactl.codes import load_codes


class ValueKind(StrEnum):
    """Kinds of values that a shell can offer."""

    NOTHING = "nothing"
    CHOICES = "choices"
    FILES = "files"
    DIRECTORIES = "directories"
    COLUMNS = "columns"
    """Partition columns of the table on the command line."""
    DATA_COLUMNS = "data-columns"
    """The other columns, if they are not nested."""
    PROPERTIES = "properties"
    """Known table properties, and properties of the table on the command line."""


DYNAMIC: Final = (ValueKind.COLUMNS, ValueKind.DATA_COLUMNS, ValueKind.PROPERTIES)
"""Kinds that ``deltactl complete`` completes."""

_KINDS: Final = {
    "COLUMNS": ValueKind.DATA_COLUMNS,
    "DIR": ValueKind.DIRECTORIES,
    "FILE": ValueKind.FILES,
    "PARTITION": ValueKind.COLUMNS,
    "PROPERTY=VALUE": ValueKind.PROPERTIES,
    "SOURCE": ValueKind.DIRECTORIES,
    "SQL": ValueKind.COLUMNS,
    "TABLE": ValueKind.DIRECTORIES,
    "TARGET": ValueKind.DIRECTORIES,
    "TABLE...": ValueKind.DIRECTORIES,
    "URI": ValueKind.DIRECTORIES,
}


def kind_of(doc: Declared | ArgumentDoc) -> ValueKind:
    """Return the kind of value for a placeholder."""
    if choices_of(doc):
        return ValueKind.CHOICES
    return _KINDS.get(doc.placeholder, ValueKind.NOTHING)


def choices_of(doc: Declared | ArgumentDoc) -> tuple[str, ...]:
    """Return all values, if they can be listed."""
    if doc.placeholder == "CODE":
        return tuple(name for name, code in load_codes().items() if not code.printed_by)
    return doc.choices if isinstance(doc, Declared) else ()
