"""``deltactl describe-history``: the commits of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from deltactl.cli.commands.history_views import show_blame, show_diff, show_follow
from deltactl.cli.options.common import TableArgument
from deltactl.cli.output.envelope import PlainRows
from deltactl.cli.output.output import OutputFormat
from deltactl.cli.pages.history import (
    describe_columns,
    describe_commit_files,
    describe_history,
    describe_version_at,
)
from deltactl.cli.session import Session
from deltactl.cli.startup import load_arrow
from deltactl.clock import SystemClock
from deltactl.commit_options import COMMIT_INFO_KEYS
from deltactl.errors import UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import COLUMNS, json_row
from deltactl.operations.history.run import (
    HistoryOptions,
    HistoryReport,
    commit_files,
    load_history,
    version_at,
)
from deltactl.option_fields import output_option, selection_option
from deltactl.protocol.column_names import Columns, list_columns
from deltactl.suggest import find_nearest, with_suggestion
from deltactl.units import TimestampMs, format_count

DEFAULT_LIMIT = 20
_LIST = "a list of commits, without --at, --diff, --follow, --files"
_OF_RESTORABLE = ("restorable", "num_files", "num_files_gone")
_KNOWN = frozenset({*COLUMNS, *COMMIT_INFO_KEYS, *_OF_RESTORABLE, "clientVersion"})  # of delta-rs
_RANGE = re.compile(r"\s*([0-9]{0,19})\s*(\.\.)?\s*([0-9]{0,19})\s*")


def to_versions(text: str) -> tuple[int, int | None]:
    """Return the first and last version of ``A..B``, ``A..``, ``..B`` or ``A``; both included.

    Raises:
        UsageError: it is none of these, or the last version is before the first.
    """
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


def to_diff(text: str) -> tuple[int, int | None]:
    """Return the versions of ``A..B`` or ``A..``.

    Raises:
        UsageError: it is neither.
    """
    if ".." not in text:
        raise UsageError(
            f"{text!r} is not a range of versions",
            hint='Write "3..7", or "3.." to compare with the latest version.',
        )
    return to_versions(text)


@dataclass(frozen=True, slots=True)
class HistoryFlags:
    """Options that only the command line has."""

    every: bool = selection_option(False, "Show all commits", flag="all")
    versions: Annotated[tuple[int, int | None], to_versions] | None = selection_option(
        None,
        "Show versions A to B. A.. means from A to the latest version; ..B means from the oldest "
        "version to B",
        flag="version-range",
        metavar="A..B",
    )
    at_ms: TimestampMs | None = selection_option(
        None,
        "Show only the version that was the latest at this time",
        metavar="TIME",
        is_basic=True,
    )
    version: int | None = selection_option(None, "Show only version N", least=0, is_basic=True)
    files: bool = selection_option(
        False,
        "With --version: show the files that this version added and removed, with counts for each "
        "partition",
        is_basic=True,
    )
    diff: Annotated[tuple[int, int | None], to_diff] | None = selection_option(
        None,
        "Show the differences between versions A and B. A.. compares A with the latest version",
        metavar="A..B",
        is_basic=True,
    )
    blame: str | None = selection_option(
        None,
        "Show the commits that changed files of this partition, e.g. day=2024-01-31. An SQL "
        "condition on partition columns is also possible",
        metavar="PARTITION",
        is_basic=True,
    )
    follow: bool = selection_option(
        False, "Wait for new commits, and print each one as a line of JSON"
    )
    since_version: int | None = selection_option(
        None, "With --follow: start with version N", default="the next commit", least=0
    )
    columns: Columns | None = output_option(
        None,
        "Show only these columns, in this order: those of -o json, or other keys of commitInfo. "
        "-o json and ndjson always have all",
        metavar="KEYS",
    )

    def ensure_consistent(self, options: HistoryOptions) -> None:
        """Refuse options that ask several questions, or that have no effect.

        Raises:
            UsageError: there are such options.
        """
        if self.every and options.limit is not None:
            raise UsageError("--limit and --all cannot be combined", hint="Give one of them.")
        filters = (options.since_ms, options.until_ms, self.versions, options.limit)
        is_filtered = any(it is not None for it in filters) or self.every or options.operations
        asked = {
            "--at": self.at_ms is not None,
            "--version": self.version is not None,
            "--diff": self.diff is not None,
            "--follow": self.follow,
            "a filter of commits (such as --since or --limit)": is_filtered,
        }
        questions = [name for name, is_asked in asked.items() if is_asked]
        if len(questions) > 1:
            raise UsageError(
                f"{' and '.join(questions)} cannot be combined", hint="Give one of them."
            )
        added = [name for name in list_columns(self.columns or ()) if name in _OF_RESTORABLE]
        for name, is_given, needed, is_there in (
            ("--files", self.files, "--version", self.version is not None),
            ("--since-version", self.since_version is not None, "--follow", self.follow),
            ("--restorable", options.restorable, f"{_LIST} and --blame", self.is_plain),
            ("--blame", self.blame is not None, _LIST, self.is_list),
            ("--columns", self.columns is not None, _LIST, self.is_plain),
            (f"--columns {','.join(added)}", bool(added), "--restorable", options.restorable),
        ):
            if is_given and not is_there:
                raise UsageError(
                    f"{name} needs {needed}", hint="See `deltactl describe-history --help`."
                )

    @property
    def is_list(self) -> bool:
        """Return whether the answer is a list of commits."""
        return self.at_ms is None and self.diff is None and not (self.files or self.follow)

    @property
    def is_plain(self) -> bool:
        """Return whether the answer is a list of commits of any partition."""
        return self.is_list and self.blame is None


def command(
    session: Session, table: TableArgument, options: HistoryOptions, flags: HistoryFlags
) -> None:
    """Show the commits of a table, newest first.

    The command also works if the log is damaged. It marks invalid checkpoints and commits, and
    missing versions, and shows all other commits. Times are in UTC.

    \b
    Examples:
      deltactl describe-history /data/events --limit 10
      deltactl describe-history /data/events --at "2024-01-31 12:00"
      deltactl describe-history /data/events --since 2d --operation MERGE -o json
      deltactl describe-history /data/events --diff 41..57
      deltactl describe-history /data/events --blame day=2024-01-31
      deltactl describe-history /data/events --follow --since-version 58
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    flags.ensure_consistent(options)
    now_ms = SystemClock().now_ms()
    is_table = session.output.form is OutputFormat.TABLE
    if not flags.is_plain or options.restorable or is_table:
        load_arrow()  # plain rows of commits need no Arrow, whose import is half of their time
    log = session.open_log(table, published_only=True)
    if flags.is_list:
        _show_list(session, log, options, flags, now_ms)
    elif flags.diff is not None:
        show_diff(session, log, *flags.diff)
    elif flags.follow:
        show_follow(session, log, flags.since_version)
    elif flags.at_ms is not None:
        _show_version_at(session, log, flags.at_ms, now_ms)
    elif flags.version is not None:
        _show_files(session, log, flags.version, now_ms)


