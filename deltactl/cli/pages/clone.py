"""The sections of the report of ``clone``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Fact, Section, Tone
from deltactl.cli.parsing.argv import typed_command
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.clone.plan import ClonePlan
    from deltactl.operations.clone.report import CloneReport


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
