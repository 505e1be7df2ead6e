"""The sections of the plan and the report of ``restore``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Line, Section, Styled, Tone
from deltactl.cli.pages.history_diff import describe_diff
from deltactl.cli.pages.vacuum import list_files
from deltactl.cli.parsing.argv import typed_command
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.restore.run import RestorePlan, RestoreReport


def describe_restore(report: RestoreReport, table: str) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if plan.is_empty:
        said = f": version {plan.version} is the same as version {plan.target_version}"
        yield Section((Tone.GOOD("Nothing to restore"), said))
        return
    if report.version_after is None:
        yield from _describe_changes(_title("Would restore", plan), plan)
        return
    tone = Tone.CAUTION if report.gone else Tone.GOOD
    title = (*_title("Restored", plan, tone), f" in version {report.version_after}")
    yield from _describe_changes(title, plan)
    gone = [(file.path, file.problem) for file in report.gone]
    yield from list_files("Gone", gone, Tone.BAD)
    where = [] if plan.predicate is None else ["--where", plan.predicate]
    undo = typed_command(["restore", table, "--to-version", str(plan.version), *where])
    yield Section("To undo it:", code=undo)


def describe_plan(plan: RestorePlan) -> Iterator[Section]:
    """Return the plan, before the user confirms it."""
    return _describe_changes(_title("Restore", plan), plan)


def _title(verb: str, plan: RestorePlan, tone: Tone = Tone.STRONG) -> tuple[Styled, str]:
    where = "" if plan.predicate is None else f" where {plan.predicate}"
    return tone(f"{verb} version {plan.target_version}"), where


def _describe_changes(title: Line, plan: RestorePlan) -> Iterator[Section]:
    after = f"{format_count(plan.files_after, 'file')}, {format_size(plan.bytes_after)}"
    yield from describe_diff(plan.diff, title, [("table after", after)])
    missing = [(file.path, file.problem) for file in plan.missing]
    yield from list_files("Missing", missing, Tone.BAD)
