"""Draw charts as SVG: lengths are percentages of the width, so that text keeps its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.cli.html_report.html import Markup, element, join

Range = tuple[int, int]

_LABEL_PIXELS: Final = 96
_LONGEST_BAR: Final = "52%"  # leaves room for labels and counts on a narrow screen
_BAR_PIXELS: Final = 13
_ROW_GAP: Final = 12
_STRIP_PIXELS: Final = 26
_STEPS: Final = 1000
"""The maximum number of parts of a strip; shorter ranges are joined."""


@dataclass(frozen=True, slots=True)
class Series:
    """One bar in each row of a chart: its style, its name, one count per row."""

    style: str
    name: str
    counts: Sequence[int]


def draw_bars(labels: Sequence[str], series: Sequence[Series], what: str) -> Markup:
    """Draw rows of bars, one bar per series; each bar above zero is visible."""
    longest = max((max(s.counts, default=0) for s in series), default=0) or 1
    pitch = _BAR_PIXELS * len(series) + _ROW_GAP
    middle = _BAR_PIXELS * len(series) // 2
    drawn = [
        element("text", label, x=0, y=row * pitch + middle) for row, label in enumerate(labels)
    ]
    bars = (
        _bar(one.style, one.counts[row] / longest, one.counts[row], row * pitch + n * _BAR_PIXELS)
        for row in range(len(labels))
        for n, one in enumerate(series)
        if one.counts[row]
    )
    drawn.append(element("svg", *bars, x=_LABEL_PIXELS, width=_LONGEST_BAR, class_="bars"))
    return element(
        "figure",
        _legend((s.style, s.name) for s in series),
        element(
            "svg",
            *drawn,
            role="img",
            aria_label=_describe(labels, series, what),
            width="100%",
            height=pitch * len(labels),
        ),
    )


def _bar(style: str, share: float, count: int, top: int) -> Markup:
    width = f"{max(share * 100, 0.5):.2f}%"
    bar = element("rect", width=width, height=_BAR_PIXELS - 2, y=top, rx=2, class_=style)
    number = element("text", f"{count:,}", x=width, y=top + _BAR_PIXELS // 2, dx=6, class_="count")
    return join(bar, number)


def _describe(labels: Sequence[str], series: Sequence[Series], what: str) -> str:
    """Return the content of a chart as text, for screen readers."""
    rows = (
        f"{label}: " + ", ".join(f"{s.counts[row]:,} {s.name}" for s in series)
        for row, label in enumerate(labels)
    )
    return f"{what}. " + "; ".join(rows)


def draw_share(whole: float, part: float) -> Markup:
    """Draw a bar for a cell of a table whose other cells have the numbers; shares are 0 to 1."""
    shares = (("track", whole), ("after", part))
    return element(
        "svg",
        *(
            element("rect", width=f"{max(share * 100, 0.5):.2f}%", height=11, rx=2, class_=style)
            for style, share in shares
            if share > 0
        ),
        aria_hidden="true",
        width="100%",
        height=11,
    )


def draw_strip(first: int, last: int, layers: Sequence[tuple[str, str, Sequence[Range]]]) -> Markup:
    """Draw ranges of versions: ``layers`` of style, name and ranges, later ones on top."""
    counts = "; ".join(f"{name}: {_count(ranges):,}" for _, name, ranges in layers)
    drawn = (
        element("rect", x=start, width=width, height=_STRIP_PIXELS, class_=style)
        for style, _, ranges in layers
        for start, width in _place(ranges, first, last)
    )
    return element(
        "figure",
        _legend((style, f"{name} ({_count(ranges):,})") for style, name, ranges in layers),
        element(
            "svg",
            *drawn,
            role="img",
            aria_label=f"Versions {first:,} to {last:,}. {counts}",
            width="100%",
            height=_STRIP_PIXELS,
        ),
        element(
            "div",
            element("span", f"version {first:,}"),
            element("span", f"{last:,}"),
            class_="ends",
        ),
    )


def _count(ranges: Sequence[Range]) -> int:
    return sum(end - start + 1 for start, end in ranges)


def _place(ranges: Sequence[Range], first: int, last: int) -> Iterable[tuple[str, str]]:
    """Return starts and widths in percent; ranges that touch at this scale are joined."""
    scale = _STEPS / (last - first + 1)
    places: list[list[int]] = []
    for start, end in ranges:
        begin = int((start - first) * scale)
        over = max(round((end - first + 1) * scale), begin + 1)
        if places and begin <= places[-1][1]:
            places[-1][1] = max(over, places[-1][1])
        else:
            places.append([begin, over])
    per_cent = _STEPS / 100
    return ((f"{begin / per_cent:g}%", f"{(over - begin) / per_cent:g}%") for begin, over in places)


def _legend(entries: Iterable[tuple[str, str]]) -> Markup:
    def swatch(style: str) -> Markup:
        return element(
            "svg",
            element("rect", width=12, height=12, rx=2, class_=style),
            width=12,
            height=12,
            aria_hidden="true",
        )

    return element(
        "figcaption",
        *(element("span", swatch(style), name, class_="key") for style, name in entries),
    )
