"""Print sections as text, the same for terminals and pipes.

The page escapes every string, aligns columns, wraps lines at words, and cuts what does not fit into
a table. In a pipe nothing is cut or wrapped. Colour is added only when the page is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deltactl.cli.output.sections import (
    Cell,
    Column,
    Kind,
    Line,
    Listed,
    Section,
    Styled,
    Table,
    Tone,
    pieces,
)
from deltactl.cli.output.text import (
    cell_width,
    fit_middle,
    fit_width,
    pad_width,
    safe_text,
    wrap_text,
)

_GAP: Final = "  "
_WIDE: Final = 110  # pages of this width have room for all columns
_NARROWEST: Final = 20
_BARS: Final = (6, 40)  # the fewest and the most characters of a bar
_ELASTIC: Final = frozenset({Kind.TEXT, Kind.PATH})


@dataclass(slots=True)
class _Stack:
    """A column with its values, and how they are shown."""

    column: Column
    values: Sequence[Any]
    cells: list[Styled]
    width: int = 0

    def __post_init__(self) -> None:
        cells = (cell_width(cell.text) for cell in self.cells)
        self.width = max([cell_width(self.column.header), *cells])

    @property
    def is_bar(self) -> bool:
        return self.column.kind is Kind.BAR

    @property
    def least(self) -> int:
        """How narrow the column may become."""
        if self.is_bar:
            return _BARS[0]
        return min(self.width, self.column.least) if self.column.kind in _ELASTIC else self.width


@dataclass(slots=True)
class Page:
    """Lines of styled pieces for a width in columns; if ``is_whole``, of any width."""

    width: int = 80
    is_whole: bool = False
    lines: list[tuple[Styled, ...]] = field(default_factory=list)

    @property
    def is_wide(self) -> bool:
        """Whether there is room for all columns of a table."""
        return self.is_whole or self.width >= _WIDE

    def show(self, sections: Iterable[Section]) -> None:
        """Add sections, with an empty line between them."""
        for section in sections:
            start = len(self.lines)
            if not section.is_aside:
                self._show(section)
            if 0 < start < len(self.lines) and self.lines[start - 1]:
                self.lines.insert(start, ())

    def _show(self, section: Section) -> None:
        indent = ""
        if section.title:
            self.line(section.title)
            indent = _GAP
        self._facts(section.known_facts, indent)
        if section.table is not None and len(section.table.rows):
            self._table(section.table, indent)
        for note in section.known_notes:
            self.line(note, indent)
        for text in section.code.splitlines():
            self.lines.append((Styled(indent + safe_text(text)),))

    def line(self, line: Line | Listed, indent: str = "", label: str = "") -> None:
        """Add a line after a label, wrapped at the width of the page."""
        if isinstance(line, Listed):
            line = line.text(is_whole=self.is_whole)
        parts = [_safe(piece) for piece in pieces(line)]
        lead = Tone.FAINT(indent + label)
        if self.is_whole:
            self.lines.append((lead, *parts))
            return
        margin = cell_width(lead.text)
        text = "".join(part.text for part in parts)
        for start, end in wrap_text(text, max(self.width - margin, _NARROWEST)):
            self.lines.append((lead, *_slice(parts, start, end)))
            lead = Styled(" " * margin)

    def _facts(self, facts: Sequence[tuple[str, Line | Listed]], indent: str) -> None:
        safe = [(safe_text(label), value) for label, value in facts]
        widest = max((cell_width(label) for label, _ in safe), default=0)
        for label, value in safe:
            self.line(value, indent, pad_width(label, widest) + _GAP)

    def _table(self, table: Table, indent: str) -> None:
        columns, rows = table.first(None if self.is_whole else table.most)
        stacks = [
            _Stack(column, values, [_safe(column.show(v, short=not self.is_wide)) for v in values])
            for column, values in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        details = [s for s in stacks if s.column.kind is Kind.DETAIL and not self.is_whole]
        shown = [s for s in stacks if s not in details and (self.is_wide or not s.column.wide)]
        if not self.is_whole:
            shown = _fit(shown, self.width - len(indent))
        _draw_bars(shown, self.width - len(indent))
        header = [Tone.STRONG(s.column.header) for s in shown]
        if len(shown) > 1 and any(cell.text for cell in header):
            self.lines.append(_align(shown, header, indent))
        for number in range(len(rows)):
            self.lines.append(_align(shown, [s.cells[number] for s in shown], indent))
            for stack in details:
                if stack.cells[number].text:
                    label = f"{stack.column.header}: "
                    self.line(stack.cells[number], indent + _GAP * 2, label)
        if (left := len(table.rows) - len(rows)) > 0:
            self.line(Tone.FAINT(f"and {left:,} more ({table.more})"), indent)

    def plain_lines(self) -> Iterable[str]:
        """Return the lines as text, without trailing spaces."""
        return ("".join(piece.text for piece in line).rstrip() for line in self.lines)


def _safe(cell: Cell) -> Styled:
    if isinstance(cell, Styled):
        return cell.tone(safe_text(cell.text))
    return Styled(safe_text(cell))


def _slice(parts: Iterable[Styled], start: int, end: int) -> Iterator[Styled]:
    """Return the pieces of a line from one position to another."""
    for part in parts:
        if text := part.text[max(start, 0) : max(end, 0)]:
            yield part.tone(text)
        start, end = start - len(part.text), end - len(part.text)


def _fit(stacks: list[_Stack], room: int) -> list[_Stack]:
    """Return the columns that have room, and make elastic ones narrower."""
    gaps = len(_GAP)
    spare = sorted((s for s in stacks if s.column.spare), key=lambda s: s.column.spare)
    while spare and sum(s.least + gaps for s in stacks) - gaps > room:
        stacks.remove(spare.pop())
    excess = sum(max(s.width, s.least) + gaps for s in stacks) - gaps - room
    while excess > 0 and (able := [s for s in stacks if s.width > s.least]):
        max(able, key=lambda s: s.width).width -= 1
        excess -= 1
    return stacks


def _draw_bars(stacks: Sequence[_Stack], room: int) -> None:
    """Fill the cells of bars; one that is above 0 has at least one character."""
    bars = [stack for stack in stacks if stack.is_bar]
    room -= sum(stack.width + len(_GAP) for stack in stacks)
    longest = min(max(room // max(len(bars), 1), _BARS[0]), _BARS[1])
    for stack in bars:
        stack.cells = []
        for value in stack.values:
            share, tone = value if isinstance(value, tuple) else (value, stack.column.tone)
            length = max(round(share * longest), 1) if share and share > 0 else 0
            stack.cells.append(tone("#" * length))
        stack.width = max([stack.width, *(len(cell.text) for cell in stack.cells)])


def _align(stacks: Sequence[_Stack], row: Sequence[Styled], indent: str) -> tuple[Styled, ...]:
    cells: list[Styled] = []
    for stack, cell in zip(stacks, row, strict=True):
        text, width, is_right = cell.text, stack.width, stack.column.is_right
        if text.isascii() and len(text) <= width:
            text = text.rjust(width) if is_right else text.ljust(width)
        else:
            fit = fit_middle if stack.column.kind is Kind.PATH else fit_width
            text = pad_width(fit(text, width), width, right=is_right)
        cells.append(cell.tone((_GAP if cells else indent) + text))
    return tuple(cells)
