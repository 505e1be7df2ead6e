"""``deltactl check --fix``: ask, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltactl.cli.confirm import ask
from deltactl.cli.session import Session

if TYPE_CHECKING:
    from deltactl.operations.check.fixes.options import FixOptions
    from deltactl.operations.check.fixes.report import Confirm, FixReport


def fix_findings(
    session: Session, table: str, options: FixOptions, *, yes: bool, dry_run: bool
) -> None:
    """Repair findings of one kind.

    The exit status is 3 if findings of this kind are left.

    Raises:
        UsageError: a given path text was not found.
        SafetyError: a safety rule refused, or the user answered no.
        ConflictError: another writer changed the files.
    """
    from deltactl.cli.pages.check_fix import describe_fix
    from deltactl.operations.check.fixes.run import try_fix

    log = session.open_table(table, read_only=dry_run)
    confirm = None if yes else _confirmation(session)
    with session.run_context("check", session.engine()) as context:
        report = try_fix(log, options, context, confirm=confirm, dry_run=dry_run)
    session.table_id = report.table_id
    session.present(
        lambda: describe_fix(report),
        rows=report.rows,
        error=report.error,
        is_work_needed=bool(report.num_left) and not dry_run and report.error is None,
        shows_command=not report.is_empty,
        version_before=report.version,
        version_after=report.version if report.version_after is None else report.version_after,
        dry_run=dry_run,
        engine=report.engine,
        result=report.to_dict(),
    )


def _confirmation(session: Session) -> Confirm:
    def confirm(report: FixReport) -> bool:
        from deltactl.cli.pages.check_fix import describe_fix, question_of

        return ask(session, question_of(report), describe_fix(report))

    return confirm
