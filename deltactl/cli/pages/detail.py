"""The sections of ``describe-detail``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import (
    Column,
    Fact,
    Kind,
    Listed,
    Section,
    Styled,
    Table,
    Tone,
)
from deltactl.cli.pages.sizes import describe_sizes, describe_skipping
from deltactl.units import format_age, format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.operations.detail import DetailReport

_SHOWN_COLUMNS = 40


def describe_detail(report: DetailReport, now_ms: int) -> Iterator[Section]:
    """Return the properties, columns and features of a table."""
    row = report.row

    def instant(timestamp_ms: int | None) -> str:
        if timestamp_ms is None:
            return "-"
        return f"{format_timestamp(timestamp_ms)} ({format_age(now_ms - timestamp_ms)})"

    facts: list[Fact] = [
        ("location", Styled(row["location"], Tone.STRONG)),
        *_describe_entry(report),
        ("version", f"{report.version}, committed {instant(report.timestamp_ms)}"),
        ("size", f"{format_count(row['numFiles'], 'file')}, {format_size(row['sizeInBytes'])}"),
        ("id", row["id"]),
        ("name", row["name"] or ""),
        ("description", row["description"] or ""),
        ("created", instant(row["createdAt"])),
        ("last modified", instant(row["lastModified"])),
        ("partitioned by", ", ".join(row["partitionColumns"])),
        ("clustered by", ", ".join(row["clusteringColumns"])),
        ("protocol", f"reader {row['minReaderVersion']}, writer {row['minWriterVersion']}"),
    ]
    yield Section(facts=[(label, value) for label, value in facts if value != ""])
    if report.sizes.num_files:
        yield describe_sizes(report.sizes)
    if report.layout is not None:
        yield describe_skipping(report.layout)
    yield _describe_columns(report)
    if row["properties"]:
        properties = sorted(row["properties"].items())
        yield Section(Styled("Properties", Tone.STRONG), facts=properties)
    yield _describe_features(report)


def _describe_entry(report: DetailReport) -> Iterator[Fact]:
    if report.entry is not None:
        found = report.entry.to_dict()
        yield "catalog", found.pop("catalog") or ""
        yield from ((f"{key} in catalog", value or "") for key, value in found.items())


def _describe_columns(report: DetailReport) -> Section:
    if report.columns is None:
        return Section(Styled("The schema cannot be read", Tone.BAD))
    partitions = set(report.row["partitionColumns"])
    rows = [
        (
            name,
            kind,
            ", ".join(["not null"] * (not nullable) + ["partition"] * (name in partitions)),
        )
        for name, kind, nullable in report.columns
    ]
    columns = [
        Column("column", Kind.TEXT),
        Column("type", Kind.TEXT),
        Column("", tone=Tone.FAINT),
    ]
    table = Table(columns, rows, most=_SHOWN_COLUMNS, more="-o json has the schema")
    return Section(Styled(f"Columns ({len(rows):,})", Tone.STRONG), table=table)


def _describe_features(report: DetailReport) -> Section:
    from deltactl.protocol.features import Operation

    features = report.row["tableFeatures"] or ["none"]
    facts: list[Fact] = [("features", Listed(features, most=len(features)))]
    for verb, operation in (("read", Operation.READ), ("optimize", Operation.REWRITE)):
        refusal = report.refusals.get(operation)
        answer = Styled("yes", Tone.GOOD) if refusal is None else Styled(f"no: {refusal}", Tone.BAD)
        facts.append((f"deltactl can {verb} it", answer))
    return Section(facts=facts)
