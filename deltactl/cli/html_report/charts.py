"""Draw charts as SVG: lengths are percentages of the width, so that text keeps its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from deltactl.cli.html_report.html import Markup, element
from deltactl.cli.output.sections import Strip, Tone, VersionRange

_STRIP_PIXELS: Final = 26
_STEPS: Final = 1000
"""The maximum number of parts of a strip; shorter ranges are joined."""


def draw_bar(share: float | None, tone: Tone) -> Markup:
    """Draw a share as a bar, for a cell of a table whose other cells have the number."""
    if not share or share <= 0:
        return Markup()
    width = f"{max(share * 100, 0.5):.2f}%"
    bar = element("rect", width=width, height=11, rx=2, class_=f"fill-{tone}")
    return element("svg", bar, aria_hidden="true", width="100%", height=11)


def draw_strip(strip: Strip) -> Markup:
    """Draw ranges of versions."""
    first, last = f"{strip.first:,}", f"{strip.last:,}"
    counts = [(tone, name, _count(ranges)) for tone, name, ranges in strip.layers]
    drawn = (
        element("rect", x=start, width=width, height=_STRIP_PIXELS, class_=f"fill-{tone}")
        for tone, _, ranges in strip.layers
        for start, width in _place(ranges, strip.first, strip.last)
    )
    said = "; ".join(f"{name}: {count:,}" for _, name, count in counts)
    label = f"Versions {first} to {last}. {said}"
    size: dict[str, str | int] = {"width": "100%", "height": _STRIP_PIXELS}
    return element(
        "figure",
        element("figcaption", *(_key(tone, f"{name} ({count:,})") for tone, name, count in counts)),
        element("svg", *drawn, role="img", aria_label=label, **size),
        element("div", element("span", f"version {first}"), element("span", last), class_="ends"),
    )


def _count(ranges: Sequence[VersionRange]) -> int:
    return sum(end - start + 1 for start, end in ranges)


def _place(ranges: Sequence[VersionRange], first: int, last: int) -> Iterable[tuple[str, str]]:
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


def _key(tone: Tone, name: str) -> Markup:
    swatch = element("rect", width=12, height=12, rx=2, class_=f"fill-{tone}")
    drawn = element("svg", swatch, width=12, height=12, aria_hidden="true")
    return element("span", drawn, name, class_="key")
