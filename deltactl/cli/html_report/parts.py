"""Parts that sections of a report are made of: figures in large, tables, lists, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.cli.html_report.html import Child, Markup, element, foreign, join
from deltactl.cli.output.page import Tone

MOST_ROWS: Final = 50
"""Rows of a table, and items of a list: a table may have a million partitions."""


@dataclass(frozen=True, slots=True)
class Head:
    """A column of a table; ``is_wide_only`` ones are left out on a narrow screen."""

    text: str
    is_number: bool = False
    is_wide_only: bool = False

    @property
    def classes(self) -> str | None:
        """How cells of the column look."""
        names = ("number" if self.is_number else "", "wide" if self.is_wide_only else "")
        return " ".join(filter(None, names)) or None


def render_table(
    caption: Child,
    heads: Sequence[Head],
    rows: Iterable[Sequence[Child]],
    last: Sequence[Sequence[Child]] = (),
    class_: str | None = None,
) -> Markup:
    """Write a table, in a box that scrolls by itself; ``last`` are rows that sum up."""
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
    """Write figures in large: what it is, the figure, a word on it."""
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
    """Write names and values."""
    parts = (join(element("dt", name), element("dd", value)) for name, value in pairs)
    return element("dl", *parts, class_="fields")


def render_items(heading: str, items: Sequence[str]) -> Markup:
    """Write a list of texts of the table under a heading, the first of them if there are many."""
    if not items:
        return Markup()
    shown = [element("li", foreign(item)) for item in items[:MOST_ROWS]]
    more = len(items) - len(shown)
    if more:
        shown.append(element("li", f"and {more:,} more", class_="faint"))
    return join(element("h3", heading), element("ul", *shown))


def render_counts(caption: str, noun: str, counts: Iterable[tuple[str, int]]) -> Markup:
    """Write what there is of each kind, nothing where there is none."""
    rows = [(foreign(reason), f"{count:,}") for reason, count in counts]
    if not rows:
        return Markup()
    heads = [Head("reason"), Head(noun, is_number=True)]
    return render_table(caption, heads, rows, class_="small")


def render_badge(word: str, tone: Tone) -> Markup:
    """Write a word that tells how something ended."""
    return element("span", word, class_=f"badge {tone}")


def describe_cut(what: str, total: int, rule: str) -> str:
    """Say how many rows there would be, and which of them are shown where that is not all."""
    if total <= MOST_ROWS:
        return f"{what} ({total:,})"
    return f"{what}: the {MOST_ROWS} {rule} of {total:,}; the others are summed in one row"
