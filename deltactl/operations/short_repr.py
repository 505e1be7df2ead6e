"""Represent a report in one short line: a report may have a row for each file of a table."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import fields
from operator import attrgetter
from typing import Any, ClassVar


class ShortRepr:
    """A dataclass whose ``repr`` has its numbers and texts, and the lengths of collections."""

    __slots__ = ()
    # Attributes that are always shown, such as "plan.files.num_rows".
    _SHOWN: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        """Return the class, the attributes of ``_SHOWN``, and fields that are no defaults."""
        shown = {name: _describe(attrgetter(name)(self)) or "<0>" for name in self._SHOWN}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            if value is not each.default and (text := _describe(value)):
                shown[each.name] = text
        return f"{type(self).__name__}({', '.join(f'{n}={text}' for n, text in shown.items())})"


def _describe(value: Any) -> str | None:
    """Return a value as text; ``None``: leave it out."""
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else f"{value[:77]}...")
    if isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, tuple) and 0 < len(value) <= 3 and isinstance(value[0], int):
        return repr(value)
    if isinstance(value, Sized) and len(value):
        return f"<{len(value):,}>"
    return None
