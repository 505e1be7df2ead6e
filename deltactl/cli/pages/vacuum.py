"""The sections of the reports of ``vacuum``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltactl.cli.output.sections import (
    Column,
    Kind,
    Section,
    Strip,
    Table,
    Tone,
    list_rows,
    list_single_versions,
    list_versions,
)
from deltactl.cli.parsing.argv import typed_command
from deltactl.units import format_count, format_duration, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.operations.clone_notes import CloneNote
    from deltactl.operations.vacuum.horizon import Horizon
    from deltactl.operations.vacuum.purge import PurgeReport
    from deltactl.operations.vacuum.run import VacuumPlan, VacuumReport
    from deltactl.operations.vacuum.undo import UndoReport

_SHOWN_COSTS = 8
_LOST = "Removed, but the table needs them"


def describe_vacuum(report: VacuumReport, table: str) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if report.dry_run or plan.is_empty:
        yield from describe_plan(plan)
    else:
        yield _describe_result(report, table)
        yield from _describe_deviations(report)
        is_partial = report.interrupted or report.failures
        gone = "may have expired" if is_partial else "expired"
        yield from _describe_plan(replace(plan, horizon=report.horizon), gone)


def describe_plan(plan: VacuumPlan) -> Iterator[Section]:
    """Return the plan."""
    if plan.is_empty:
        yield Section((Tone.GOOD("Nothing to remove"), f" in version {plan.version}"))
    else:
        yield _describe_totals(plan)
    yield from _describe_plan(plan)


def _describe_totals(plan: VacuumPlan) -> Section:
    folders = len(plan.folders) + len(plan.old_folders)
    directories = format_count(folders, "empty directory", "empty directories")
    left = f"{plan.left_over:,} more are left for the next run (--max-files)"
    return Section(
        (
            Tone.STRONG(f"Would remove {format_count(plan.files.num_rows, 'file')}"),
            f" ({format_size(plan.size_bytes)}){f' and {directories}' if folders else ''}, "
            f"version {plan.version}",
        ),
        notes=[left if plan.left_over else None],
    )


def _describe_result(report: VacuumReport, table: str) -> Section:
    plan, until_ms = report.plan, report.quarantined_until_ms
    verb = "deleted" if until_ms is None else "moved to quarantine"
    undo: str | None = (
        "possible only in a bucket of S3 or GCS with versioning: --quarantine was not used"
    )
    if not report.files_removed:
        undo = until_ms = None
    elif until_ms is not None:
        undo = typed_command(["vacuum", table, "--undo", str(report.run_id)])
    folders, left, gone = report.folders_removed, plan.left_over, report.vanished
    tone = Tone.CAUTION if report.failures or report.lost else Tone.GOOD
    removed, size = format_count(report.files_removed, "file"), format_size(report.bytes_removed)
    return Section(
        (tone(f"{removed} {verb}"), f" ({size})"),
        facts=[
            ("directories", f"{folders:,} empty ones removed" if folders else None),
            ("left", f"{format_count(left, 'file')} for the next run" if left else None),
            ("already deleted", format_count(gone, "file") if gone else None),
            ("stopped early", report.stopped.message if report.stopped else None),
            ("run", report.run_id),
            ("committed", list_single_versions(report.versions) if report.versions else None),
            ("kept until", f"{format_timestamp(until_ms)}, at least" if until_ms else None),
            ("undo", undo),
        ],
    )


def _describe_deviations(report: VacuumReport) -> Iterator[Section]:
    """Return the files that were not removed as planned."""
    yield from list_files(_LOST, report.lost, Tone.BAD)
    yield from list_files("Not removed", [it for it in report.failures if it.path])
    yield from list_files("Kept: another writer started using them", report.came_back)
    yield from list_files("Kept: they changed during the run", report.changed)


def list_files(title: str, files: Iterable[object], tone: Tone = Tone.CAUTION) -> Iterator[Section]:
    """Return files, and reasons if there are any, under a title; nothing if there are no files."""
    rows = [(it, "") if isinstance(it, str) else it for it in files]
    columns = [Column("file", Kind.PATH, "path"), Column("reason", Kind.DETAIL)]
    return list_rows(f"{title} ({len(rows):,})", tone, columns, rows)


def _describe_plan(plan: VacuumPlan, gone: str | None = None) -> Iterator[Section]:
    """Return the plan; ``gone`` is what became of the versions that it ends, once it is done."""
    if plan.files.num_rows:
        yield _sum_up("Files by reason", "reason", plan.by_reason())
        yield _sum_up("Directories", "folder", plan.by_folder(), is_aside=gone is not None)
    retention = plan.retention
    kept_for = format_duration(retention.retain_ms)
    mode = f"{plan.mode}: {format_count(plan.listed_files or 0, 'file')} under the root"
    if plan.mode == "lite":
        since = f"finds only files that commits removed since version {plan.complete_since}"
        mode = f"lite, {since}; `--mode full` finds more files"
    yield Section(
        facts=[
            ("cutoff", f"{format_timestamp(retention.cutoff_ms)}, {kept_for} by {retention.rule}"),
            ("mode", mode),
            *(("shallow clone", f"{it.clone_uri}: its files are kept") for it in plan.clones),
            *(("other table", f"in {path}: files there are kept") for path in plan.foreign),
            *(("kept", f"{count:,} {reason}") for reason, count in plan.kept.items()),
        ]
    )
    if plan.horizon is not None:
        yield _describe_horizon(plan.horizon, gone)


def _sum_up(title: str, key: str, rows: Any, *, is_aside: bool = False) -> Section:
    columns = [
        Column(key.replace("folder", "directory"), Kind.PATH, key, empty="(root)"),
        Column("files", Kind.NUMBER),
        Column("size", Kind.BYTES, "bytes"),
        Column("oldest", Kind.DAY, "oldest_ms", spare=1),
        Column("newest", Kind.DAY, "newest_ms"),
    ]
    table = Table(columns, rows, more="-o csv lists all files", largest="bytes")
    return Section(Tone.STRONG(title), table=table, is_aside=is_aside)


def _describe_horizon(horizon: Horizon, gone: str | None) -> Section:
    is_done, gone = gone is not None, gone or "would expire"
    changes = horizon.change_data_ends
    label = "readable before" if is_done else "readable now"
    whole = (horizon.first_version, horizon.last_version)
    layers = [
        (Tone.FAINT, "in the log", [whole]),
        (Tone.GOOD, label, horizon.readable),
        (Tone.CAUTION, gone, horizon.ends),
    ]
    columns = [
        Column("version", Kind.NUMBER),
        Column("size of files to remove that it needs", Kind.BYTES),
    ]
    costs = [] if is_done else [cost for cost in horizon.costs if cost[1]]
    return Section(
        Tone.STRONG("Versions that can be read"),
        facts=[
            (label, list_versions(horizon.readable)),
            (gone, list_versions(horizon.ends) if horizon.ends else None),
            ("cost of keeping them", format_size(horizon.cost_bytes) if horizon.ends else None),
            (f"change data {gone}", list_versions(changes) if changes else None),
        ],
        chart=Strip(*whole, layers),
        table=Table(columns, costs, most=_SHOWN_COSTS),
    )


def describe_undo(report: UndoReport, table: str) -> Iterator[Section]:
    """Return the files that were restored, those that cannot be, and those of other runs."""
    from deltactl.operations.vacuum.undo import REMOVED_AGAIN

    verb = "Would restore" if report.dry_run else "Restored"
    files = format_count(len(report.restored), "file")
    title = f" of run {report.run_id}"
    if report.num_in_place:
        there = format_count(report.num_in_place, "file is", "files are")
        title += f"; {there} already there"
    notes = [REMOVED_AGAIN] if report.restored else []
    yield Section((Tone.GOOD(f"{verb} {files}"), title), notes=notes)
    lost, title = report.impossible, "Cannot be restored"
    if len(lost) > 1 and len(reasons := set(lost.values())) == 1:
        # Such as after a vacuum without a quarantine.
        yield Section(
            (Tone.CAUTION(title), f": {format_count(len(lost), 'file')}: {reasons.pop()}")
        )
    else:
        yield from list_files(title, lost.items())
    yield Section(
        facts=[
            (
                f"run {run_id}",
                f"still has {format_count(count, 'file')} in quarantine: "
                + typed_command(["vacuum", table, "--undo", run_id]),
            )
            for run_id, count in report.quarantined.items()
        ]
    )


def describe_forgotten_clone(note: CloneNote, *, dry_run: bool) -> Iterator[Section]:
    """Return the record of a shallow clone that was deleted."""
    verb = "Would delete" if dry_run else "Deleted"
    title = Tone.GOOD(f"{verb} the record of the shallow clone"), f" {note.clone_uri}"
    recorded = f"recorded at {format_timestamp(note.noted_ms)}, version {note.source_version}"
    yield Section(title, notes=[f"{recorded}; a vacuum no longer keeps the files of the clone"])


def describe_purge(report: PurgeReport) -> Iterator[Section]:
    """Return the quarantined files that were deleted, and the runs that are still kept."""
    verb = "Would delete" if report.dry_run else "Deleted"
    files = format_count(report.files, "quarantined file")
    until_ms = min((at for _, at in report.waiting), default=None)
    runs = format_count(len(report.waiting), "run is kept", "runs are kept")
    waiting = "" if until_ms is None else f"; {runs}, at least until {format_timestamp(until_ms)}"
    yield Section(
        (Tone.GOOD(f"{verb} {files}"), f" ({format_size(report.bytes)}){waiting}"),
        facts=[("run", run_id) for run_id in report.runs]
        + [("kept", f"{run_id} until {format_timestamp(at)}") for run_id, at in report.waiting]
        + [
            ("kept", f"{it.run_id}: {format_count(len(it.paths), 'file is', 'files are')} needed")
            for it in report.needed
        ],
    )
    yield from list_files(_LOST, report.lost, Tone.BAD)
    yield from list_files("Not deleted", report.failures.items())
