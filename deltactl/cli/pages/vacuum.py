"""Print the plan and the report of ``vacuum`` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.parsing.argv import real_command, typed_command
from deltactl.units import format_count, format_duration, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.operations.clone_notes import CloneNote
    from deltactl.operations.vacuum.horizon import Horizon
    from deltactl.operations.vacuum.run import VacuumPlan, VacuumReport
    from deltactl.operations.vacuum.undo import PurgeReport, UndoReport

_SHOWN = 20
_SHOWN_RANGES = 4


def render_report(page: Page, report: VacuumReport, argv: Sequence[str], table: str) -> None:
    """Render what would be done (dry run, check) or what was done; ``argv`` is the command."""
    plan = report.plan
    if report.skipped is not None:
        page.line(Styled("Not needed", Tone.GOOD), f": {report.skipped}")
        return
    if plan.is_empty:
        page.line(Styled("Nothing to remove", Tone.GOOD), f" in version {plan.version}")
    elif report.dry_run:
        _render_totals(page, plan)
    else:
        _render_result(page, report, table)
    page.line()
    _render_rules(page, plan, is_done=not report.dry_run)
    if report.dry_run and not plan.is_empty:
        page.line()
        page.line(Styled("DRY RUN - nothing was removed.", Tone.STRONG), " To do it: ")
        page.line(f"  {real_command(argv)}")


def render_plan(page: Page, plan: VacuumPlan) -> None:
    """Render the plan, before the user confirms it."""
    _render_totals(page, plan)
    page.line()
    _render_rules(page, plan, is_done=False)
    page.line()


def _render_totals(page: Page, plan: VacuumPlan) -> None:
    files = format_count(plan.files.num_rows, "file", "files")
    folders = len(plan.folders) + len(plan.old_folders)
    and_directories = (
        f" and {format_count(folders, 'empty directory', 'empty directories')}" if folders else ""
    )
    page.line(
        Styled(f"Would remove {files}", Tone.STRONG),
        f" ({format_size(plan.size_bytes)}){and_directories}, version {plan.version}",
    )
    if plan.left_over:
        page.line(f"{plan.left_over:,} more would be left for the next run (--max-files)")
    page.line()
    columns = [
        Column("reason"),
        *(Column(name, right=True) for name in ("files", "size")),
        *(Column(name) for name in ("oldest", "newest")),
    ]
    page.table(columns, [[str(row["reason"]), *_facts(row)] for row in plan.by_reason()])
    page.line()
    rows = plan.by_folder().slice(0, _SHOWN).to_pylist()
    columns[0] = Column("directory", elastic=True, is_path=True)
    page.table(columns, [[row["folder"] or "(root)", *_facts(row)] for row in rows])
    more = plan.by_folder().num_rows - len(rows)
    if more > 0:
        page.line(Styled(f"and {more} more directories (-o csv lists all files)", Tone.FAINT))


def _facts(row: dict[str, int]) -> list[str]:
    return [
        f"{row['files']:,}",
        format_size(row["bytes"]),
        format_timestamp(row["oldest_ms"])[:10],
        format_timestamp(row["newest_ms"])[:10],
    ]


def _render_result(page: Page, report: VacuumReport, table: str) -> None:
    moved = report.quarantined_until_ms is not None
    verb = "moved to quarantine" if moved else "deleted"
    tone = Tone.GOOD if not report.failures and not report.lost else Tone.CAUTION
    files = format_count(report.files_removed, "file", "files")
    page.line(Styled(f"{files} {verb}", tone), f" ({format_size(report.bytes_removed)})")
    pairs = []
    if report.folders_removed:
        pairs.append(("directories", f"{report.folders_removed:,} empty ones removed"))
    if report.changed or report.vanished:
        pairs.append(
            (
                "not removed",
                f"{len(report.changed):,} changed during the run, "
                f"{report.vanished:,} already deleted",
            )
        )
    if report.plan.left_over:
        pairs.append(
            (
                "left",
                f"{format_count(report.plan.left_over, 'file')} for the next run (--max-files)",
            )
        )
    if report.run_id is not None:
        pairs.append(("run", report.run_id))
    if moved and report.quarantined_until_ms is not None:
        pairs.append(("kept until", f"{format_timestamp(report.quarantined_until_ms)}, at least"))
    pairs.append(("undo", describe_undo(report.run_id, moved, table)))
    page.fields(pairs)
    for path in report.lost[:_SHOWN]:
        page.line(Styled("missing: ", Tone.BAD), f"{path}: another writer started using it")
    _render_more(page, len(report.lost))
    for failure in report.failures[:_SHOWN]:
        page.line(Styled("not removed: ", Tone.CAUTION), f"{failure.path}: {failure.reason}")
    _render_more(page, len(report.failures))


def _render_more(page: Page, count: int) -> None:
    if count > _SHOWN:
        page.line(Styled(f"and {count - _SHOWN:,} more (-o json lists all)", Tone.FAINT))


def _render_rules(page: Page, plan: VacuumPlan, *, is_done: bool) -> None:
    retention = plan.retention
    kept_for = format_duration(retention.retain_ms)
    pairs = [
        ("cutoff", f"{format_timestamp(retention.cutoff_ms)}, {kept_for} by {retention.rule}"),
        ("mode", describe_mode(plan.mode, plan.complete_since, plan.listed_files)),
    ]
    if plan.horizon is not None:
        pairs += _horizon_fields(plan.horizon, is_done)
    pairs += [("shallow clone", f"{note.clone_uri}: its files are kept") for note in plan.clones]
    pairs += [("kept", f"{count:,} {reason}") for reason, count in plan.kept.items()]
    page.fields(pairs)


def describe_mode(mode: str, complete_since: int | None, listed_files: int | None) -> str:
    """Return how a vacuum searched for files, and how many it listed."""
    if mode == "lite":
        return (
            f"lite, finds only files that commits removed since version {complete_since}; --mode "
            "full finds more files"
        )
    return f"{mode}: {format_count(listed_files or 0, 'file', 'files')} under the root"


def describe_undo(run_id: str | None, was_moved: bool, table: str) -> str:
    """Return how to restore the files."""
    if was_moved:
        return typed_command(["vacuum", table, "--undo", str(run_id)])
    return "possible only if the store keeps old object versions: --quarantine was not used"


def _horizon_fields(horizon: Horizon, is_done: bool) -> list[tuple[str, str]]:
    pairs = [
        (
            "readable before" if is_done else "readable now",
            _ranges(horizon.readable) or "no version",
        )
    ]
    if horizon.ends:
        label, verb = ("expired", "took") if is_done else ("would expire", "takes")
        cost = f"keeping them {verb} {format_size(horizon.cost_bytes)}"
        pairs.append((label, f"{_ranges(horizon.ends)}; {cost}"))
    return pairs


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[-_SHOWN_RANGES:]]
    more = len(ranges) - len(shown)
    return f"versions {'... ' if more else ''}{', '.join(shown)}" if shown else ""


def render_undo(page: Page, report: UndoReport) -> None:
    """Render the files that were restored, and those that cannot be."""
    verb = "Would restore" if report.dry_run else "Restored"
    files = format_count(len(report.restored), "file", "files")
    page.line(Styled(f"{verb} {files}", Tone.GOOD), f" of run {report.run_id}")
    for path, reason in list(report.impossible.items())[:_SHOWN]:
        page.line(Styled("cannot be restored: ", Tone.CAUTION), f"{path}: {reason}")
    _render_more(page, len(report.impossible))


def render_forgotten_clone(page: Page, note: CloneNote, *, dry_run: bool) -> None:
    """Render the record of a shallow clone that was deleted."""
    verb = "Would delete" if dry_run else "Deleted"
    page.line(Styled(f"{verb} the record of the shallow clone", Tone.GOOD), f" {note.clone_uri}")
    page.line(
        f"recorded at {format_timestamp(note.noted_ms)}, clone of version {note.source_version}; "
        "a vacuum no longer keeps the files of the clone"
    )


def render_purge(page: Page, report: PurgeReport) -> None:
    """Render the quarantined files that were deleted, and the runs that are still kept."""
    verb = "Would delete" if report.dry_run else "Deleted"
    files = format_count(report.files, "quarantined file", "quarantined files")
    page.line(Styled(f"{verb} {files}", Tone.GOOD), f" ({format_size(report.bytes)})")
    for run_id, until in report.waiting:
        page.line(f"{run_id} is kept until {format_timestamp(until)}")
