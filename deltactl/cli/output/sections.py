"""What a report says, as data: a list of sections. Printers turn it into text or HTML.

Strings may come from a table and may have any content: printers escape them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from itertools import groupby
from typing import TYPE_CHECKING, Any, Union

from deltactl.units import format_age, format_size, format_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = "KMGTPE"
_ALL = "-o json lists all"


class Tone(StrEnum):
    """The meaning of a piece of text; printers map it to colours."""

    PLAIN = "plain"
    STRONG = "strong"
    GOOD = "good"
    CAUTION = "caution"
    BAD = "bad"
    FAINT = "faint"

    def __call__(self, text: str) -> Styled:
        """Return text with this meaning."""
        return Styled(text, self)


@dataclass(frozen=True, slots=True)
class Styled:
    """Text with its meaning."""

    text: str
    tone: Tone = Tone.PLAIN


Cell = str | Styled
Line = Cell | tuple[Cell, ...]
VersionRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list in a line, after ``lead``; a terminal shows the first ``most`` items."""

    items: Sequence[str]
    lead: str = ""
    most: int = 8
    more: str = _ALL

    def text(self, *, is_whole: bool) -> str:
        """Return the line."""
        shown = self.items if is_whole else self.items[: self.most]
        left = len(self.items) - len(shown)
        more = f", and {left:,} more ({self.more})" if left else ""
        return f"{self.lead}{', '.join(shown)}{more}"


def list_versions(ranges: Iterable[VersionRange], more: str = _ALL) -> Listed:
    """Return ranges of versions, the newest first."""
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in sorted(ranges, reverse=True)]
    is_one = len(shown) == 1 and shown[0].isdecimal()
    return Listed(shown or ["none"], f"version{'' if is_one else 's'} " if shown else "", more=more)


def list_single_versions(versions: Iterable[int], more: str = _ALL) -> Listed:
    """Return versions, the newest first; those that follow each other as a range."""
    runs = groupby(enumerate(sorted(versions)), lambda pair: pair[1] - pair[0])
    ends = [[version for _, version in run] for _, run in runs]
    return list_versions([(run[0], run[-1]) for run in ends], more)


Fact = tuple[str, Line | Listed | None]
"""A label and a value; facts without a value are not shown."""


def pieces(line: Line) -> tuple[Styled, ...]:
    """Return the pieces of a line."""
    cells = line if isinstance(line, tuple) else (line,)
    return tuple(cell if isinstance(cell, Styled) else Styled(cell) for cell in cells)


def plain(line: Line) -> str:
    """Return the text of a line."""
    return "".join(piece.text for piece in pieces(line))


class Kind(Enum):
    """What the values of a column are, and so how they are shown."""

    WORD = auto()  # text that is never cut
    TEXT = auto()  # text that may be cut
    PATH = auto()  # text that may be cut in the middle: values differ mostly at their ends
    DETAIL = auto()  # text that is too long for a column: it has lines of its own on a terminal
    NUMBER = auto()
    BYTES = auto()
    SHARE = auto()  # 0 to 1
    BAR = auto()  # a share, drawn; or a pair of a share and a tone
    SECONDS = auto()
    AGE = auto()  # in ms
    TIME = auto()  # in ms since 1970
    DAY = auto()  # the same, without the time of day
    COUNTS_CHANGED = auto()  # pairs of a sign and a number, or None if it is not known
    BYTES_CHANGED = auto()


