"""``deltactl convert``: parse options, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from deltactl.cli.options.common import DryRunFlags, argument
from deltactl.cli.session import Session
from deltactl.errors import ConversionError
from deltactl.operations.convert.options import ConvertOptions

if TYPE_CHECKING:
    from deltactl.operations.convert.run import ConvertReport


def command(
    session: Session,
    table: Annotated[str, argument("DIR", "Path or URI of the directory")],
    options: ConvertOptions,
    flags: DryRunFlags,
) -> None:
    """Convert a directory of Parquet files to a Delta table, in place and in one commit.

    The command does not copy or change the Parquet files. It ignores files and directories whose
    names start with "_" or ".", except partition directories such as _day=1.

    After the conversion, the directory belongs to the table: only Delta writers add rows to it.
    If DIR is already a table, the command changes nothing.

    \b
    Examples:
      deltactl convert /data/events --dry-run
      deltactl convert /data/events --partition-by "date date, country string"
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    from deltactl.operations.convert.run import convert_directory

    log = session.open_table(table, read_only=flags.dry_run)
    try:
        with session.run_context("footers") as context:
            report = convert_directory(log, options, context, dry_run=flags.dry_run)
    except ConversionError as error:
        _present_problems(session, error)
        raise
    _present(session, report)


def _present(session: Session, report: ConvertReport) -> None:
    from deltactl.cli.pages.creation import describe_convert

    result = report.to_dict()
    session.present(
        lambda: describe_convert(report, session.table or ""),
        rows=result.get("left_out", []),
        version_before=report.version_before,
        version_after=report.version_after,
        is_idle=report.plan is None,
        engine=report.engine,
        result=result,
    )


def _present_problems(session: Session, error: ConversionError) -> None:
    from deltactl.cli.pages.creation import describe_problems

    if not error.problems:
        return
    rows = [{"path": path, "column": column, "reason": why} for path, column, why in error.problems]
    session.present(
        lambda: describe_problems(error),
        rows=rows,
        error=error,
        result={"problems": rows},
    )
