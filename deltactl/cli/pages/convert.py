"""Print the plan, the report and the problems of ``convert`` as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.parsing.argv import real_command
from deltactl.protocol.schema import render_type
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.errors import ConversionError
    from deltactl.operations.convert.run import ConvertPlan, ConvertReport

_SHOWN_LEFT_OUT = 20
_SHOWN_COLUMNS = 40
_SHOWN_PROBLEMS = 40


def render_report(page: Page, report: ConvertReport, argv: Sequence[str]) -> None:
    """Render what would be done or what was done; ``argv`` is the command line."""
    plan = report.plan
    if plan is None:
        page.line(
            Styled("Already a Delta table", Tone.GOOD),
            f", version {report.version_after}: nothing was changed",
        )
        _render_unnamed(page, report)
        return
    _render_files(page, report, plan)
    _render_schema(page, plan)
    _render_left_out(page, plan)
    if report.dry_run:
        page.line()
        page.line(Styled("Nothing was changed.", Tone.STRONG), " To do it: ")
        page.line(f"  {real_command(argv)}")


def _render_unnamed(page: Page, report: ConvertReport) -> None:
    if not report.unnamed_files:
        return
    counted = format_count(report.unnamed_files, "Parquet file is", "Parquet files are")
    page.line(f"{counted} in the directory, but in no action of the log.")
    they, them = ("It is", "it") if report.unnamed_files == 1 else ("They are", "them")
    kept = f" `deltactl vacuum` keeps {them}." if report.vacuum_keeps_them else ""
    page.line(f"{they} not part of the table.{kept}")


def _render_files(page: Page, report: ConvertReport, plan: ConvertPlan) -> None:
    files = format_count(len(plan.files), "file", "files")
    facts = f" ({format_size(plan.size_bytes)}, {format_count(plan.num_rows, 'row')})"
    if report.dry_run:
        page.line(Styled(f"Would create a table of {files}", Tone.STRONG), facts)
        return
    page.line(
        Styled(f"Created a table of {files}", Tone.GOOD),
        f"{facts} in version {report.version_after}",
    )


def _render_schema(page: Page, plan: ConvertPlan) -> None:
    page.line()
    partitioning = plan.partitioning
    partitions = {f.name for f in partitioning.fields}
    rows = []
    for field in plan.metadata.schema.fields[:_SHOWN_COLUMNS]:
        notes = ["partition"] if field.name in partitions else []
        notes += ["type guessed"] if field.name in partitioning.guessed else []
        notes += ["widened"] if field.name in plan.widened else []
        rows.append((field.name, render_type(field.type), Styled(", ".join(notes), Tone.FAINT)))
    page.table([Column("column", elastic=True), Column("type", elastic=True), Column("")], rows)
    more = len(plan.metadata.schema.fields) - _SHOWN_COLUMNS
    if more > 0:
        page.line(Styled(f"and {more} more", Tone.FAINT))
    if partitioning.guessed:
        page.line(Styled("Use --partition-by to set the types of partition columns.", Tone.FAINT))


def _render_left_out(page: Page, plan: ConvertPlan) -> None:
    if not plan.left_out:
        return
    page.line()
    page.line(Styled("Left out", Tone.STRONG))
    shown = 0
    by_reason = sorted(plan.left_out, key=lambda entry: entry.reason)
    for reason, entries in groupby(by_reason, key=lambda entry: entry.reason):
        found = list(entries)
        page.line(f"  {format_count(len(found), 'file', 'files')}, {reason}")
        for entry in found[: max(0, _SHOWN_LEFT_OUT - shown)]:
            page.line("    ", entry.path)
        shown += len(found)
    if shown > _SHOWN_LEFT_OUT:
        page.line(Styled("-o csv lists all", Tone.FAINT))


def render_problems(page: Page, error: ConversionError) -> None:
    """Render the first problems that prevent a conversion."""
    for path, column, why in error.problems[:_SHOWN_PROBLEMS]:
        named = f"column {column}: " if column else ""
        page.line(Styled(path or "(several files)", Tone.STRONG), f"  {named}{why}")
    more = len(error.problems) - _SHOWN_PROBLEMS
    if more > 0:
        page.line(Styled(f"and {more} more: -o json lists all", Tone.FAINT))