_RIGHT = frozenset({Kind.NUMBER, Kind.BYTES, Kind.SHARE, Kind.SECONDS, Kind.AGE})
_FORMATS: Mapping[Kind, Callable[[Any], str]] = {
    Kind.NUMBER: lambda n: f"{n:,}",
    Kind.BYTES: format_size,
    Kind.SHARE: lambda share: f"{share:.0%}",
    Kind.SECONDS: lambda seconds: f"{seconds:.1f} s",
    Kind.AGE: lambda ms: format_age(ms).removesuffix(" ago").removeprefix("just "),
    Kind.DAY: lambda ms: format_timestamp(ms)[:10],
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    ``key`` is its key in rows that are mappings; without it, the header is. ``wide`` columns are
    left out if there is little room. If a line is still too long for a terminal, ``spare`` columns
    are left out, the one with the largest value first, and text is cut to ``least`` characters.
    ``empty`` is shown for empty text.
    """

    header: str
    kind: Kind = Kind.WORD
    key: str = ""
    wide: bool = False
    spare: int = 0
    least: int = 8
    empty: str = ""
    tone: Tone = Tone.PLAIN

    @property
    def is_right(self) -> bool:
        """Whether values are aligned at the right."""
        return self.kind in _RIGHT

    def show(self, value: Any, *, short: bool = False) -> Styled:
        """Return a value as text, in few characters if ``short``. Text is returned as it is."""
        if isinstance(value, Styled):
            return value
        text = value if isinstance(value, str) else self._format(value, short)
        return Styled(text or self.empty, self.tone)

    def _format(self, value: Any, short: bool) -> str:
        if value is None or self.kind is Kind.BAR:
            return ""
        if self.kind is Kind.TIME:
            return format_timestamp(value)[: 16 if short else 19].replace("T", " ")
        if self.kind in (Kind.COUNTS_CHANGED, Kind.BYTES_CHANGED):
            return self._format_changes(value, short)
        format_value = _FORMATS.get(self.kind, str)
        return format_value(value)

    def _format_changes(self, changes: Sequence[tuple[str, int | None]], short: bool) -> str:
        is_size = self.kind is Kind.BYTES_CHANGED

        def number(n: int) -> str:
            if short:
                return _shorten(n, 1024 if is_size else 1000)
            return format_size(n) if is_size else f"{n:,}"

        return " ".join(f"{sign}{'?' if n is None else number(n)}" for sign, n in changes if n != 0)


def _shorten(n: int, base: int) -> str:
    """Return a number in a few characters: ``999``, ``1.2K``, ``34M``."""
    if n < base:
        return f"{n}B" if base == 1024 else str(n)
    power, value = 0, float(n)
    while value >= base * 0.9995 and power < len(_UNITS):
        value /= base
        power += 1
    digits = f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
    return digits.removesuffix(".0") + _UNITS[power - 1]


TableRows = Union["pa.Table", Sequence[object]]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows: sequences of values, or mappings or objects with the keys of the columns.

    A terminal shows the first ``most`` of them, or those with the largest values of ``largest``,
    and then says how to list all. Columns without any value are left out.
    """

    columns: Sequence[Column]
    rows: TableRows
    most: int | None = 20
    more: str = _ALL
    largest: str = ""

    def first(self, most: int | None) -> tuple[list[Column], list[list[Any]]]:
        """Return at most so many rows: their columns with a value, and the values of each row."""
        rows: Any = self.rows
        if most is not None and len(rows) > most:
            if self.largest and hasattr(rows, "sort_by"):
                rows = rows.sort_by([(self.largest, "descending")])
            elif self.largest:
                rows = sorted(rows, key=lambda row: row[self.largest], reverse=True)
            rows = rows.slice(0, most) if hasattr(rows, "slice") else rows[:most]
        if hasattr(rows, "to_pylist"):
            rows = rows.to_pylist()
        keys = [column.key or column.header for column in self.columns]
        picked = [list(row if isinstance(row, Sequence) else _pick(row, keys)) for row in rows]
        used = [
            i
            for i, column in enumerate(self.columns)
            if column.kind is Kind.BAR or any(column.show(row[i]).text for row in picked)
        ]
        return [self.columns[i] for i in used], [[row[i] for i in used] for row in picked]


def _pick(row: object, keys: Sequence[str]) -> Iterable[Any]:
    return (row[key] if isinstance(row, Mapping) else getattr(row, key) for key in keys)


@dataclass(frozen=True, slots=True)
class Strip:
    """Ranges of versions on a line; ``layers`` are tone, name and ranges, later ones on top."""

    first: int
    last: int
    layers: Sequence[tuple[Tone, str, Sequence[VersionRange]]]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report. The title of the first one says in one line what was done or found.

    ``finding`` is the code of the problem that the section is about. ``code`` is text
    for other programs, such as commands. Only pages that can be scrolled have ``is_aside`` ones.
    """

    title: Line = ()
    facts: Sequence[Fact] = ()
    chart: Strip | None = None
    table: Table | None = None
    notes: Sequence[Line | None] = ()
    finding: str | None = None
    code: str = ""
    is_aside: bool = False

    @property
    def known_facts(self) -> list[tuple[str, Line | Listed]]:
        """The facts that have a value."""
        return [(label, value) for label, value in self.facts if value]

    @property
    def known_notes(self) -> list[Line]:
        """The notes that have a text."""
        return [note for note in self.notes if note]


def list_rows(
    title: str, tone: Tone, columns: Sequence[Column], rows: Sequence[object], *, most: int = 20
) -> Iterator[Section]:
    """Return rows under a title; nothing if there are none."""
    if rows:
        yield Section(tone(title), table=Table(columns, rows, most=most))


def describe_to_do(command: str) -> Section:
    """Return the end of a dry run: the command that does what it shows."""
    return Section((Tone.STRONG("Nothing was changed."), " To do it:"), code=command)


Sections = Callable[[], Iterable[Section]]
"""Returns the sections of a report; it is called only if they are printed."""
