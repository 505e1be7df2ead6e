"""``describe-history --diff``, ``--blame`` and ``--follow``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from deltactl.cli.output.envelope import dump_json
from deltactl.cli.output.output import OutputFormat, stdout_errors
from deltactl.cli.session import Session
from deltactl.errors import UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import json_row
from deltactl.operations.history.run import HistoryOptions, follow_history
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.history.blame import UnknownValue

_POLL_SECONDS: Final = 5


def show_diff(session: Session, log: DeltaLog, first: int, last: int | None) -> None:
    """Present the difference between two versions."""
    from deltactl.cli.pages.changes import describe_diff
    from deltactl.operations.history.diff import diff_versions

    diff = diff_versions(log, first, last)
    result = diff.to_dict()
    session.present(
        lambda: describe_diff(diff),
        rows=result["partitions"],
        version_before=diff.latest_version,
        result=result,
    )


def show_blame(
    session: Session, log: DeltaLog, text: str, options: HistoryOptions, now_ms: int
) -> None:
    """Present the commits that changed the partitions that ``text`` selects."""
    from deltactl.cli.pages.changes import describe_blame
    from deltactl.operations.history.blame import blame_partition

    report = blame_partition(log, text, options, now_ms)
    if report.oldest_version > 0:
        session.output.warn(
            f"the log no longer has the commits before version {report.oldest_version}. These "
            "commits may also have changed this partition"
        )
    for unknown in report.unknown:
        session.output.warn(_describe_unknown(unknown))
    if report.num_unread and session.output.form is not OutputFormat.TABLE:
        session.output.note(f"{format_count(report.num_unread, 'older version')} not shown")
    rows = [
        json_row(row) | (change.to_dict() if (change := report.changes.get(row["version"])) else {})
        for row in report.rows
    ]
    session.present(
        lambda: describe_blame(report, now_ms),
        rows=rows,
        version_before=report.latest_version,
        result=rows,
    )


def _describe_unknown(unknown: UnknownValue) -> str:
    nearest = ", ".join(map(repr, unknown.nearest))
    found = f"the nearest values are {nearest}" if nearest else "the column has no values"
    return (
        f"{unknown.column} = {unknown.value!r} is in no live file and in no commit of the log; "
        f"{found}"
    )


def show_follow(session: Session, log: DeltaLog, first_version: int | None) -> None:
    """Print new commits, one line of JSON each, until a signal stops it.

    Raises:
        UsageError: the output format needs an end.
        InterruptedRunError: the signal.
    """
    if session.output.form not in (OutputFormat.TABLE, OutputFormat.NDJSON):
        raise UsageError(
            f"-o {session.output.form} cannot be used with --follow, because --follow never ends",
            hint="Omit -o, or write -o ndjson.",
        )
    with session.cancellation() as cancellation, session.idling():
        for row in follow_history(
            log, first_version, lambda: not cancellation.token.wait(_POLL_SECONDS)
        ):
            with stdout_errors():
                session.output.stdout.write(dump_json(json_row(row)) + "\n")
                session.output.stdout.flush()
        cancellation.raise_if_cancelled()
