"""HTML in which nothing that a table says can act: what is not markup by its type is escaped."""

from __future__ import annotations

from html import escape
from typing import Final

from deltactl.cli.output.text import fit_width, safe_text

_LONGEST_TEXT: Final = 300
"""Columns of a text: names and values of a table may be of any length, the page must not be."""
_VOID: Final = frozenset({"br", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Markup | str | int


def element(tag: str, *children: Child, **attributes: str | int | None) -> Markup:
    """Write an element; attributes that are ``None`` are left out.

    ``_`` in the name of an attribute stands for ``-``, at its end for nothing (``class_``).
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(safe_text(str(value)))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = join(*children)
    return Markup(f"<{tag}{given}>" if tag in _VOID else f"<{tag}{given}>{inner}</{tag}>")


def join(*children: Child) -> Markup:
    """Put markup and texts one behind the other, the texts escaped."""
    return Markup("".join(c if isinstance(c, Markup) else _escape(str(c)) for c in children))


def foreign(text: str) -> Markup:
    """Write a text of the table: what it holds right to left must not turn what is around it."""
    return element("bdi", fit_width(safe_text(text), _LONGEST_TEXT))


def _escape(text: str) -> str:
    return escape(safe_text(text))
