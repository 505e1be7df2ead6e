"""Print a chart of a history by version: files, bytes, and one row for each operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from deltactl.cli.output.page import Page, Styled, Tone
from deltactl.cli.output.text import fit_width, pad_width, safe_text
from deltactl.units import format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.operations.history.graph import GraphPoint, HistoryGraph

_HEIGHT: Final = 6
_LABEL: Final = 14
_MAX_OPERATIONS: Final = 10
_FEWEST: Final = 10
_WIDEST: Final = 3

Bucket = Sequence["GraphPoint"]


def render_graph(page: Page, graph: HistoryGraph) -> None:
    """Render the chart; if it is too wide, several versions share a column."""
    if not graph.points:
        page.line("no commits match")
        return
    room = max(page.width - _LABEL - 3, _FEWEST)
    buckets = _into_columns(graph.points, room)
    each = min(max(room // len(buckets), 1), _WIDEST)
    _render_bars(page, "files", each, [_last(b, "num_files") for b in buckets], "{:,}".format)
    page.line()
    _render_bars(page, "bytes", each, [_last(b, "size_bytes") for b in buckets], format_size)
    page.line()
    _render_operations(page, each, buckets)
    _render_axis(page, graph.points, each * len(buckets))
    if len(buckets) < len(graph.points):
        page.line(
            Styled(
                f"column = {len(buckets[0])} versions, digit = number of commits",
                Tone.FAINT,
            )
        )
    if graph.num_unread:
        older = format_count(graph.num_unread, "older version")
        page.line(Styled(f"{older} not shown", Tone.FAINT))


def _into_columns(points: Sequence[GraphPoint], width: int) -> list[Bucket]:
    each = max(-(-len(points) // width), 1)
    return [points[start : start + each] for start in range(0, len(points), each)]


def _last(bucket: Bucket, fact: str) -> int | None:
    """Return the newest known value among the versions of a column."""
    values = [value for point in bucket if (value := getattr(point, fact)) is not None]
    return values[-1] if values else None


def _render_bars(
    page: Page,
    name: str,
    each: int,
    values: Sequence[int | None],
    write: Callable[[int], str],
) -> None:
    """Add a bar chart; each value is ``each`` characters wide."""
    known = [value for value in values if value is not None]
    top = max(known, default=0)
    levels = [None if v is None else _level(v, top) for v in values]
    for row in range(_HEIGHT, 0, -1):
        label = name if row == _HEIGHT - 1 else write(top) if row == _HEIGHT and known else ""
        label = "0" if row == 1 else label
        bars = "".join(_character(level, row) * each for level in levels)
        page.line(
            Styled(label.rjust(_LABEL), Tone.STRONG if label == name else Tone.FAINT),
            Styled(" |", Tone.FAINT),
            Styled(bars, Tone.GOOD),
        )


def _character(level: int | None, row: int) -> str:
    if level is None:
        return "?" if row == 1 else " "
    return "#" if level >= row else " "


def _level(value: int, top: int) -> int:
    """Return the height of a bar in rows; a value above 0 has at least one."""
    return -(-value * _HEIGHT // top) if value else 0


def _render_operations(page: Page, each: int, buckets: Sequence[Bucket]) -> None:
    counts: dict[str, int] = {}
    for bucket in buckets:
        for point in bucket:
            name = _operation(point)
            counts[name] = counts.get(name, 0) + 1
    shown = sorted(counts, key=lambda name: (-counts[name], name))[:_MAX_OPERATIONS]
    for name in shown:
        hits = (sum(_operation(p) == name for p in bucket) for bucket in buckets)
        marks = "".join(_mark(commits).ljust(each) for commits in hits)
        label = pad_width(fit_width(safe_text(name), _LABEL), _LABEL, right=True)
        page.line(label, Styled(" |", Tone.FAINT), Styled(marks, Tone.CAUTION))
    if len(counts) > len(shown):
        page.line(Styled(f"and {len(counts) - len(shown)} more operations", Tone.FAINT))


def _operation(point: GraphPoint) -> str:
    return point.operation or ("(missing)" if point.timestamp_ms is None else "(unknown)")


def _mark(commits: int) -> str:
    if commits < 2:
        return "o" if commits else " "
    return str(commits) if commits < 10 else "+"


def _render_axis(page: Page, points: Sequence[GraphPoint], width: int) -> None:
    page.line(" " * _LABEL, Styled(" +" + "-" * width, Tone.FAINT))
    first, last = points[0], points[-1]
    for left, right in (
        (f"v{first.version}", f"v{last.version}"),
        (_day(first), _day(last)),
    ):
        gap = max(width - len(left) - len(right), 2)
        page.line(Styled(" " * (_LABEL + 2) + left + " " * gap + right, Tone.FAINT))


def _day(point: GraphPoint) -> str:
    return (
        ""
        if point.timestamp_ms is None
        else format_timestamp(point.timestamp_ms)[: -len(":00.000Z")]
    )
