"""Read and write names of columns as Delta on Spark does: ``a``, ``b.c``, ```odd.name`.d``.

Dots separate a struct and its members, commas separate columns. Inside of backticks, both are part
of a name, and two backticks mean one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from deltactl.protocol.schema import DeltaType, Field, StructType

Columns: TypeAlias = str | Sequence[str]
"""Names of columns: one each, or a text in which commas separate them."""

_PLAIN_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_COLUMN: Final = re.compile(r"(?:[^,`]|`[^`]*(?:`|$))+")


def format_column(path: Sequence[str]) -> str:
    """Return a column path as Delta on Spark writes it: unusual names are in backticks."""
    return ".".join(name if _PLAIN_NAME.fullmatch(name) else quote_column([name]) for name in path)


def quote_column(path: Sequence[str]) -> str:
    """Return a column path with all names in backticks."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def list_columns(columns: Columns) -> tuple[str, ...]:
    """Return each column as it is written, without spaces around it."""
    texts = _COLUMN.findall(columns) if isinstance(columns, str) else columns
    return tuple(text.strip() for text in texts if text.strip())


def find_column(schema: StructType, text: str) -> list[Field] | None:
    """Return the fields along the path to the column that a text names; ``None``: no column.

    A top-level column with exactly this name comes before a member of a struct: ``a.b`` is the
    column ```a.b``` if the table has it.
    """
    if "`" not in text:
        plain = schema.find(text.strip())
        if plain is not None:
            return [plain]
    return follow_path(schema, parse_column(text))


def follow_path(schema: StructType, path: Sequence[str]) -> list[Field] | None:
    """Return the fields along a path of names; ``None`` if there is no such column."""
    level: DeltaType = schema
    fields = []
    for name in path:
        field = level.find(name) if isinstance(level, StructType) else None
        if field is None:
            return None
        fields.append(field)
        level = field.type
    return fields or None


def parse_column(text: str) -> tuple[str, ...]:
    """Return the path of one column; commas outside of backticks are part of a name."""
    return _parse(text, separators=".", keep_spaces=True)[0]


def parse_column_list(text: str) -> list[tuple[str, ...]]:
    """Return the column paths of a table property; spaces that are not in backticks are dropped.

    If Delta on Spark refuses a string, the result does not match any column.
    """
    return [path for path in _parse(text, separators=".,", keep_spaces=False) if any(path)]


def _parse(text: str, *, separators: str, keep_spaces: bool) -> list[tuple[str, ...]]:
    """Return column paths. With ``keep_spaces``, only spaces around a name are dropped."""
    paths: list[tuple[str, ...]] = []
    names: list[str] = []
    name, quoted, position = "", False, 0
    is_open = True  # so far, the name has no backticks
    while position < len(text):
        character = text[position]
        position += 1
        if quoted and character == "`" and text[position : position + 1] == "`":
            name, position = name + "`", position + 1
        elif character == "`":
            name = name.strip() if is_open else name
            quoted, is_open = not quoted, False
        elif quoted:
            name += character
        elif character not in separators:
            is_kept = keep_spaces and is_open
            name += character if is_kept or not character.isspace() else ""
        else:
            names.append(name.strip() if is_open else name)
            name, is_open = "", True
            if character == ",":
                paths.append(tuple(names))
                names = []
    paths.append((*names, name.strip() if is_open else name))
    return paths
