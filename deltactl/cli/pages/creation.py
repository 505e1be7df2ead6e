"""The sections of ``clone`` and ``convert``, which create tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Fact, Kind, Section, Tone, list_rows
from deltactl.cli.pages.detail import list_columns
from deltactl.cli.parsing.argv import typed_command
from deltactl.protocol.schema import render_type
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.errors import ConversionError
    from deltactl.operations.clone.plan import ClonePlan
    from deltactl.operations.clone.report import CloneReport
    from deltactl.operations.convert.run import ConvertPlan, ConvertReport


def describe_clone(report: CloneReport, target: str) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if report.is_done:
        said = f": the target is already at version {plan.version}"
        yield Section((Tone.GOOD("Nothing to clone"), said))
        return
    verb = "Would clone" if report.dry_run else "Cloned"
    where = "" if plan.predicate is None else f" where {plan.predicate}"
    after = "" if report.version_after is None else f", version {report.version_after}"
    tone = Tone.STRONG if report.dry_run else Tone.GOOD
    title = tone(f"{verb} version {plan.version}"), f"{where} to {report.target_uri}{after}"
    yield Section(title, facts=list(_list_facts(report, plan)))
    if not report.dry_run and plan.deep:
        check = typed_command(["check", target])
        yield Section("To compare all files of the clone with its log:", code=check)
    elif not report.dry_run:
        sources = report.notes or (plan.source_uri,)
        yield Section("The clone needs the files of:", code="\n".join(sources))


def _list_facts(report: CloneReport, plan: ClonePlan) -> Iterator[Fact]:
    vectors, kept = plan.num_vectors if plan.deep else 0, report.files_kept
    yield "table", _describe(plan.num_files, plan.size_bytes)
    yield "vectors", format_count(vectors, "file") if vectors else None
    if not plan.deep:
        yield "copied", "no files: the clone refers to the files of the source"
    elif not report.dry_run:
        yield "copied", _describe(report.files_copied, report.bytes_copied)
    yield "there before", format_count(kept, "file") if kept else None
    if report.version_before is not None:
        yield "added", format_count(report.files_added, "file")
        yield "removed", _describe(report.files_removed, report.bytes_removed)


def _describe(num_files: int, size_bytes: int) -> str:
    return f"{format_count(num_files, 'file')}, {format_size(size_bytes)}"


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
    columns = [Column("file", Kind.PATH), Column("reason", Kind.TEXT)]
    left_out = sorted(plan.left_out, key=lambda it: it.reason)
    rows = [(it.path, it.reason) for it in left_out]
    yield from list_rows(f"Left out ({len(rows):,})", Tone.STRONG, columns, rows)


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
        Column("file", Kind.PATH, empty="(several files)", tone=Tone.STRONG),
        Column("column", Kind.TEXT),
        Column("problem", Kind.DETAIL),
    ]
    rows = error.problems
    return list_rows(f"Problems ({len(rows):,})", Tone.BAD, columns, rows)
