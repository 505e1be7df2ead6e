"""``deltactl check``: parse options, call the operation, print its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltactl.cli.confirm import ask
from deltactl.cli.options.common import TableArgument, dry_run_field, yes_field
from deltactl.cli.session import Session
from deltactl.errors import InterruptedRunError, UnsupportedFeatureError, UsageError
from deltactl.operations.check.fixes.options import FixOptions
from deltactl.operations.check.options import CheckOptions
from deltactl.option_fields import output_option, selection_option

if TYPE_CHECKING:
    from deltactl.operations.check.fixes.report import Confirm, FixReport


@dataclass(frozen=True, slots=True)
class CheckFlags:
    """Options that only the command line has."""

    yes: bool = yes_field()
    dry_run: bool = dry_run_field()
    erased: str | None = selection_option(
        None,
        "Search all that is still stored for values that match this predicate: 'user_id = 42'",
        metavar="PREDICATE",
        alone_with=("versions", "redact"),
        is_basic=True,
    )
    versions: bool = selection_option(
        False, "With --erased: also search old object versions of the bucket"
    )
    redact: bool = output_option(False, "With --erased: leave the predicate out of the report")


def command(
    session: Session,
    table: TableArgument,
    options: CheckOptions,
    fix: FixOptions,
    flags: CheckFlags,
) -> None:
    """Check that the log, files and statistics of a table agree.

    The command always checks the whole log. If it finds a problem, the exit status is 3. Only with
    --fix does the command write to the table.

    \b
    Examples:
      deltactl check /data/events
      deltactl check /data/events --files footers --checkpoints --dvs
      deltactl check /data/events --files data --sample 5%
      deltactl check /data/events --fix missing-files --dry-run
      deltactl check /data/events --erased "user_id = 42" --report erased.html
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    if fix.kind is not None:
        _fix(session, table, fix, yes=flags.yes, dry_run=flags.dry_run)
        return
    if flags.erased is not None:
        _search(session, table, flags.erased, versions=flags.versions, redact=flags.redact)
        return
    if flags.versions or flags.redact:
        raise UsageError(
            "--versions and --redact can only be used with --erased",
            hint="Add --erased PREDICATE, or remove these options.",
        )
    if flags != CheckFlags():
        raise UsageError(
            "--yes and --dry-run can only be used with --fix: without --fix, check writes nothing",
            hint="Add --fix, or remove these options.",
        )
    _check(session, table, options)


def _check(session: Session, table: str, options: CheckOptions) -> None:
    """Check the table; the exit status is 3 if something was found."""
    from deltactl.cli.pages.check import describe_check
    from deltactl.operations.check.run import check_table

    log = session.open_table(table, read_only=True, published_only=True)
    with session.run_context("check", session.engine()) as context:
        report = check_table(log, options, context)
    error = None
    if report.unsupported is not None:
        error = UnsupportedFeatureError(
            report.unsupported,
            hint="Use a newer deltactl if there is one. This result covers only the parts that do "
            "not depend on the feature.",
        )
    session.present(
        lambda: describe_check(report),
        rows=report.findings,
        error=error,
        is_work_needed=not report.is_sound,
        version_before=report.version,
        engine=report.engine,
        engine_reason=report.engine_reason,
        result=report.to_dict(),
    )


def _search(session: Session, table: str, predicate: str, *, versions: bool, redact: bool) -> None:
    """Search everything that is still stored; the exit status is 3 if something was found."""
    from deltactl.cli.pages.erased import describe_erased
    from deltactl.operations.erased.run import search_erased

    log = session.open_log(table)
    with session.run_context("search", session.engine()) as context:
        try:
            report = search_erased(log, predicate, context, versions=versions, redact=redact)
        except InterruptedRunError as error:
            session.raise_if_cancelled(error.message, hint="Rerun: nothing was changed.")
            raise
    result = report.to_dict()
    session.present(
        lambda: describe_erased(report),
        error=report.find_error(),
        is_work_needed=report.is_found,
        version_before=report.version,
        engine=report.engine,
        engine_reason=report.engine_reason,
        result=result,
    )


def _fix(session: Session, table: str, options: FixOptions, *, yes: bool, dry_run: bool) -> None:
    """Repair findings of one kind; the exit status is 3 if findings of this kind are left."""
    from deltactl.cli.pages.check_fix import describe_fix
    from deltactl.operations.check.fixes.run import fix_table

    log = session.open_table(table, read_only=dry_run)
    confirm = None if yes else _confirmation(session)
    with session.run_context("check", session.engine()) as context:
        report = fix_table(log, options, context, confirm=confirm, dry_run=dry_run)
    session.table_id = report.table_id
    session.present(
        lambda: describe_fix(report),
        rows=report.rows,
        error=report.error,
        is_work_needed=bool(report.num_left) and not dry_run and report.error is None,
        shows_command=not report.is_empty,
        version_before=report.version,
        version_after=report.version if report.version_after is None else report.version_after,
        engine=report.engine,
        result=report.to_dict(),
    )


def _confirmation(session: Session) -> Confirm:
    def confirm(report: FixReport) -> bool:
        from deltactl.cli.pages.check_fix import describe_fix, question_of

        return ask(session, question_of(report), describe_fix(report))

    return confirm
