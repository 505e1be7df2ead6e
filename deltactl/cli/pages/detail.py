"""The sections of ``describe-detail``, and those about sizes of files and skipped files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Fact, Kind, Section, Table, Tone
from deltactl.units import format_count, format_instant, format_size

if TYPE_CHECKING:
    from deltactl.operations.detail import DetailReport
    from deltactl.operations.file_sizes import FileSizes
    from deltactl.operations.skipping.report import LayoutReport
    from deltactl.protocol.readers import Verdict

_SHOWN_COLUMNS = 40


def summarise_detail(report: DetailReport) -> str:
    """Return version and size in one line, for a list of tables."""
    row = report.row
    size = f"{format_count(row['numFiles'], 'file')}, {format_size(row['sizeInBytes'])}"
    return f"version {report.version}, {size}"


def describe_detail(report: DetailReport, now_ms: int) -> Iterator[Section]:
    """Return the properties, columns and features of a table."""
    row = report.row

    def instant(timestamp_ms: int | None) -> str:
        return "-" if timestamp_ms is None else format_instant(timestamp_ms, now_ms)

    entry = {} if report.entry is None else report.entry.to_dict()
    yield Section(
        facts=[
            ("location", Tone.STRONG(row["location"])),
            ("catalog", entry.pop("catalog", None)),
            *((f"{key} in catalog", value) for key, value in entry.items()),
            ("version", f"{report.version}, committed {instant(report.timestamp_ms)}"),
            ("size", f"{format_count(row['numFiles'], 'file')}, {format_size(row['sizeInBytes'])}"),
            ("id", row["id"]),
            ("name", row["name"]),
            ("description", row["description"]),
            ("created", instant(row["createdAt"])),
            ("last modified", instant(row["lastModified"])),
            ("partitioned by", ", ".join(row["partitionColumns"])),
            ("clustered by", ", ".join(row["clusteringColumns"])),
            ("protocol", f"reader {row['minReaderVersion']}, writer {row['minWriterVersion']}"),
        ]
    )
    if report.sizes.num_files:
        yield describe_sizes(report.sizes)
    if report.layout is not None:
        yield describe_skipping(report.layout)
    yield _describe_columns(report)
    if row["properties"]:
        shown = [(name, value or "(empty)") for name, value in sorted(row["properties"].items())]
        yield Section(Tone.STRONG("Properties"), facts=shown)
    yield _describe_features(report)
    if report.readers is not None:
        yield _describe_readers(report.readers)


def _describe_columns(report: DetailReport) -> Section:
    if report.columns is None:
        return Section(Tone.BAD("The schema cannot be read"))
    partitions = set(report.row["partitionColumns"])
    rows = [
        (name, kind, ["not null"] * (not nullable) + ["partition"] * (name in partitions))
        for name, kind, nullable in report.columns
    ]
    return list_columns(rows, more="-o json has the schema")


def list_columns(
    rows: Sequence[tuple[str, str, Sequence[str]]], more: str, notes: Sequence[str] = ()
) -> Section:
    """Return the columns of a table, with their types and remarks."""
    columns = [Column("column", Kind.TEXT), Column("type", Kind.TEXT), Column("", tone=Tone.FAINT)]
    shown = [(name, kind, ", ".join(remarks)) for name, kind, remarks in rows]
    table = Table(columns, shown, most=_SHOWN_COLUMNS, more=more)
    return Section(Tone.STRONG(f"Columns ({len(rows):,})"), table=table, notes=notes)


def _describe_features(report: DetailReport) -> Section:
    from deltactl.protocol.features import Operation

    facts: list[Fact] = [("features", ", ".join(report.row["tableFeatures"] or ["none"]))]
    for verb, operation in (("read", Operation.READ), ("optimize", Operation.REWRITE)):
        refusal = report.refusals.get(operation)
        answer = Tone.GOOD("yes") if refusal is None else Tone.BAD(f"no: {refusal}")
        facts.append((f"deltactl can {verb} it", answer))
    return Section(facts=facts)


def _describe_readers(readers: Sequence[Verdict]) -> Section:
    tones = {"yes": Tone.GOOD, "no": Tone.BAD}
    rows = [
        (
            it.engine,
            it.version,
            tones.get(it.answer, Tone.CAUTION)(it.answer),
            ", ".join(it.reasons),
        )
        for it in readers
    ]
    columns = [
        Column("engine"),
        Column("version", Kind.TEXT, spare=1),
        Column("reads it"),
        Column("because of", Kind.DETAIL),
    ]
    table = Table(columns, rows, most=None)
    return Section(Tone.STRONG("Engines"), table=table, notes=["-o json has the sources"])


def describe_sizes(sizes: FileSizes) -> Section:
    """Return the numbers of files by size, and how many are small."""
    edges, longest = _label_buckets([sizes]), max(sizes.files)
    rows = [
        (
            label,
            sizes.files[i],
            sizes.bytes[i],
            (sizes.files[i] / longest, Tone.CAUTION if edge <= sizes.small else Tone.GOOD),
        )
        for i, edge, label in edges
    ]
    columns = [
        Column("size of a file"),
        Column("files", Kind.NUMBER),
        Column("size", Kind.BYTES),
        Column("", Kind.BAR, spare=1),
    ]
    notes = [f"small: {_describe_small(sizes)}"]
    return Section(Tone.STRONG("Files by size"), table=Table(columns, rows), notes=notes)


def describe_sizes_change(before: FileSizes, after: FileSizes, *, is_done: bool) -> Section:
    """Return the numbers of files by size, before and after."""
    edges, longest = _label_buckets([before, after]), max(*before.files, *after.files)
    rows = [
        (label, *(it for n in (before.files[i], after.files[i]) for it in (n or None, n / longest)))
        for i, _, label in edges
    ]
    sides = ("before", "after") if is_done else ("now", "after")
    columns = [Column("size of a file"), *_column_pair(sides, Kind.NUMBER)]
    notes = [f"small {sides[0]}: {_describe_small(before)}"]
    notes += [f"small {sides[1]}: {_describe_small(after)}"]
    table = Table(columns, rows)
    return Section(Tone.STRONG("Files by size"), table=table, notes=notes, is_aside=is_done)


def _column_pair(sides: tuple[str, str], kind: Kind) -> Iterator[Column]:
    for side, tone in zip(sides, (Tone.CAUTION, Tone.GOOD), strict=True):
        yield Column(side, kind)
        yield Column("", Kind.BAR, tone=tone)


def _describe_small(sizes: FileSizes) -> str:
    files = format_count(sizes.num_files, "file")
    return (
        f"{sizes.small_files:,} of {files} ({sizes.small_share:.0%}), "
        f"{format_size(sizes.small_bytes)}; small is below {format_size(sizes.small)}"
    )


def _label_buckets(sides: list[FileSizes]) -> list[tuple[int, float, str]]:
    """Return positions, edges and names of the buckets from the first to the last with files."""
    from deltactl.operations.file_sizes import EDGES

    labels = [f"< {format_size(edge)}" for edge in EDGES] + [f">= {format_size(EDGES[-1])}"]
    used = [i for sizes in sides for i, files in enumerate(sizes.files) if files]
    edges = zip(range(len(labels)), [*EDGES, math.inf], labels, strict=True)
    return list(edges)[min(used) : max(used) + 1] if used else []


def describe_skipping(report: LayoutReport) -> Section:
    """Return for each column the share of the files that a lookup of one value skips."""
    columns = [Column("column", Kind.PATH), *_column_pair(("now", "after"), Kind.SHARE)]
    rows = []
    for column in report.columns:
        shares = [None if it is None else max(it, 0.0) for it in (column.before, column.after)]
        bars = [it if it and round(100 * it) else None for it in shares]  # none beside "0%"
        shown = ["-" if share is None else share for share in shares]
        rows.append((column.column, shown[0], bars[0], shown[1], bars[1]))
    now, after = format_count(report.files, "file"), format_count(report.files_after, "file")
    names = ", ".join(column.column for column in report.columns)
    unknown = [
        Tone.CAUTION(
            f"{format_count(column.no_bounds, 'file has', 'files have')} no statistics of "
            f"{column.column}, so lookups never skip them"
        )
        for column in report.columns
        if column.no_bounds
    ]
    return Section(
        Tone.STRONG("Files that a lookup of one value skips"),
        table=Table(columns, rows, most=None),
        notes=[f"now: {now}; after: {after}, {report.layout} by {names}", *unknown],
    )
