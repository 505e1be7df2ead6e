"""The sections of the reports of ``checkpoint``."""

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
from deltactl.cli.pages.vacuum import list_files
from deltactl.units import format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.log.upkeep.cleanup import CleanupPlan
    from deltactl.operations.checkpoint.repair import RepairReport
    from deltactl.operations.checkpoint.run import CheckpointReport, DueReport
    from deltactl.operations.checkpoint.write import WrittenCheckpoint


def describe_due(report: DueReport) -> Iterator[Section]:
    """Return whether a checkpoint is due."""
    due, not_due = ("A checkpoint is due", Tone.CAUTION), ("No checkpoint is due", Tone.GOOD)
    yield Section(
        Styled(*(due if report.due else not_due)),
        facts=[
            ("version", str(report.version)),
            ("last checkpoint", "none yet" if report.last < 0 else f"version {report.last}"),
            ("interval", format_count(report.interval, "commit")),
        ],
    )


def describe_checkpoint(report: CheckpointReport) -> Iterator[Section]:
    """Return what would be done or what was done."""
    if report.skipped is not None:
        yield Section((Styled("Not needed", Tone.GOOD), f": {report.skipped}"))
        return
    if report.is_empty:
        notes = []
        if report.cleanup is not None:
            oldest = f"nothing is left before version {report.cleanup.checkpoint_version}"
            notes = [f"log cleanup: {report.cleanup.reason or oldest}"]
        yield Section((Styled("Nothing to do", Tone.GOOD), f": {report.plan.reason}"), notes=notes)
        return
    plan = report.plan
    if report.written is not None:
        yield _describe_written(report.written, report)
    elif not plan.is_empty:
        actions = plan.actions
        most = "" if actions is None else f", at most {format_count(actions, 'file action')}"
        would = f"Would write a {plan.kind} checkpoint"
        yield Section((Styled(would, Tone.STRONG), f" of version {plan.version}{most}"))
    if report.compaction_range is not None:
        first, last = report.compaction_range
        done = "Would compact" if report.dry_run else "Compacted"
        if not report.dry_run and report.compaction is None:
            done = "Another writer compacted"
        yield Section(
            (Styled(f"{done} the commits {first} to {last}", Tone.STRONG), " into one file")
        )
    if report.cleanup is not None:
        yield from _describe_cleanup(report.cleanup, report)


def _describe_written(written: WrittenCheckpoint, report: CheckpointReport) -> Section:
    files = format_count(len(written.names) + len(written.sidecars), "file")
    pointer = "updated" if report.hint_moved else "unchanged: it refers to a newer checkpoint"
    return Section(
        (
            Styled(f"Version {written.version} has a {written.kind} checkpoint", Tone.GOOD),
            ", read back and verified",
        ),
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
    facts: list[Fact] = [("retention", kept)]
    if plan.checkpoint_version is not None:
        facts.insert(0, ("oldest checkpoint", f"version {plan.checkpoint_version}"))
    lost = [f"{a}" if a == b else f"{a} to {b}" for a, b in plan.lost]
    facts.append(("no longer readable", Listed(lost or ["none"], "versions " if lost else "")))
    verb = "Would delete" if report.dry_run else "Deleted"
    files = [(info.name,) for info in plan.files] if report.dry_run else []
    yield Section(
        (
            Styled(f"{verb} {format_count(len(plan.files), 'file')}", Tone.STRONG),
            f" of the log ({format_size(plan.size_bytes)})",
        ),
        facts=facts,
        table=Table([Column("", Kind.PATH)], files) if files else None,
    )


def describe_repair(report: RepairReport) -> Iterator[Section]:
    """Return the problems, and what was done about each."""
    checked = f"{format_count(report.checked, 'checkpoint')} and _last_checkpoint checked"
    count = format_count(len(report.findings), "problem")
    found, sound = (f"{count} found", Tone.CAUTION), ("Nothing to repair", Tone.GOOD)
    notes = []
    if report.unproven:
        count = format_count(report.unproven, "checkpoint is", "checkpoints are")
        notes = [
            f"{count} readable, but not verified: the log no longer has commits to compare them "
            "with"
        ]
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
        (Styled(*(found if rows else sound)), f": {checked}"),
        table=Table(columns, rows) if rows else None,
        notes=notes,
    )
