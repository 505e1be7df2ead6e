"""Print the plan and the report of ``checkpoint`` as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.parsing.argv import real_command
from deltactl.units import format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.log.upkeep.cleanup import CleanupPlan
    from deltactl.operations.checkpoint.repair import RepairReport
    from deltactl.operations.checkpoint.run import CheckpointPlan, CheckpointReport, DueReport
    from deltactl.operations.checkpoint.write import WrittenCheckpoint

_SHOWN_FILES = 20
_KINDS = {"classic": "classic", "v2": "v2"}


def render_due(page: Page, report: DueReport) -> None:
    """Render whether a checkpoint is due."""
    last = "none yet" if report.last < 0 else f"version {report.last}"
    said = Styled("A checkpoint is due", Tone.CAUTION)
    page.line(said if report.due else Styled("No checkpoint is due", Tone.GOOD))
    page.fields(
        [
            ("version", str(report.version)),
            ("last checkpoint", last),
            ("interval", format_count(report.interval, "commit")),
        ]
    )


def render_report(page: Page, report: CheckpointReport, argv: Sequence[str]) -> None:
    """Render what would be done (dry run) or what was done; ``argv`` is the command line."""
    if report.skipped is not None:
        page.line(Styled("Not needed", Tone.GOOD), f": {report.skipped}")
        return
    if report.is_empty:
        page.line(Styled("Nothing to do", Tone.GOOD), f": {report.plan.reason}")
        if report.cleanup is not None:
            oldest = f"nothing is left before version {report.cleanup.checkpoint_version}"
            page.line("log cleanup: ", report.cleanup.reason or oldest)
        return
    if report.written is not None:
        _render_written(page, report.written, report)
    elif not report.plan.is_empty:
        _render_plan(page, report.plan)
    _render_compaction(page, report)
    if report.cleanup is not None:
        _render_cleanup(page, report.cleanup, report)
    if report.dry_run:
        _render_real_command(page, argv)


def _render_real_command(page: Page, argv: Sequence[str]) -> None:
    page.line()
    page.line(Styled("Nothing was changed.", Tone.STRONG), " To do it: ")
    page.line(f"  {real_command(argv)}")


def _render_plan(page: Page, plan: CheckpointPlan) -> None:
    kind = _KINDS[str(plan.kind)]
    actions = (
        "" if plan.actions is None else f", at most {format_count(plan.actions, 'file action')}"
    )
    page.line(
        Styled(f"Would write a {kind} checkpoint", Tone.STRONG),
        f" of version {plan.version}{actions}",
    )


def _render_written(page: Page, written: WrittenCheckpoint, report: CheckpointReport) -> None:
    page.line(
        Styled(f"Version {written.version} has a {_KINDS[written.kind]} checkpoint", Tone.GOOD),
        ", read back and verified",
    )
    pointer = "updated" if report.hint_moved else "unchanged: it refers to a newer checkpoint"
    files = format_count(len(written.names) + len(written.sidecars), "file")
    page.fields(
        [
            ("live files", f"{written.num_adds:,} ({format_size(written.add_bytes)})"),
            ("tombstones", f"{written.num_removes:,}"),
            ("written", f"{files}, {format_size(written.size_bytes)}"),
            ("_last_checkpoint", pointer),
        ]
    )


def _render_compaction(page: Page, report: CheckpointReport) -> None:
    if report.compaction_range is None:
        return
    first, last = report.compaction_range
    done = "Would compact" if report.dry_run else "Compacted"
    if not report.dry_run and report.compaction is None:
        done = "Another writer compacted"
    page.line(Styled(f"{done} the commits {first} to {last}", Tone.STRONG), " into one file")


def _render_cleanup(page: Page, plan: CleanupPlan, report: CheckpointReport) -> None:
    if page.lines:  # if the checkpoint existed already, the page is empty
        page.line()
    cutoff = format_timestamp(plan.cutoff_ms)
    if plan.is_empty:
        page.line("log cleanup: nothing to delete")
        page.fields([("  retention", f"versions that were current since {cutoff} are kept")])
        return
    files = format_count(len(plan.files), "file")
    size = format_size(plan.size_bytes)
    if report.failed:
        page.line(Styled("Log cleanup did not finish", Tone.CAUTION))
        page.fields([(f"  {name}", reason) for name, reason in report.failed[:_SHOWN_FILES]])
        return
    verb = "Would delete" if report.dry_run else "Deleted"
    page.line(Styled(f"{verb} {files}", Tone.STRONG), f" of the log ({size})")
    fields = [
        ("  retention", f"versions that were current since {cutoff} are kept"),
        ("  lost", _lost(plan, report.dry_run)),
    ]
    if plan.checkpoint_version is not None:
        fields.insert(0, ("  oldest checkpoint", f"version {plan.checkpoint_version}"))
    page.fields(fields)
    if report.dry_run:
        for info in plan.files[:_SHOWN_FILES]:
            page.line("  ", info.name)
        more = len(plan.files) - _SHOWN_FILES
        if more > 0:
            page.line(Styled(f"  and {more} more (-o json lists all)", Tone.FAINT))


def _lost(plan: CleanupPlan, dry_run: bool) -> str:
    if not plan.lost:
        return "no readable version"
    ranges = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in plan.lost)
    return f"versions {ranges} {'would stop' if dry_run else 'stopped'} being readable"


def render_repair(page: Page, report: RepairReport, argv: Sequence[str]) -> None:
    """Render the problems, and what was done about each."""
    checked = f"{format_count(report.checked, 'checkpoint')} and _last_checkpoint checked"
    if not report.findings:
        page.line(Styled("Nothing to repair", Tone.GOOD), f": {checked}")
    else:
        count = format_count(len(report.findings), "problem")
        page.line(Styled(f"{count} found", Tone.CAUTION), f": {checked}")
        page.line()
        page.table(
            [Column("file", elastic=True, is_path=True), Column("state")],
            [
                [f.name, "repaired" if f.repaired else "found" if report.dry_run else "left"]
                for f in report.findings
            ],
        )
        for finding in report.findings:
            page.line()
            page.line(Styled(finding.name, Tone.STRONG))
            page.line("  ", finding.problem)
            page.line("  ", finding.remedy)
    if report.unproven:
        count = format_count(report.unproven, "checkpoint is", "checkpoints are")
        text = (
            f"{count} readable, but not verified: the log no longer has commits to compare them "
            "with"
        )
        page.line(Styled(text, Tone.FAINT))
    if report.dry_run and report.findings:
        _render_real_command(page, argv)
