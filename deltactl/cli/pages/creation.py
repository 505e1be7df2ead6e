"""The sections of commands that add a table: ``clone``, ``convert`` and ``register``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Fact, Kind, Section, Tone, list_rows
from deltactl.cli.pages.detail import list_columns
from deltactl.cli.parsing.argv import typed_command
from deltactl.protocol.column_names import format_column
from deltactl.protocol.schema import render_type
from deltactl.storage.names import is_local_uri
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.errors import ConversionError
    from deltactl.operations.clone.plan import ClonePlan
    from deltactl.operations.clone.report import CloneReport
    from deltactl.operations.convert.run import ConvertPlan, ConvertReport
    from deltactl.operations.register.run import RegisterReport


def describe_clone(report: CloneReport, target: str) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if report.is_done:
        lost = format_count(report.files_copied, "file") + " that the clone had lost"
        label = "to copy again" if report.dry_run else "copied again"
        yield Section(
            (Tone.GOOD("Nothing to clone"), f": already at version {plan.version}"),
            facts=[(label, lost if report.files_copied else None)],
        )
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
    elif not report.dry_run or report.files_copied:
        label = "to copy" if report.dry_run else "copied"
        yield label, _describe(report.files_copied, report.bytes_copied)
    yield "there before", format_count(kept, "file") if kept else None
    if report.version_before is not None:
        yield "added", format_count(report.files_added, "file")
        yield "removed", _describe(report.files_removed, report.bytes_removed)


def _describe(num_files: int, size_bytes: int) -> str:
    return f"{format_count(num_files, 'file')}, {format_size(size_bytes)}"


def describe_convert(report: ConvertReport, table: str) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if plan is None:
        said = f", version {report.version_after}: nothing was changed"
        note = _describe_unnamed(report) if report.unnamed_files else None
        yield Section((Tone.GOOD("Already a Delta table"), said), notes=[note])
        return
    tone, verb = (Tone.STRONG, "Would create") if report.dry_run else (Tone.GOOD, "Created")
    files = f"{verb} a table of {format_count(len(plan.files), 'file')}"
    size = f" ({format_size(plan.size_bytes)}, {format_count(plan.num_rows, 'row')})"
    yield Section(
        (tone(files), size + ("" if report.dry_run else f" in version {report.version_after}"))
    )
    yield _describe_schema(plan)
    columns = [Column("file", Kind.PATH, "path"), Column("reason", Kind.TEXT)]
    left_out = sorted(plan.left_out, key=lambda it: it.reason)
    yield from list_rows(f"Left out ({len(left_out):,})", Tone.STRONG, columns, left_out)
    if not report.dry_run:
        # AWS Glue takes no table on this machine.
        kinds = ("hive", "uc://") if is_local_uri(table) else ("glue", "uc:// or hive://")
        register = typed_command(["register", table, f"{kinds[0]}://DATABASE.NAME"])
        yield Section(f"To add it to a catalog ({kinds[0]}://, or {kinds[1]}):", code=register)


def _describe_unnamed(report: ConvertReport) -> str:
    counted = format_count(report.unnamed_files, "Parquet file is", "Parquet files are")
    they, them = ("It is", "it") if report.unnamed_files == 1 else ("They are", "them")
    kept = f" `deltactl vacuum` keeps {them}." if report.vacuum_keeps_them else ""
    return f"{counted} in the directory, but not in the log. {they} not part of the table.{kept}"


def _describe_schema(plan: ConvertPlan) -> Section:
    partitioning = plan.partitioning
    partitions = {f.name for f in partitioning.fields}
    rows = [
        (
            field.name,
            render_type(field.type),
            ["partition"] * (field.name in partitions)
            + ["type guessed"] * (field.name in partitioning.guessed)
            + ["widened"] * any(f"{it}.".startswith(f"{field.name}.") for it in plan.widened),
        )
        for field in plan.metadata.schema.fields
    ]
    asked = ", ".join(
        f"{format_column([f.name])} {render_type(f.type)}" for f in partitioning.fields
    )
    note = [f'Use --partition-by "{asked}" to set the types of partition columns.']
    return list_columns(rows, "-o json lists all", note if partitioning.guessed else ())


def describe_problems(error: ConversionError) -> Iterator[Section]:
    """Return the problems that prevent a conversion."""
    columns = [
        Column("file", Kind.PATH, empty="(schema)", tone=Tone.STRONG),
        Column("column", Kind.TEXT),
        Column("problem", Kind.DETAIL),
    ]
    rows = error.problems
    return list_rows(f"Problems ({len(rows):,})", Tone.BAD, columns, rows)


def describe_registration(report: RegisterReport) -> Iterator[Section]:
    """Return what would be done or what was done."""
    where = f" in {report.catalog}"
    if report.is_done:
        yield Section((Tone.GOOD(f"{report.name} is up to date"), where))
        return
    tone, verb = (Tone.STRONG, "would be") if report.dry_run else (Tone.GOOD, "was")
    title = tone(f"{report.name} {verb} {'changed' if report.existed else 'created'}"), where
    counts = {"partitions added": len(report.new), "partitions removed": len(report.gone)}
    facts = [(key, format_count(n, "partition") if n else None) for key, n in counts.items()]
    yield Section(title, facts=[("location", report.location), *facts])
    columns = [Column("what"), Column("catalog", Kind.TEXT), Column("table", Kind.TEXT)]
    yield from list_rows("Differences", Tone.STRONG, columns, report.differences)
