"""Escape text from tables for terminals, and measure and cut it by its width there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

# Format characters that scripts and emoji need; they do not move other text on the line.
_JOINERS: Final = frozenset({"\u200c", "\u200d"})
_ESCAPED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NOT_IN_XML: Final = frozenset({"\ufffe", "\uffff"})
_DOTS: Final = "..."
_COMMAND: Final = re.compile("`[^`]*`|^deltactl .*")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe_text(text: str) -> str:
    r"""Escape every character that could control a terminal; keep all others.

    Control characters (and so ANSI sequences), bidirectional and other invisible format
    characters, line and paragraph separators and lone surrogates become ``\n``, ``\x1b`` or
    ``\u202e``. Applying it twice changes nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if _is_active(char) else char for char in text)


def _is_active(char: str) -> bool:
    is_escaped = unicodedata.category(char) in _ESCAPED_CATEGORIES or char in _NOT_IN_XML
    return is_escaped and char not in _JOINERS


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return _NAMED.get(char) or f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cell_width(text: str) -> int:
    """Return the width of safe text in columns: East Asian wide 2, combining marks 0."""
    return len(text) if text.isascii() else sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit_width(text: str, width: int) -> str:
    """Cut safe text that is wider than ``width`` columns, ending it with ``...``."""
    if cell_width(text) <= width:
        return text
    dots = _DOTS[: max(width, 0)]
    return _head(text, width - len(dots)) + dots


def fit_middle(text: str, width: int) -> str:
    """Cut safe text that is wider than ``width`` columns in the middle; keep more of its end.

    Of a path, keep the last part, or as much of its end as possible: paths differ there.
    """
    if cell_width(text) <= width or width <= len(_DOTS):
        return fit_width(text, width)
    room = width - len(_DOTS)
    last = cell_width(text[text.rfind("/", 0, -1) :]) if "/" in text[:-1] else 0
    start = min(room // 3, max(room - last, 0))
    return _head(text, start) + _DOTS + _head(text[::-1], room - start)[::-1]


def _head(text: str, width: int) -> str:
    used = 0
    for position, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return text[:position]
    return text


def wrap_text(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Return where the lines of safe text start and end. Words and commands are not divided."""
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), text)
    start = 0
    while cell_width(text[start:]) > width:
        end = whole.rfind(" ", start, start + len(_head(text[start:], width)) + 1)
        if end <= start:
            end = whole.find(" ", start + 1)
        if end < 0:
            break
        yield start, end
        start = end + 1
    yield start, len(text)


def pad_width(text: str, width: int, *, right: bool = False) -> str:
    """Fill safe text with spaces up to ``width`` columns."""
    fill = " " * (width - cell_width(text))
    return fill + text if right else text + fill
