"""The sections of the report and the problems of ``convert``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.cli.pages.detail import list_columns
from deltactl.protocol.schema import render_type
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.errors import ConversionError
    from deltactl.operations.convert.run import ConvertPlan, ConvertReport

_SHOWN = 40


def describe_convert(report: ConvertReport) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if plan is None:
        said = f", version {report.version_after}: nothing was changed"
        notes = [_describe_unnamed(report)] if report.unnamed_files else []
        yield Section((Tone.GOOD("Already a Delta table"), said), notes=notes)
        return
    files = format_count(len(plan.files), "file")
    facts = f" ({format_size(plan.size_bytes)}, {format_count(plan.num_rows, 'row')})"
    if report.dry_run:
        yield Section((Tone.STRONG(f"Would create a table of {files}"), facts))
    else:
        version = f"{facts} in version {report.version_after}"
        yield Section((Tone.GOOD(f"Created a table of {files}"), version))
    yield _describe_schema(plan)
    if plan.left_out:
        columns = [Column("file", Kind.PATH), Column("reason", Kind.TEXT)]
        rows = sorted(((it.path, it.reason) for it in plan.left_out), key=lambda row: row[1])
        table = Table(columns, rows, more="-o csv lists all")
        yield Section(Tone.STRONG(f"Left out ({len(rows):,})"), table=table)


def _describe_unnamed(report: ConvertReport) -> str:
    counted = format_count(report.unnamed_files, "Parquet file is", "Parquet files are")
    they, them = ("It is", "it") if report.unnamed_files == 1 else ("They are", "them")
    kept = f" `deltactl vacuum` keeps {them}." if report.vacuum_keeps_them else ""
    return (
        f"{counted} in the directory, but in no action of the log. {they} not part of the "
        f"table.{kept}"
    )


def _describe_schema(plan: ConvertPlan) -> Section:
    partitioning = plan.partitioning
    partitions = {f.name for f in partitioning.fields}
    rows = [
        (
            field.name,
            render_type(field.type),
            ["partition"] * (field.name in partitions)
            + ["type guessed"] * (field.name in partitioning.guessed)
            + ["widened"] * (field.name in plan.widened),
        )
        for field in plan.metadata.schema.fields
    ]
    note = ["Use --partition-by to set the types of partition columns."]
    return list_columns(rows, "-o json lists all", note if partitioning.guessed else ())


def describe_problems(error: ConversionError) -> Iterator[Section]:
    """Return the problems that prevent a conversion."""
    columns = [
        Column("file", Kind.PATH, tone=Tone.STRONG),
        Column("column", Kind.TEXT),
        Column("problem", Kind.DETAIL),
    ]
    rows = [(path or "(several files)", column or "", why) for path, column, why in error.problems]
    title = Tone.BAD(f"Problems ({len(rows):,})")
    yield Section(title, table=Table(columns, rows, most=_SHOWN))
