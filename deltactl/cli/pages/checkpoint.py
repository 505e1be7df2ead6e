"""The sections of the reports of ``checkpoint``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone, list_versions
from deltactl.cli.pages.vacuum import list_files
from deltactl.units import format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.log.upkeep.cleanup import CleanupPlan
    from deltactl.operations.checkpoint.repair import RepairReport
    from deltactl.operations.checkpoint.run import CheckpointReport, DueReport
    from deltactl.operations.checkpoint.write import WrittenCheckpoint


def describe_due(report: DueReport) -> Iterator[Section]:
    """Return whether a checkpoint is due."""
    yield Section(
        Tone.CAUTION("A checkpoint is due") if report.due else Tone.GOOD("No checkpoint is due"),
        facts=[
            ("version", str(report.version)),
            ("last checkpoint", "none yet" if report.last < 0 else f"version {report.last}"),
            ("interval", format_count(report.interval, "commit")),
            ("problem", report.hint_problem),
        ],
    )


def describe_checkpoint(report: CheckpointReport) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan, cleanup = report.plan, report.cleanup
    if report.is_empty:
        oldest = cleanup and f"nothing is left before version {cleanup.checkpoint_version}"
        note = f"log cleanup: {cleanup.reason or oldest}" if cleanup else None
        yield Section((Tone.GOOD("Nothing to do"), f": {plan.reason}"), notes=[note])
        return
    if report.written is not None:
        yield _describe_written(report.written, report)
    elif not plan.is_empty:
        actions = plan.actions
        most = "" if actions is None else f", at most {format_count(actions, 'file action')}"
        would = f"Would write a {plan.kind} checkpoint"
        yield Section((Tone.STRONG(would), f" of version {plan.version}{most}"))
    elif report.announces:
        done = "Would replace" if report.dry_run else "Replaced"
        yield Section((Tone.STRONG(f"{done} _last_checkpoint"), f": {plan.reason}"))
    if report.compaction_range is not None:
        first, last = report.compaction_range
        done = "Would compact" if report.dry_run else "Compacted"
        if not report.dry_run and report.compaction is None:
            done = "Another writer compacted"
        yield Section((Tone.STRONG(f"{done} the commits {first} to {last}"), " into one file"))
    if cleanup is not None:
        yield from _describe_cleanup(cleanup, report)


def _describe_written(written: WrittenCheckpoint, report: CheckpointReport) -> Section:
    files = format_count(len(written.names) + len(written.sidecars), "file")
    pointer = "updated" if report.hint_moved else "unchanged: it refers to a newer checkpoint"
    has = Tone.GOOD(f"Version {written.version} has a {written.kind} checkpoint")
    return Section(
        (has, ", read back and verified"),
        facts=[
            ("live files", f"{written.num_adds:,} ({format_size(written.add_bytes)})"),
            ("tombstones", f"{written.num_removes:,}"),
            ("written", f"{files}, {format_size(written.size_bytes)}"),
            ("_last_checkpoint", pointer),
        ],
    )


def _describe_cleanup(plan: CleanupPlan, report: CheckpointReport) -> Iterator[Section]:
    kept = f"versions that were current since {format_timestamp(plan.cutoff_ms)} are kept"
    if report.failed:
        yield from list_files("Log cleanup did not finish", report.failed)
        return
    if plan.is_empty:
        yield Section("Log cleanup: nothing to delete", facts=[("retention", kept)])
        return
    oldest = plan.checkpoint_version
    verb = "Would delete" if report.dry_run else "Deleted"
    files = Tone.STRONG(f"{verb} {format_count(len(plan.files), 'file')}")
    yield Section(
        (files, f" of the log ({format_size(plan.size_bytes)})"),
        facts=[
            ("oldest checkpoint", None if oldest is None else f"version {oldest}"),
            ("retention", kept),
            ("no longer readable", list_versions(plan.lost)),
        ],
        table=Table([Column("", Kind.PATH, "name")], plan.files) if report.dry_run else None,
    )


def describe_repair(report: RepairReport) -> Iterator[Section]:
    """Return the problems, and what was done about each."""
    checked = f": {format_count(report.checked, 'checkpoint')} and _last_checkpoint checked"
    found = f"{format_count(len(report.findings), 'problem')} found"
    left = format_count(report.unproven, "checkpoint is", "checkpoints are")
    unproven = f"{left} readable, but not verified: the log no longer has their commits"
    state = "found" if report.dry_run else "left"
    columns = [
        Column("file", Kind.PATH, tone=Tone.STRONG),
        Column("state"),
        Column("problem", Kind.DETAIL),
        Column("repair", Kind.DETAIL),
    ]
    rows = [
        (it.name, "repaired" if it.repaired else state, it.problem, it.remedy)
        for it in report.findings
    ]
    yield Section(
        (Tone.CAUTION(found) if rows else Tone.GOOD("Nothing to repair"), checked),
        table=Table(columns, rows),
        notes=[unproven if report.unproven else None],
    )
