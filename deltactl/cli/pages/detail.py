"""The sections of ``describe-detail``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Fact, Kind, Listed, Section, Table, Tone
from deltactl.cli.pages.sizes import describe_sizes, describe_skipping
from deltactl.units import format_count, format_instant, format_size

if TYPE_CHECKING:
    from deltactl.operations.detail import DetailReport

_SHOWN_COLUMNS = 40


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
        yield Section(Tone.STRONG("Properties"), facts=sorted(row["properties"].items()))
    yield _describe_features(report)


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

    features = report.row["tableFeatures"] or ["none"]
    facts: list[Fact] = [("features", Listed(features, most=len(features)))]
    for verb, operation in (("read", Operation.READ), ("optimize", Operation.REWRITE)):
        refusal = report.refusals.get(operation)
        answer = Tone.GOOD("yes") if refusal is None else Tone.BAD(f"no: {refusal}")
        facts.append((f"deltactl can {verb} it", answer))
    return Section(facts=facts)
