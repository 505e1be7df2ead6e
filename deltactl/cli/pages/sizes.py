"""The sections about files by size, and about what lookups skip: now, and as it would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Kind, Section, Styled, Table, Tone
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.file_sizes import FileSizes
    from deltactl.operations.skipping.report import LayoutReport


def describe_sizes(sizes: FileSizes) -> Section:
    """Return the numbers of files by size, and how many are small."""
    from deltactl.operations.file_sizes import EDGES

    tones = [Tone.CAUTION if edge <= sizes.small else Tone.GOOD for edge in EDGES] + [Tone.GOOD]
    longest = max(sizes.files)
    rows = [
        (label, sizes.files[i], sizes.bytes[i], (sizes.files[i] / longest, tones[i]))
        for i, label in _label_buckets([sizes])
    ]
    columns = [
        Column("size of a file"),
        Column("files", Kind.NUMBER),
        Column("size", Kind.BYTES),
        Column("", Kind.BAR, spare=1),
    ]
    return Section(
        Styled("Files by size", Tone.STRONG),
        table=Table(columns, rows),
        notes=[f"small: {_describe_small(sizes)}"],
    )


def describe_sizes_change(before: FileSizes, after: FileSizes, *, is_done: bool) -> Section:
    """Return the numbers of files by size, before and after as planned."""
    longest = max(*before.files, *after.files)
    rows = [
        (
            label,
            before.files[i] or "",
            before.files[i] / longest,
            after.files[i] or "",
            after.files[i] / longest,
        )
        for i, label in _label_buckets([before, after])
    ]
    sides = ("before", "after, as planned") if is_done else ("now", "after")
    columns = [
        Column("size of a file"),
        Column(sides[0], Kind.NUMBER),
        Column("", Kind.BAR, tone=Tone.CAUTION),
        Column(sides[1], Kind.NUMBER),
        Column("", Kind.BAR, tone=Tone.GOOD),
    ]
    notes = [
        f"small {side}: {_describe_small(sizes)}"
        for side, sizes in zip(sides, (before, after), strict=True)
    ]
    return Section(
        Styled("Files by size", Tone.STRONG),
        table=Table(columns, rows),
        notes=notes,
        is_aside=is_done,
    )


def _describe_small(sizes: FileSizes) -> str:
    files = format_count(sizes.num_files, "file")
    return (
        f"{sizes.small_files:,} of {files} ({sizes.small_share:.0%}), "
        f"{format_size(sizes.small_bytes)}; small is below {format_size(sizes.small)}"
    )


def _label_buckets(sides: list[FileSizes]) -> list[tuple[int, str]]:
    """Return positions and names of the buckets from the first to the last with files."""
    from deltactl.operations.file_sizes import EDGES

    labels = [f"< {format_size(edge)}" for edge in EDGES] + [f">= {format_size(EDGES[-1])}"]
    used = [i for sizes in sides for i, files in enumerate(sizes.files) if files]
    return list(enumerate(labels))[min(used) : max(used) + 1] if used else []


def describe_skipping(report: LayoutReport) -> Section:
    """Return for each column the share of the files that a lookup of one value skips."""
    columns = [
        Column("column", Kind.PATH),
        Column("now", Kind.SHARE),
        Column("", Kind.BAR, tone=Tone.CAUTION),
        Column("after", Kind.SHARE),
        Column("", Kind.BAR, tone=Tone.GOOD),
    ]
    rows = []
    for column in report.columns:
        shares = [None if it is None else max(it, 0.0) for it in (column.before, column.after)]
        shown = ["-" if share is None else share for share in shares]
        rows.append((column.column, shown[0], shares[0], shown[1], shares[1]))
    now, after = format_count(report.files, "file"), format_count(report.files_after, "file")
    names = ", ".join(column.column for column in report.columns)
    unknown = [
        Styled(
            f"{format_count(column.no_bounds, 'file has', 'files have')} no statistics of "
            f"{column.column}, so lookups never skip them",
            Tone.CAUTION,
        )
        for column in report.columns
        if column.no_bounds
    ]
    return Section(
        Styled("Files that a lookup of one value skips", Tone.STRONG),
        table=Table(columns, rows, most=None),
        notes=[f"now: {now}; after: {after}, {report.layout} by {names}", *unknown],
    )
