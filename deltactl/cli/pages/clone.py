"""Print the report of ``clone`` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.page import Page, Styled, Tone
from deltactl.cli.parsing.argv import real_command, typed_command
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.clone.plan import ClonePlan
    from deltactl.operations.clone.report import CloneReport


def render_report(page: Page, report: CloneReport, argv: Sequence[str], target: str) -> None:
    """Render what would be done (dry run) or what was done; ``argv`` is the command."""
    plan = report.plan
    if report.is_done:
        page.line(
            Styled("Nothing to clone", Tone.GOOD),
            f": the target is already at version {plan.version}",
        )
        return
    verb = "Would clone" if report.dry_run else "Cloned"
    text = "" if plan.predicate is None else f" where {plan.predicate}"
    after = "" if report.version_after is None else f", version {report.version_after}"
    tone = Tone.STRONG if report.dry_run else Tone.GOOD
    page.line(
        Styled(f"{verb} version {plan.version}", tone),
        f"{text} to {report.target_uri}{after}",
    )
    page.line()
    page.fields(_fields(report, plan))
    page.line()
    if report.dry_run:
        page.line(Styled("DRY RUN - nothing was cloned.", Tone.STRONG), " To do it: ")
        page.line(f"  {real_command(argv)}")
    elif plan.deep:
        page.line("To compare all files of the clone with its log:")
        page.line(f"  {typed_command(['check', target])}")
    else:
        page.line("The clone needs the files of:")
        for uri in report.notes or (plan.source_uri,):
            page.line(f"  {uri}")


def _fields(report: CloneReport, plan: ClonePlan) -> list[tuple[str, str]]:
    fields = [("table", _describe(plan.num_files, plan.size_bytes))]
    if plan.deep and plan.num_vectors:
        fields.append(("vectors", format_count(plan.num_vectors, "file", "files")))
    if not plan.deep:
        fields.append(("copied", "no files: the clone refers to the files of the source"))
    elif not report.dry_run:
        fields.append(("copied", _describe(report.files_copied, report.bytes_copied)))
    if report.files_kept:
        fields.append(("there before", format_count(report.files_kept, "file", "files")))
    if report.version_before is not None:
        fields.append(("added", format_count(report.files_added, "file", "files")))
        fields.append(("removed", _describe(report.files_removed, report.bytes_removed)))
    return fields


def _describe(num_files: int, size_bytes: int) -> str:
    return f"{format_count(num_files, 'file', 'files')}, {format_size(size_bytes)}"
