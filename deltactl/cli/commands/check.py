"""``deltactl check``: parse options, call the operation, print its report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from deltactl.cli.commands.check_fix import fix_paths
from deltactl.cli.options.common import TableArgument, dry_run_field, yes_field
from deltactl.cli.session import Session
from deltactl.errors import DeltactlError, InterruptedRunError, UnsupportedFeatureError, UsageError
from deltactl.operations.check.options import CheckOptions
from deltactl.option_fields import execution_option, selection_option

if TYPE_CHECKING:
    from deltactl.operations.check.report import CheckReport


class Fix(StrEnum):
    """What ``--fix`` can repair."""

    PATH_ENCODING = "path-encoding"


@dataclass(frozen=True, slots=True)
class CheckFlags:
    """Options that only the command line has."""

    fix: Fix | None = execution_option(
        None,
        "Repair findings of one kind. path-encoding: a remove action encodes the path differently "
        "than its add action does, so readers still use the file. If you confirm, deltactl removes "
        "the file from the table",
        alone_with=("texts", "yes", "dry_run"),
        is_basic=True,
    )
    texts: tuple[str, ...] = selection_option(
        (),
        "With --fix: repair only this path. Write the path exactly as in the log. May be repeated",
        flag="path",
        metavar="TEXT",
    )
    yes: bool = yes_field()
    dry_run: bool = dry_run_field()


def command(
    session: Session, table: TableArgument, options: CheckOptions, flags: CheckFlags
) -> None:
    """Check that the log, files and statistics of a table agree.

    The command always checks the whole log. If it finds a problem, the exit status is 3. Only with
    --fix does the command write to the table.

    \b
    Examples:
      deltactl check /data/events
      deltactl check /data/events --files footers --checkpoints --dvs
      deltactl check /data/events --files data --sample 5%
      deltactl check /data/events --files data --resume /tmp/events.check
      deltactl check /data/events --fix path-encoding --dry-run
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    if flags.fix is not None:
        fix_paths(session, table, flags.texts, yes=flags.yes, dry_run=flags.dry_run)
        return
    if flags != CheckFlags():
        raise UsageError(
            "--path, --yes and --dry-run can only be used with --fix: without --fix, check "
            "writes nothing",
            hint="Add --fix path-encoding, or remove these options.",
        )
    report = _run(session, table, options)
    error = None
    if report.unsupported is not None:
        error = UnsupportedFeatureError(
            report.unsupported,
            hint="Use a newer deltactl if there is one. This result covers only the parts that do "
            "not depend on the feature.",
        )
    _present(session, report, error)


def _run(session: Session, table: str, options: CheckOptions) -> CheckReport:
    from deltactl.operations.check.run import check_table

    log = session.open_log(table, published_only=True)
    with session.run_context("check", session.engine()) as context:
        try:
            return check_table(log, options, context)
        except InterruptedRunError as error:
            session.raise_if_cancelled(error.message, hint=error.hint)
            raise


def _present(session: Session, report: CheckReport, error: DeltactlError | None) -> None:
    from deltactl.cli.pages.check import describe_check

    session.present(
        lambda: describe_check(report),
        rows=report.findings,
        error=error,
        is_work_needed=not report.is_sound,
        version_before=report.version,
        version_after=report.version,
        engine=report.engine,
        engine_reason=report.engine_reason,
        result=report.to_dict(),
    )
