"""``deltactl describe-history``: the commits of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from deltactl.cli.commands.history_views import (
    DEFAULT_POLL_MS,
    present_history,
    show_blame,
    show_diff,
    show_follow,
)
from deltactl.cli.options.common import TableArgument
from deltactl.cli.options.values import parse_time
from deltactl.cli.output.envelope import PlainRows
from deltactl.cli.output.output import OutputFormat
from deltactl.cli.pages.history import render_commit_files, render_history, render_version_at
from deltactl.cli.pages.history_rows import change_row, json_row
from deltactl.cli.session import Session
from deltactl.cli.startup import load_arrow
from deltactl.clock import SystemClock
from deltactl.errors import UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.history.run import (
    HistoryOptions,
    HistoryReport,
    commit_files,
    load_history,
    version_at,
)
from deltactl.units import format_count, format_duration

DEFAULT_LIMIT = 20
_LIST = "a list of commits, without --at, --diff, --follow, --files"
_RANGE = re.compile(r"\s*([0-9]{0,19})\s*(\.\.)?\s*([0-9]{0,19})\s*")


def command(
    ctx: typer.Context,
    table: TableArgument,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=1,
            metavar="N",
            help=f"Show the newest N commits  [default: {DEFAULT_LIMIT} on a terminal, else all]",
            show_default=False,
        ),
    ] = None,
    all_commits: Annotated[bool, typer.Option("--all", help="Show all commits")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help='Show commits since this time: "2024-01-31 12:00", or "2h" for two hours ago',
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Show commits until this time; the format is the same as for --since",
        ),
    ] = None,
    version_range: Annotated[
        str | None,
        typer.Option(
            metavar="A..B",
            help="Show versions A to B. A.. means from A to the latest version; ..B means from "
            "the oldest version to B",
        ),
    ] = None,
    operation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Show only commits of this operation, such as MERGE; may be repeated",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Show only the version that was the latest at this time"),
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Show only version N", show_default=False)
    ] = None,
    files: Annotated[
        bool,
        typer.Option(
            "--files",
            help="With --version: list the files that this version added and removed, grouped "
            "by partition",
        ),
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            metavar="A..B",
            help="Show the differences between versions A and B. A.. compares A with the latest "
            "version",
        ),
    ] = None,
    blame: Annotated[
        str | None,
        typer.Option(
            metavar="PARTITION",
            help="Show the commits that changed files of this partition, e.g. day=2024-01-31. "
            "An SQL condition on partition columns is also possible",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Wait for new commits, and print each one as a line of JSON"),
    ] = False,
    since_version: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="With --follow: start with version N  [default: the next commit]",
            show_default=False,
        ),
    ] = None,
    poll: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --follow: time between two listings of the log  [default: "
            f"{format_duration(DEFAULT_POLL_MS)}]",
        ),
    ] = None,
    restorable: Annotated[
        bool,
        typer.Option(
            "--restorable",
            help="Also show whether the files of each version still exist. This lists all files "
            "of the table",
        ),
    ] = False,
) -> None:
    """Show the commits of a table, newest first.

    The command also works if the log is damaged. It marks invalid checkpoints, truncated commits
    and missing versions, and shows all other commits. Times are in UTC.

    \b
    Examples:
      deltactl describe-history /data/events --limit 10
      deltactl describe-history /data/events --at "2024-01-31 12:00"
      deltactl describe-history /data/events --since 2d --operation MERGE -o json
      deltactl describe-history /data/events --diff 41..57
      deltactl describe-history /data/events --blame day=2024-01-31
      deltactl describe-history /data/events --follow --since-version 58
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    now_ms = SystemClock().now_ms()
    if all_commits and limit is not None:
        raise UsageError("--limit and --all cannot be combined", hint="Give one of them.")
    filters = (since, until, version_range, operation)
    _ensure_one_question(
        {
            "--at": at is not None,
            "--version": version is not None,
            "--diff": diff is not None,
            "--follow": follow,
            "a filter of commits (such as --since or --limit)": any(filters)
            or limit is not None
            or all_commits,
        }
    )
    _ensure_belongs("--files", files, "--version", version is not None)
    _ensure_belongs("--since-version", since_version is not None, "--follow", follow)
    _ensure_belongs("--poll", poll is not None, "--follow", follow)
    is_list = at is None and diff is None and not (files or follow)
    is_plain = is_list and blame is None
    _ensure_belongs("--restorable", restorable, f"{_LIST} and --blame", is_plain)
    _ensure_belongs("--blame", blame is not None, _LIST, is_list)
    if not is_plain or restorable or session.output.form is OutputFormat.TABLE:
        load_arrow()  # plain rows of commits need no Arrow, whose import is half of their time
    log = session.open_log(table, may_be_behind=True)
    if diff is not None:
        show_diff(session, log, *_parse_diff(diff))
    elif follow:
        show_follow(session, log, since_version, poll)
    elif at is not None:
        _show_version_at(session, log, parse_time(at, now_ms), now_ms)
    elif files and version is not None:
        _show_files(session, log, version, now_ms)
    else:
        first, last = parse_version_range(version_range)
        if version is not None:
            first = last = version
        options = HistoryOptions(
            limit=None if all_commits else limit or _default_limit(session),
            since_ms=None if since is None else parse_time(since, now_ms),
            until_ms=None if until is None else parse_time(until, now_ms),
            first_version=first,
            last_version=last,
            operations=tuple(operation or ()),
            changes=session.output.form is OutputFormat.TABLE,
            restorable=restorable,
        )
        if blame is not None:
            show_blame(session, log, blame, options, now_ms)
        else:
            _show_history(session, log, options, now_ms)


