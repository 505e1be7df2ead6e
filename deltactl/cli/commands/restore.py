"""``deltactl restore``: parse options, ask, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltactl.cli.confirm import ask, can_ask
from deltactl.cli.options.common import ConfirmationFlags, TableArgument
from deltactl.cli.session import Session
from deltactl.operations.restore.options import RestoreOptions
from deltactl.units import format_count, format_size

if TYPE_CHECKING:
    from deltactl.operations.restore.run import Confirm, RestorePlan, RestoreReport


def command(
    session: Session, table: TableArgument, options: RestoreOptions, flags: ConfirmationFlags
) -> None:
    """Restore an earlier version of a table, as a new version.

    The command first checks that every file of the version exists. On a terminal, it asks before
    the commit.

    Later versions stay readable. To undo a restore, restore the version that was the latest before
    the restore.

    \b
    Examples:
      deltactl restore /data/events --to-version 12 --dry-run
      deltactl restore /data/events --to-timestamp 2026-11-01T08:00:00Z --yes
      deltactl restore /data/events --to-version 12 --where "day = '2026-11-01'"
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    from deltactl.operations.restore.run import restore_table

    confirm = None if flags.dry_run else _choose_confirmation(session, flags.yes)
    log = session.open_table(table, read_only=flags.dry_run)
    with session.run_context("files") as context:
        report = restore_table(log, options, context, confirm=confirm, dry_run=flags.dry_run)
    _present(session, table, report)


def _choose_confirmation(session: Session, yes: bool) -> Confirm | None:
    """Return the function that asks before the commit; ``None`` with ``--yes``.

    Without a terminal it asks, and so fails, only if files are missing or a retention becomes
    shorter: all else can be undone.
    """
    if yes:
        return None

    def confirm(plan: RestorePlan) -> bool:
        from deltactl.cli.pages.changes import describe_plan

        if not (plan.missing or plan.risks or can_ask(session)):
            return True
        return ask(session, _question(plan), describe_plan(plan))

    return confirm


def _question(plan: RestorePlan) -> str:
    added = format_count(plan.added.num_rows, "file", "files")
    removed = format_count(plan.removed.num_rows, "file", "files")
    text = (
        f"Restore version {plan.target_version}: add {added} ({format_size(plan.added_bytes)}), "
        f"remove {removed} ({format_size(plan.removed_bytes)})?"
    )
    if lost := plan.lost.num_rows:
        rows = "rows" if plan.lost_rows is None else format_count(plan.lost_rows, "row")
        text += (
            f" {format_count(lost, 'file')} cannot be read: the new version will lack "
            f"{'its' if lost == 1 else 'their'} {rows}."
        )
    return f"Afterwards, {'; '.join(plan.risks)}. {text}" if plan.risks else text


def _present(session: Session, table: str, report: RestoreReport) -> None:
    from deltactl.cli.pages.changes import describe_restore

    plan = report.plan
    changes = plan.diff.to_dict()
    session.table_id, session.chosen_version = plan.table_id, plan.target_version
    session.present(
        lambda: describe_restore(report, table),
        rows=changes["partitions"],
        error=report.find_error(table),
        version_before=plan.version,
        version_after=plan.version if report.version_after is None else report.version_after,
        is_idle=plan.is_empty,
        engine=report.engine,
        result={**report.to_dict(), "changes": changes},
    )