def _show_list(
    session: Session, log: DeltaLog, options: HistoryOptions, flags: HistoryFlags, now_ms: int
) -> None:
    output = session.output
    first, last = flags.versions or (flags.version or 0, flags.version)
    # The default is for terminals only: a script must not miss a commit.
    limit = options.limit or (DEFAULT_LIMIT if output.stdout.isatty() else None)
    options = replace(
        options,
        limit=None if flags.every else limit,
        first_version=first,
        last_version=last,
        changes=output.form is OutputFormat.TABLE,
    )
    if flags.blame is not None:
        show_blame(session, log, flags.blame, options, now_ms)
    else:
        _show_history(session, log, options, list_columns(flags.columns or ()), now_ms)


def _show_history(
    session: Session,
    log: DeltaLog,
    options: HistoryOptions,
    columns: Sequence[str],
    now_ms: int,
) -> None:
    is_one = options.first_version == options.last_version
    report = load_history(log, options)
    form = session.output.form
    written = (_row(row, report) for row in report.rows)
    if columns and form in (OutputFormat.TABLE, OutputFormat.CSV):
        listed = list(written)
        _ensure_known(columns, listed, session)
        chosen = [_choose(row, columns) for row in listed]
        page = partial(describe_columns, chosen, columns, report.num_unread)
        session.present(page, rows=chosen, version_before=report.latest_version, result=[])
        return
    # Write the lines one by one: a log may have millions of commits.
    rows = PlainRows([] if form in (OutputFormat.TABLE, OutputFormat.NDJSON) else written)
    if report.num_unread and form is not OutputFormat.TABLE:
        unread = format_count(report.num_unread, "older version")
        session.output.note(f"{unread} not shown: use --limit N or --all")
    # An Arrow table without rows still has the column names.
    session.present(
        lambda: describe_history(report, now_ms, is_one=is_one),
        rows=rows or (written if report.rows else report.table()),
        version_before=report.latest_version,
        result=rows,
    )


def _show_version_at(session: Session, log: DeltaLog, asked_ms: int, now_ms: int) -> None:
    found = version_at(log, asked_ms)
    rows = [json_row(found.row)]
    session.present(
        lambda: describe_version_at(found, asked_ms, now_ms),
        rows=rows,
        version_before=found.latest_version,
        result=rows,
    )


def _show_files(session: Session, log: DeltaLog, version: int, now_ms: int) -> None:
    found = commit_files(log, version)
    rows = [change.to_dict() for change in found.partitions]
    # The page has them as columns.
    is_page = session.output.form is OutputFormat.TABLE
    actions = [] if is_page else found.actions.to_pylist()
    session.present(
        lambda: describe_commit_files(found, now_ms),
        rows=rows,
        version_before=found.latest_version,
        result={**json_row(found.row), "files": rows, "actions": actions},
    )


def _ensure_known(columns: Sequence[str], rows: Sequence[dict[str, Any]], session: Session) -> None:
    """Refuse a misspelled column; warn of another one that no listed commit has.

    Commits can have any key, so the name may be right for commits that are not listed.

    Raises:
        UsageError: there is one.
    """
    found = {key for row in rows for key in (*row, *(row["otherInfo"] or ()))}
    for name in columns:
        if name in found or name in _KNOWN:
            continue
        message = f"--columns: no commit that is listed has {name!r}"
        known = found | _KNOWN
        if find_nearest(name, known) is not None:
            raise UsageError(with_suggestion(message, name, known), hint="Correct the name.")
        session.output.warn(message)


def _choose(row: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    others = row["otherInfo"] or {}
    return {name: row[name] if name in row else others.get(name) for name in columns}


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
