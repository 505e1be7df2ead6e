"""``deltactl alter``: parse options, ask, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltactl.cli.confirm import ask
from deltactl.cli.options.common import ConfirmationFlags, TableArgument
from deltactl.cli.session import Session
from deltactl.operations.alter.options import AlterOptions

if TYPE_CHECKING:
    from deltactl.operations.alter.run import AlterPlan, Confirm


def command(
    session: Session, table: TableArgument, options: AlterOptions, flags: ConfirmationFlags
) -> None:
    """Set and remove properties of a table, add and drop table features.

    Values of delta.* properties are checked. If a property needs a table feature, the feature is
    added. The command asks before a change that is hard to undo: a feature that other engines may
    lack, or a shorter retention. --drop-feature first removes what uses the feature.

    \b
    Examples:
      deltactl alter /data/events --set delta.deletedFileRetentionDuration=30d
      deltactl alter /data/events --set delta.enableDeletionVectors=true --dry-run
      deltactl alter /data/events --unset team --add-feature vacuumProtocolCheck
      deltactl alter /data/events --drop-feature deletionVectors --dry-run
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    from deltactl.cli.pages.changes import describe_alter
    from deltactl.operations.alter.run import alter_table

    confirm = None if flags.yes else _choose_confirmation(session)
    log = session.open_table(table, read_only=flags.dry_run)
    with session.run_context("alter") as context:
        report = alter_table(log, options, context, confirm=confirm, dry_run=flags.dry_run)
    plan = report.plan
    session.table_id = plan.table_id
    session.present(
        lambda: describe_alter(report),
        error=report.error,
        version_before=plan.version,
        version_after=plan.version if report.version_after is None else report.version_after,
        is_idle=plan.is_empty,
        engine=report.engine,
        result=report.to_dict(),
    )


def _choose_confirmation(session: Session) -> Confirm:
    """Return the function that asks before the first commit."""
    from deltactl.cli.pages.changes import describe_alter_plan

    def confirm(plan: AlterPlan) -> bool:
        question = f"Afterwards, {'; '.join(plan.risks)}. Alter the table?"
        return ask(session, question, describe_alter_plan(plan))

    return confirm
