"""Print the plan and the report of ``restore`` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.page import Page, Styled, Tone
from deltactl.cli.pages.history_diff import render_diff
from deltactl.cli.parsing.argv import real_command, typed_command
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.missing_files.find import Missing
    from deltactl.operations.restore.run import RestorePlan, RestoreReport

_SHOWN = 20


def render_report(page: Page, report: RestoreReport, argv: Sequence[str], table: str) -> None:
    """Render what would be done (dry run) or what was done; ``argv`` is the command."""
    plan = report.plan
    if plan.is_empty:
        page.line(
            Styled("Nothing to restore", Tone.GOOD),
            f": version {plan.version} is the same as version {plan.target_version}",
        )
        return
    if report.version_after is None:
        _render_heading(page, "Would restore", plan)
    else:
        tone = Tone.CAUTION if report.gone else Tone.GOOD
        page.line(
            Styled(f"Restored version {plan.target_version}", tone),
            f"{_partitions(plan)} in version {report.version_after}",
        )
    _render_changes(page, plan)
    page.line()
    if report.version_after is None:
        page.line(Styled("DRY RUN - nothing was restored.", Tone.STRONG), " To do it: ")
        page.line(f"  {real_command(argv)}")
        return
    _render_missing(page, "gone", report.gone)
    page.line("To undo it:")
    page.line(f"  {_undo_command(plan, table)}")


def render_plan(page: Page, plan: RestorePlan) -> None:
    """Render the plan, before the user confirms it."""
    _render_heading(page, "Restore", plan)
    _render_changes(page, plan)
    page.line()


def _render_heading(page: Page, verb: str, plan: RestorePlan) -> None:
    page.line(Styled(f"{verb} version {plan.target_version}", Tone.STRONG), _partitions(plan))


def _partitions(plan: RestorePlan) -> str:
    return "" if plan.predicate is None else f" where {plan.predicate}"


def _render_changes(page: Page, plan: RestorePlan) -> None:
    page.line()
    render_diff(page, plan.diff)
    after = format_count(plan.files_after, "file", "files")
    page.fields([("table after", f"{after}, {format_size(plan.bytes_after)}")])
    if plan.missing:
        page.line()
        _render_missing(page, "missing", plan.missing)


def _render_missing(page: Page, label: str, missing: tuple[Missing, ...]) -> None:
    for file in missing[:_SHOWN]:
        page.line(Styled(f"{label}: ", Tone.BAD), f"{file.path}: {file.problem}")
    if len(missing) > _SHOWN:
        more = len(missing) - _SHOWN
        page.line(Styled(f"and {more:,} more (-o json lists all)", Tone.FAINT))


def _undo_command(plan: RestorePlan, table: str) -> str:
    where = [] if plan.predicate is None else ["--where", plan.predicate]
    return typed_command(["restore", table, "--to-version", str(plan.version), *where])
