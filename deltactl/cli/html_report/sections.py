"""Write sections of a report as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from deltactl.cli.html_report.charts import draw_bar, draw_strip
from deltactl.cli.html_report.html import Markup, element, foreign, join
from deltactl.cli.output.sections import (
    Column,
    Kind,
    Line,
    Listed,
    Section,
    Styled,
    Table,
    Tone,
    pieces,
    plain,
)

_MOST_ROWS: Final = 50
_QUIET: Final = (Tone.PLAIN, Tone.STRONG, Tone.GOOD)


def render_sections(sections: Iterable[Section]) -> Iterator[Markup]:
    """Return a report; the title of its first section is shown by the page."""
    for number, section in enumerate(sections):
        title = plain(section.title)
        if title and number:
            yield element("h3", render_line(section.title))
        if facts := section.known_facts:
            yield render_facts(facts)
        if section.chart is not None:
            yield draw_strip(section.chart)
        if section.table is not None and len(section.table.rows):
            yield render_table(section.table, title or "Rows")
        for note in section.known_notes:
            yield element("p", render_line(note), class_="faint")
        if section.code:
            yield render_code(section.code)


def render_line(line: Line) -> Markup:
    """Return a line; what is bad stands out."""
    return join(*map(_render_piece, pieces(line)))


def _render_piece(piece: Styled) -> Markup:
    text = foreign(piece.text)
    return text if piece.tone in _QUIET else element("span", text, class_=f"text-{piece.tone}")


def render_facts(facts: Iterable[tuple[str, Line | Listed]]) -> Markup:
    """Return a list of labels and values."""
    parts = []
    for label, value in facts:
        line = value.text(is_whole=False) if isinstance(value, Listed) else value
        parts += [element("dt", label), element("dd", render_line(line))]
    return element("dl", *parts, class_="fields")


def render_table(table: Table, name: str, most: int = _MOST_ROWS) -> Markup:
    """Return a table in a box that scrolls, and how many rows it does not have."""
    columns, rows = table.first(most)
    heads = (element("th", c.header, scope="col", class_=_classes(c)) for c in columns)
    body = (_render_row(columns, row) for row in rows)
    drawn = element(
        "table", element("thead", element("tr", *heads)), element("tbody", *body), aria_label=name
    )
    left = len(table.rows) - len(rows)
    more = element("p", f"and {left:,} more ({table.more})", class_="faint") if left else Markup()
    return join(element("div", drawn, class_="scroll", tabindex=0), more)


def _classes(column: Column) -> str | None:
    names = {
        "number": column.is_right,
        "bar": column.kind is Kind.BAR,
        "wide": column.wide or column.spare > 0,
        "word": column.kind is Kind.WORD,
        "detail": column.kind is Kind.DETAIL,
    }
    return " ".join(name for name, is_so in names.items() if is_so) or None


def _render_row(columns: list[Column], values: list[Any]) -> Markup:
    cells = []
    for column, value in zip(columns, values, strict=True):
        if column.kind is Kind.BAR:
            share, tone = value if isinstance(value, tuple) else (value, column.tone)
            content = draw_bar(share, tone)
        else:
            content = render_line(column.show(value))
        cells.append(element("td", content, class_=_classes(column)))
    return element("tr", *cells)


def render_code(text: str) -> Markup:
    """Return lines for other programs."""
    lines = Markup("\n").join(join(line) for line in text.splitlines())
    return element("pre", element("code", Markup(lines)), tabindex=0)
