"""``deltactl describe-history``: what happened to a table."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from deltactl.cli.history_page import render_commit_files, render_history, render_version_at
from deltactl.cli.options import TableArgument
from deltactl.cli.output import OutputFormat
from deltactl.cli.session import Session
from deltactl.cli.times import parse_time
from deltactl.clock import SystemClock
from deltactl.errors import UsageError
from deltactl.operations.history import (
    HistoryOptions,
    HistoryReport,
    commit_files,
    load_history,
    version_at,
)
from deltactl.storage.store import Store
from deltactl.units import format_count, format_timestamp

DEFAULT_LIMIT = 20
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
            help=f"The newest N commits, by default {DEFAULT_LIMIT} on a terminal, else all",
            show_default=False,
        ),
    ] = None,
    all_commits: Annotated[bool, typer.Option("--all", help="All commits")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help='Not before: "2024-01-31 12:00", or "2h" for two hours ago'
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Not after")] = None,
    version_range: Annotated[
        str | None,
        typer.Option(metavar="A..B", help="Versions A to B; A.. and ..B leave an end open"),
    ] = None,
    operation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this operation, such as MERGE; may be repeated",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only the version that was current then")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only version N", show_default=False)
    ] = None,
    files: Annotated[
        bool,
        typer.Option("--files", help="With --version: what it added and removed, per partition"),
    ] = False,
    restorable: Annotated[
        bool,
        typer.Option(
            "--restorable",
            help="Also what is left of each version; lists all files of the table",
        ),
    ] = False,
) -> None:
    """Show the commits of a table, newest first.

    Made for incidents: a broken checkpoint, a torn commit or a gap does not stop it. What is left
    is shown, and the hole is marked. Times are UTC.

    \b
    Examples:
      deltactl describe-history /data/events --limit 10
      deltactl describe-history /data/events --at "2024-01-31 12:00"
      deltactl describe-history /data/events --since 2d --operation MERGE -o json
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    now_ms = SystemClock().now_ms()
    if all_commits and limit is not None:
        raise UsageError("--limit and --all do not go together", hint="give one of them")
    filters = (since, until, version_range, operation)
    _ensure_one_question(at, version, files, any(filters) or limit is not None or all_commits)
    if restorable and (at is not None or files):
        raise UsageError("--restorable does not go with --at or --files")
    store = session.open_store(table)
    if at is not None:
        _show_version_at(session, store, parse_time(at, now_ms), now_ms)
    elif files and version is not None:
        _show_files(session, store, version, now_ms)
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
        _show_history(session, store, options, now_ms)


def _default_limit(session: Session) -> int | None:
    """A screenful for people; a script that reads on must not miss a commit."""
    return DEFAULT_LIMIT if session.output.stdout.isatty() else None


def _ensure_one_question(
    at: str | None, version: int | None, files: bool, has_filters: bool
) -> None:
    if files and version is None:
        raise UsageError("--files needs --version", hint="say which: --version N --files")
    questions = [
        name
        for name, is_asked in (
            ("--at", at is not None),
            ("--version", version is not None),
            ("a selection of commits", has_filters),
        )
        if is_asked
    ]
    if len(questions) > 1:
        raise UsageError(f"{' and '.join(questions)} do not go together", hint="ask one at a time")


def parse_version_range(text: str | None) -> tuple[int, int | None]:
    """First and last version of ``A..B``, ``A..``, ``..B`` or ``A``; both ends included.

    Raises:
        UsageError: it is none of these, or ends before it begins.
    """
    if text is None:
        return 0, None
    match = _RANGE.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise UsageError(
            f"{text!r} is not a range of versions", hint='write "3..7", "3.." or "..7"'
        )
    first = int(match[1] or 0)
    last = int(match[3]) if match[3] else None if match[2] else first
    if last is not None and last < first:
        raise UsageError(f"the range {text!r} ends before it begins", hint=f'"{last}..{first}"?')
    return first, last


def _show_history(session: Session, store: Store, options: HistoryOptions, now_ms: int) -> None:
    report = load_history(store, options, session.output.warn)
    is_table = session.output.form is OutputFormat.TABLE
    rows = [] if is_table else [_row(row, report) for row in report.rows]
    if report.num_unread and not is_table:
        unread = format_count(report.num_unread, "older version")
        session.output.note(f"{unread} not shown: --limit N or --all shows more")
    session.output.emit(
        _envelope(session, report.latest_version, rows),
        render_table=lambda page: render_history(page, report, now_ms),
        rows=rows if rows or is_table else report.table(),
    )


def _show_version_at(session: Session, store: Store, asked_ms: int, now_ms: int) -> None:
    found = version_at(store, asked_ms, session.output.warn)
    rows = [json_row(found.row)]
    session.output.emit(
        _envelope(session, found.latest_version, rows),
        render_table=lambda page: render_version_at(page, found, asked_ms, now_ms),
        rows=rows,
    )


def _show_files(session: Session, store: Store, version: int, now_ms: int) -> None:
    found = commit_files(store, version, session.output.warn)
    rows = [
        {
            "partition_values": part.partition_values,
            **{
                f"{side}_{fact}": getattr(counts, fact)
                for side, counts in (("added", part.added), ("removed", part.removed))
                for fact in ("num_files", "size_bytes", "num_rows", "num_deletion_vectors")
            },
        }
        for part in found.partitions
    ]
    session.output.emit(
        _envelope(session, found.latest_version, {**json_row(found.row), "files": rows}),
        render_table=lambda page: render_commit_files(page, found, now_ms),
        rows=rows,
    )


def _row(row: dict[str, Any], report: HistoryReport) -> dict[str, Any]:
    """A row as JSON shows it, with what is left of the version where that was asked for."""
    if report.restorable is None:
        return json_row(row)
    left = report.restorable.get(row["version"])
    return {
        **json_row(row),
        "restorable": None if left is None else left.state.value,
        "num_files": None if left is None else left.num_files,
        "num_files_gone": None if left is None else left.num_gone,
    }


def json_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON shows it: its time as RFC 3339."""
    when = row["timestamp"]
    return {**row, "timestamp": None if when is None else format_timestamp(when)}


def _envelope(session: Session, latest_version: int, result: Any) -> Any:
    return session.envelope(
        version_before=latest_version, version_after=latest_version, result=result
    )
