"""Write parts of report sections: tiles with numbers, tables, lists, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.cli.html_report.html import Child, Markup, element, foreign, join
from deltactl.cli.output.page import Tone

MOST_ROWS: Final = 50
"""The maximum number of rows of a table and of items of a list."""


@dataclass(frozen=True, slots=True)
class Head:
    """A column of a table; with ``is_wide_only`` it is hidden on a narrow screen."""

    text: str
    is_number: bool = False
    is_wide_only: bool = False

    @property
    def classes(self) -> str | None:
        """Return the CSS classes of the column's cells."""
        names = ("number" if self.is_number else "", "wide" if self.is_wide_only else "")
        return " ".join(filter(None, names)) or None


def render_table(
    caption: Child,
    heads: Sequence[Head],
    rows: Iterable[Sequence[Child]],
    last: Sequence[Sequence[Child]] = (),
    class_: str | None = None,
) -> Markup:
    """Return a table in a box that scrolls; ``last`` are rows of totals."""
    columns = (element("th", head.text, scope="col", class_=head.classes) for head in heads)
    body = (_row(heads, row) for row in rows)
    foot = element("tfoot", *(_row(heads, row) for row in last)) if last else Markup()
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *columns)),
        element("tbody", *body),
        foot,
        class_=class_,
    )
    return element("div", table, class_="scroll", tabindex=0)


def _row(heads: Sequence[Head], row: Sequence[Child]) -> Markup:
    first, *rest = row
    cells = [element("th", first, scope="row", class_=heads[0].classes)]
    for head, cell in zip(heads[1:], rest, strict=True):
        cells.append(element("td", cell, class_=head.classes))
    return element("tr", *cells)


def render_tiles(tiles: Iterable[tuple[str, str, str]]) -> Markup:
    """Return tiles: each has a caption, a number in large type, and a note."""
    return element(
        "dl",
        *(
            element(
                "div",
                element("dt", label),
                element("dd", element("strong", figure), element("span", note)),
            )
            for label, figure, note in tiles
        ),
        class_="tiles",
    )


def render_fields(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Return a list of names and values."""
    parts = (join(element("dt", name), element("dd", value)) for name, value in pairs)
    return element("dl", *parts, class_="fields")


def render_items(heading: str, items: Sequence[str]) -> Markup:
    """Return a list of texts of the table under a heading, cut after the first ones."""
    if not items:
        return Markup()
    shown = [element("li", foreign(item)) for item in items[:MOST_ROWS]]
    more = len(items) - len(shown)
    if more:
        shown.append(element("li", f"and {more:,} more", class_="faint"))
    return join(element("h3", heading), element("ul", *shown))


def render_counts(caption: str, noun: str, counts: Iterable[tuple[str, int]]) -> Markup:
    """Return the counts by kind; nothing if there are none."""
    rows = [(foreign(reason), f"{count:,}") for reason, count in counts]
    if not rows:
        return Markup()
    heads = [Head("reason"), Head(noun, is_number=True)]
    return render_table(caption, heads, rows, class_="small")


def render_badge(word: str, tone: Tone) -> Markup:
    """Return a badge with a status."""
    return element("span", word, class_=f"badge {tone}")


def describe_cut(what: str, total: int, rule: str) -> str:
    """Return a caption with the number of rows, and which of them are shown if not all."""
    if total <= MOST_ROWS:
        return f"{what} ({total:,})"
    return f"{what}: the {MOST_ROWS} of {total:,} {rule}; the others are summed in one row"
