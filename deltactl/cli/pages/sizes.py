"""Print histograms of file sizes as text: one, or one before and one after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.output.page import Cell, Column, Page, Styled, Tone
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.file_sizes import FileSizes

_LONGEST_BAR: Final = 40
_SHORTEST_BAR: Final = 8
# Approximate width of the other columns: names, counts and gaps.
_BESIDE: Final = 44


def render_sizes(page: Page, sizes: FileSizes) -> None:
    """Add a histogram of files by size, and how many are small."""
    if not sizes.num_files:
        return
    page.line()
    bars = _bars(sizes.files, max(sizes.files), _room(page, 1))
    columns = [Column("file sizes"), Column("files", right=True), Column("size", right=True)]
    lines: list[list[Cell]] = [
        [
            f"  {label}",
            f"{sizes.files[i]:,}",
            format_size(sizes.bytes[i]),
            Styled(bars[i], _tone(i, sizes)),
        ]
        for i, label in _shown([sizes])
    ]
    page.table([*columns, Column("", spare=1)], lines)
    _render_small(page, "small", sizes)


def render_sizes_change(page: Page, before: FileSizes, after: FileSizes) -> None:
    """Add histograms of files by size as they are and as they would be."""
    page.line()
    longest, room = max(*before.files, *after.files), _room(page, 2)
    sides = [_bars(sizes.files, longest, room) for sizes in (before, after)]
    columns = [
        Column("file sizes"),
        Column("now", right=True),
        Column(""),
        Column("after", right=True),
        Column(""),
    ]
    lines: list[list[Cell]] = [
        [
            f"  {label}",
            f"{before.files[i]:,}" if before.files[i] else "",
            Styled(sides[0][i], Tone.CAUTION),
            f"{after.files[i]:,}" if after.files[i] else "",
            Styled(sides[1][i], Tone.GOOD),
        ]
        for i, label in _shown([before, after])
    ]
    page.table(columns, lines)
    _render_small(page, "small now", before)
    _render_small(page, "small after", after)


def _render_small(page: Page, label: str, sizes: FileSizes) -> None:
    page.line(f"  {label}: {describe_small(sizes.to_dict())}")


def describe_small(sizes: Mapping[str, Any]) -> str:
    """Return how many files are small, from the sizes as in JSON."""
    files = format_count(sum(bucket["files"] for bucket in sizes["histogram"]), "file", "files")
    return (
        f"{sizes['small_files']:,} of {files} ({sizes['small_file_share']:.0%}), "
        f"{format_size(sizes['small_bytes'])}; small is below "
        f"{format_size(sizes['small_below_bytes'])}"
    )


def _shown(all_sizes: Sequence[FileSizes]) -> list[tuple[int, str]]:
    """Return positions and names of the buckets from the first to the last with files."""
    from deltactl.operations.file_sizes import EDGES

    starts = (0, *EDGES)
    used = (starts[i] for sizes in all_sizes for i, files in enumerate(sizes.files) if files)
    return [(starts.index(start), label) for start, label in label_buckets(used)]


def label_buckets(used: Iterable[int]) -> list[tuple[int, str]]:
    """Return starts (bytes) and names of the buckets from the first to the last used one."""
    from deltactl.operations.file_sizes import EDGES

    labels = [f"< {format_size(edge)}" for edge in EDGES] + [f">= {format_size(EDGES[-1])}"]
    starts = set(used)
    named = zip((0, *EDGES), labels, strict=True)
    return [pair for pair in named if starts and min(starts) <= pair[0] <= max(starts)]


def _room(page: Page, bars: int) -> int:
    return min(max((page.width - _BESIDE) // bars, _SHORTEST_BAR), _LONGEST_BAR)


def _bars(counts: Sequence[int], longest: int, room: int) -> list[str]:
    """Return a bar for each count; a count above 0 has at least one character."""
    scale = max(longest, 1)
    return ["#" * max(round(count * room / scale), 1) if count else "" for count in counts]


def _tone(bucket: int, sizes: FileSizes) -> Tone:
    from deltactl.operations.file_sizes import EDGES

    is_small = bucket < len(EDGES) and EDGES[bucket] <= sizes.small
    return Tone.CAUTION if is_small else Tone.GOOD
