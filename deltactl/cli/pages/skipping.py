"""Print the share of files that lookups skip, as bars: now, and in a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deltactl.cli.output.page import Cell, Column, Page, Styled, Tone
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.skipping.report import LayoutReport

_LONGEST_BAR: Final = 24
_SHORTEST_BAR: Final = 6
# Approximate width of the other columns: names, shares and gaps.
_BESIDE: Final = 40


def render_skipping(page: Page, report: LayoutReport) -> None:
    """Add a bar for each column, as it is and as it would be."""
    page.line()
    room = min(max((page.width - _BESIDE) // 2, _SHORTEST_BAR), _LONGEST_BAR)
    columns = [
        Column("lookups skip", elastic=True, is_path=True),
        Column("now", right=True),
        Column(""),
        Column("after", right=True),
        Column(""),
    ]
    lines: list[list[Cell]] = [
        [
            f"  {column.column}",
            format_share(column.before),
            Styled(_bar(column.before, room), Tone.CAUTION),
            format_share(column.after),
            Styled(_bar(column.after, room), Tone.GOOD),
        ]
        for column in report.columns
    ]
    page.table(columns, lines)
    now, after = format_count(report.files, "file"), format_count(report.files_after, "file")
    names = ", ".join(column.column for column in report.columns)
    page.line(f"  now: {now}; after: {after}, {report.layout} by {names}")
    for column in report.columns:
        if column.no_bounds:
            files = format_count(column.no_bounds, "file has", "files have")
            page.line(
                Styled(
                    f"  {files} no statistics of {column.column}, so lookups never skip them",
                    Tone.CAUTION,
                )
            )


def format_share(share: float | None) -> str:
    """Return a share as percent; a dash if it is unknown."""
    return "-" if share is None else f"{max(share, 0.0):.0%}"


def _bar(share: float | None, room: int) -> str:
    return "#" * round(max(share or 0.0, 0.0) * room)
