"""``deltactl check --fix``: ask, call the operation, print its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.cli.confirm import ask
from deltactl.cli.session import Session
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.check.fix import Confirm, PathRepairReport


def fix_paths(
    session: Session, table: str, texts: Sequence[str], *, yes: bool, dry_run: bool
) -> None:
    """Remove live files whose remove action has another encoding of the path.

    The exit status is 3 if such files are left.

    Raises:
        UsageError: a given path text was not found.
        SafetyError: a safety rule refused, or the user answered no.
        ConflictError: another writer changed the files.
    """
    from deltactl.cli.pages.check import describe_fix
    from deltactl.operations.check.fix import repair_paths

    log = session.open_table(table, read_only=dry_run)
    confirm = None if yes else _confirmation(session)
    with session.run_context(None) as context:
        report = repair_paths(log, texts, context, confirm=confirm, dry_run=dry_run)
    session.table_id = report.table_id
    session.present(
        lambda: describe_fix(report),
        rows=report.to_dict()["pairs"],
        is_work_needed=bool(report.left) and not dry_run,
        shows_command=not report.is_empty,
        version_before=report.version,
        version_after=report.version if report.version_after is None else report.version_after,
        dry_run=dry_run,
        engine=report.engine,
        result=report.to_dict(),
    )


def _confirmation(session: Session) -> Confirm:
    def confirm(report: PathRepairReport) -> bool:
        from deltactl.cli.pages.check import describe_fix

        rows = "their rows" if report.num_rows is None else format_count(report.num_rows, "row")
        files = format_count(len(report.chosen), "file")
        question = f"Remove {files} from the table? Readers will no longer return {rows}."
        return ask(session, question, describe_fix(report))

    return confirm
