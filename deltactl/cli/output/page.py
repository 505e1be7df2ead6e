"""Print text for people: lines, fields and tables, the same for terminals and pipes.

Commands add content; the page escapes every string, aligns columns, and cuts what does not fit.
Colour is added only when the page is printed, so the text is the same with and without colour.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from deltactl.cli.output.text import cell_width, fit_middle, fit_width, pad_width, safe_text

_GAP = "  "
# An elastic column is never cut to fewer characters.
_MIN_ELASTIC = 8


class Tone(StrEnum):
    """The meaning of a piece of text; ``output`` maps it to colours."""

    PLAIN = "plain"
    STRONG = "strong"
    GOOD = "good"
    CAUTION = "caution"
    BAD = "bad"
    FAINT = "faint"


@dataclass(frozen=True, slots=True)
class Styled:
    """Text with its meaning."""

    text: str
    tone: Tone = Tone.PLAIN


Cell = str | Styled


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Elastic columns are cut when the line is too long, others never.

    Values of ``is_path`` columns differ mostly at their ends, so they are cut in the middle. If
    the line is still too long, ``spare`` columns are omitted, the one with the largest value first.
    """

    header: str
    right: bool = False
    elastic: bool = False
    is_path: bool = False
    spare: int = 0


@dataclass(slots=True)
class Page:
    """Lines of styled pieces for a width in columns. Every string added is escaped here.

    If ``is_whole``, nothing is cut: a table may be wider than the page.
    """

    width: int = 80
    is_whole: bool = False
    lines: list[tuple[Styled, ...]] = field(default_factory=list)

    def line(self, *pieces: Cell) -> None:
        """Add one line; without pieces, an empty one."""
        self.lines.append(tuple(_safe(piece) for piece in pieces))

    def wrapped(self, text: str, *, indent: str = "") -> None:
        """Add text, wrapped at the width of the page."""
        if self.is_whole:
            self.lines.append((Styled(indent + safe_text(text)),))
            return
        for line in textwrap.wrap(safe_text(text), max(self.width - len(indent), 20)):
            self.lines.append((Styled(indent + line),))

    def fields(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """Add labels and values, one pair per line, the values aligned."""
        safe = [(safe_text(label), _safe(value)) for label, value in pairs]
        widest = max((cell_width(label) for label, _ in safe), default=0)
        for label, value in safe:
            self.lines.append((Styled(pad_width(label, widest) + _GAP, Tone.FAINT), value))

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """Add a header line and one line per row."""
        header = [Styled(column.header, Tone.STRONG) for column in columns]
        grid = [header, *([_safe(cell) for cell in row] for row in rows)]
        widths = [max(cell_width(cell.text) for cell in cells) for cells in zip(*grid, strict=True)]
        kept = list(range(len(columns))) if self.is_whole else self._choose(columns, widths)
        columns = [columns[i] for i in kept]
        widths = [widths[i] for i in kept]
        if not self.is_whole:
            widths = self._fit(columns, widths)
        for row in grid:
            self.lines.append(tuple(_align(columns, [row[i] for i in kept], widths)))

    def _choose(self, columns: Sequence[Column], widths: list[int]) -> list[int]:
        """Return the positions of the columns to show, without spare ones that do not fit."""
        least = [
            min(width, _MIN_ELASTIC) if column.elastic else width
            for column, width in zip(columns, widths, strict=True)
        ]
        kept = list(range(len(columns)))
        spare = sorted((i for i in kept if columns[i].spare), key=lambda i: columns[i].spare)
        while spare and sum(least[i] + len(_GAP) for i in kept) - len(_GAP) > self.width:
            kept.remove(spare.pop())
        return kept

    def _fit(self, columns: Sequence[Column], widths: list[int]) -> list[int]:
        excess = sum(widths) + len(_GAP) * (len(widths) - 1) - self.width
        elastic = [i for i, column in enumerate(columns) if column.elastic]
        while excess > 0 and elastic:
            widest = max(elastic, key=lambda i: widths[i])
            if widths[widest] <= _MIN_ELASTIC:
                break
            widths[widest] -= 1
            excess -= 1
        return widths

    def plain_lines(self) -> Iterable[str]:
        """Return the lines as text, without trailing spaces."""
        return ("".join(piece.text for piece in line).rstrip() for line in self.lines)


def _safe(cell: Cell) -> Styled:
    if isinstance(cell, Styled):
        return Styled(safe_text(cell.text), cell.tone)
    return Styled(safe_text(cell))


def _align(columns: Sequence[Column], row: list[Styled], widths: list[int]) -> Iterable[Styled]:
    gap = ""
    for column, cell, width in zip(columns, row, widths, strict=True):
        text = cell.text
        if text.isascii() and len(text) <= width:
            text = text.rjust(width) if column.right else text.ljust(width)
        else:
            fit = fit_middle if column.is_path else fit_width
            text = pad_width(fit(text, width), width, right=column.right)
        yield Styled(gap + text, cell.tone)
        gap = _GAP


RenderTable = Callable[[Page], None]
