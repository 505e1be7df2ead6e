"""Represent a report in one short line: a report may have a row for each file of a table."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import fields
from typing import Any


class ShortRepr:
    """A dataclass whose ``repr`` has its numbers and texts, and the lengths of its collections."""

    __slots__ = ()

    def _counts(self) -> dict[str, int]:
        """Return the result in numbers that are in no field of their own."""
        return {}

    def __repr__(self) -> str:
        """Return the class, its numbers, and the fields that differ from their defaults."""
        values = {
            each.name: value
            for each in fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, each.name)) is not each.default
        }
        pairs = [*self._counts().items(), *values.items()]
        shown = (f"{name}={text}" for name, value in pairs if (text := _describe(value)))
        return f"{type(self).__name__}({', '.join(shown)})"


def _describe(value: Any) -> str | None:
    """Return a value as text; ``None``: leave it out."""
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else f"{value[:77]}...")
    if isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, Sized) and len(value):
        return f"<{len(value):,}>"
    return None