def _default_limit(session: Session) -> int | None:
    """Return a limit for terminals only: a script must not miss a commit."""
    return DEFAULT_LIMIT if session.output.stdout.isatty() else None


def _ensure_one_question(asked: Mapping[str, bool]) -> None:
    questions = [name for name, is_asked in asked.items() if is_asked]
    if len(questions) > 1:
        raise UsageError(f"{' and '.join(questions)} cannot be combined", hint="Give one of them.")


def _ensure_belongs(option: str, is_given: bool, to: str, is_there: bool) -> None:
    if is_given and not is_there:
        raise UsageError(f"{option} needs {to}", hint="See `deltactl describe-history --help`.")


def _parse_diff(text: str) -> tuple[int, int | None]:
    if ".." not in text:
        raise UsageError(
            f"{text!r} is not a range of versions",
            hint='Write "3..7", or "3.." to compare with the latest version.',
        )
    return parse_version_range(text)


def parse_version_range(text: str | None) -> tuple[int, int | None]:
    """Return the first and last version of ``A..B``, ``A..``, ``..B`` or ``A``; both included.

    Raises:
        UsageError: it is none of these, or the last version is before the first.
    """
    if text is None:
        return 0, None
    match = _RANGE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise UsageError(
            f"{text!r} is not a range of versions", hint='Write "3..7", "3.." or "..7".'
        )
    first = int(match[1] or 0)
    last = int(match[3]) if match[3] else None if match[2] else first
    if last is not None and last < first:
        raise UsageError(
            f"the range of versions {text!r} ends before it starts",
            hint=f'Write "{last}..{first}".',
        )
    return first, last


def _show_history(session: Session, log: DeltaLog, options: HistoryOptions, now_ms: int) -> None:
    is_one = options.first_version == options.last_version
    report = load_history(log, options)
    form = session.output.form
    written = (_row(row, report) for row in report.rows)
    # Write the lines one by one: a log may have millions of commits.
    rows = PlainRows([] if form in (OutputFormat.TABLE, OutputFormat.NDJSON) else written)
    if report.num_unread and form is not OutputFormat.TABLE:
        unread = format_count(report.num_unread, "older version")
        session.output.note(f"{unread} not shown: use --limit N or --all")
    # An Arrow table without rows still has the column names.
    present_history(
        session,
        report.latest_version,
        rows,
        lambda page: render_history(page, report, now_ms, is_one=is_one),
        rows or (written if report.rows else report.table()),
    )


def _show_version_at(session: Session, log: DeltaLog, asked_ms: int, now_ms: int) -> None:
    found = version_at(log, asked_ms)
    rows = [json_row(found.row)]
    present_history(
        session,
        found.latest_version,
        rows,
        lambda page: render_version_at(page, found, asked_ms, now_ms),
        rows,
    )


def _show_files(session: Session, log: DeltaLog, version: int, now_ms: int) -> None:
    found = commit_files(log, version)
    rows = [change_row(p.partition_values, p.added, p.removed) for p in found.partitions]
    present_history(
        session,
        found.latest_version,
        {**json_row(found.row), "files": rows},
        lambda page: render_commit_files(page, found, now_ms),
        rows,
    )


def _row(row: dict[str, Any], report: HistoryReport) -> dict[str, Any]:
    """Return a row for JSON, with ``--restorable`` also which files of the version exist."""
    if report.restorable is None:
        return json_row(row)
    left = report.restorable.get(row["version"])
    return {
        **json_row(row),
        "restorable": None if left is None else left.state.value,
        "num_files": None if left is None else left.num_files,
        "num_files_gone": None if left is None else left.num_gone,
    }
