"""Results as a table: for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.cases import Case
from benchmarks.measure import Pair, Run
from benchmarks.shapes import Shape

_HEADINGS = (
    *("case", "shape", "wall", "processor", "goal", "ours", "theirs"),
    *("memory", "goal", "ours", "theirs"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """A case and its runs with a table of a shape."""

    case: Case
    pair: Pair
    shape: Shape = Shape.PLAIN

    def cells(self) -> list[str]:
        """A row of the table."""
        pair, case = self.pair, self.case
        return [
            case.name,
            self.shape,
            f"{pair.ratio(_wall):.2f}",
            f"{pair.ratio(_cpu):.2f}",
            _goal(case.time_goal),
            *(f"{median(map(_cpu, side)):.2f} s" for side in (pair.ours, pair.theirs)),
            f"{pair.ratio(_peak):.2f}",
            _goal(case.memory_goal),
            *(f"{median(map(_peak, side)) / 2**20:,.0f} MiB" for side in (pair.ours, pair.theirs)),
        ]


def _wall(run: Run) -> float:
    return run.wall_seconds


def _cpu(run: Run) -> float:
    return run.cpu_seconds


def _peak(run: Run) -> float:
    return run.peak_bytes


def _goal(goal: float | None) -> str:
    return "" if goal is None else f"{goal:g}"


def render(results: Sequence[Result], *, markdown: bool) -> str:
    """Return the whole table."""
    rows = [list(_HEADINGS), *(result.cells() for result in results)]
    return render_rows(rows, markdown=markdown)


def render_rows(rows: Sequence[Sequence[str]], *, markdown: bool) -> str:
    """Return rows as a table, headings first: the first column on the left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        [
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    if not markdown:
        return "\n".join("  ".join(line).rstrip() for line in lines)
    rule = [("-" * w) if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])
