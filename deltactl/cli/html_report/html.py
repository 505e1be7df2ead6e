"""Write HTML with untrusted text from tables: all text that is not ``Markup`` is escaped."""

from __future__ import annotations

from html import escape
from typing import Final

from deltactl.cli.output.text import fit_width, safe_text

_LONGEST_TEXT: Final = 300
"""The maximum width of a text: names and values in a table may have any length."""
_VOID: Final = frozenset({"br", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Markup | str | int


def element(tag: str, *children: Child, **attributes: str | int | None) -> Markup:
    """Return an element; attributes that are ``None`` are left out.

    ``_`` in the name of an attribute becomes ``-``; at its end it is removed (``class_``).
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(safe_text(str(value)))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = join(*children)
    return Markup(f"<{tag}{given}>" if tag in _VOID else f"<{tag}{given}>{inner}</{tag}>")


def join(*children: Child) -> Markup:
    """Return markup and texts joined, the texts escaped."""
    parts = (it if isinstance(it, Markup) else escape(safe_text(str(it))) for it in children)
    return Markup("".join(parts))


def foreign(text: str) -> Markup:
    """Return a text of the table, isolated: right-to-left text must not reorder the page."""
    return element("bdi", fit_width(safe_text(text), _LONGEST_TEXT))
