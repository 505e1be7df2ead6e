"""``deltactl describe-detail``: schema, size, properties and features of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltactl.cli.confirm import can_ask
from deltactl.cli.options.common import TableArgument
from deltactl.cli.pages.detail import describe_detail, summarise_detail
from deltactl.cli.session import Session
from deltactl.clock import SystemClock
from deltactl.errors import UsageError
from deltactl.operations.storage.options import StorageOptions
from deltactl.option_fields import layout_option, selection_option
from deltactl.units import TimestampMs

if TYPE_CHECKING:
    from deltactl.operations.detail import Survey
    from deltactl.operations.vacuum.options import Orphans


@dataclass(frozen=True, slots=True)
class DetailFlags:
    """Options that only the command line has."""

    version: int | None = selection_option(None, "Show version N", least=0, is_basic=True)
    at_ms: TimestampMs | None = selection_option(
        None,
        'Show the version that was the latest at this time: "2024-01-31 12:00", or "2h" for two '
        "hours ago",
        metavar="TIME",
        is_basic=True,
    )
    layout: bool = layout_option(
        False,
        "For each clustering column, also show which share of the files a query for one value "
        "skips, now and after clustering",
        is_basic=True,
    )
    readers: bool = selection_option(
        False,
        "Also show which engines can read the table, and which table features stop the others",
        is_basic=True,
    )
    storage: bool = selection_option(
        False,
        "Show what all files in the directory of the table are for, which can be removed, now or "
        "when, and what they cost",
        alone_with=("price", "inventory"),
        is_basic=True,
    )


def command(
    session: Session, table: TableArgument, options: StorageOptions, flags: DetailFlags
) -> None:
    """Show sizes, columns, properties, protocol and features of a table.

    The command reads only the log, and with --storage also the list of all files. So it also works
    for tables with features and types that deltactl does not support. Times are in UTC.

    \b
    Examples:
      deltactl describe-detail /data/events
      deltactl describe-detail s3://lake/events --at 2d -o json
      deltactl describe-detail /data/events --layout
      deltactl describe-detail 's3://lake/*' --storage --price 0.023
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    from deltactl.operations.detail import load_detail

    if flags.storage:
        _show_storage(session, table, options)
        return
    for name in ("price", "inventory"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} needs --storage", hint="Add --storage.")
    if flags.version is not None and flags.at_ms is not None:
        raise UsageError("--version and --at cannot be combined", hint="Give one of them.")
    now_ms = SystemClock().now_ms()
    log = session.open_log(table, published_only=True)
    version = flags.version
    if flags.at_ms is not None:
        from deltactl.operations.history.run import version_at

        version = version_at(log, flags.at_ms).row["version"]
    report = load_detail(
        log, version, survey=_load_survey() if flags.layout else None, readers=flags.readers
    )
    row = report.to_dict()
    session.present(
        lambda: describe_detail(report, now_ms),
        headline=summarise_detail(report),
        rows=[row],
        version_before=report.version,
        result=row,
    )


def _show_storage(session: Session, table: str, options: StorageOptions) -> None:
    from deltactl.cli.pages.storage import describe_storage
    from deltactl.operations.storage.run import survey_storage

    log = session.open_table(table, read_only=True)
    orphans: Orphans = "named" if can_ask(session) else "keep"
    with session.run_context(None) as context:
        report = survey_storage(log, options, context, orphans=orphans)
    session.table_id, session.size_bytes = report.table_id, report.total.bytes
    result = report.to_dict()
    session.present(
        lambda: describe_storage(report),
        rows=result["by_reason"],
        version_before=report.version,
        result=result,
    )


def _load_survey() -> Survey:
    from deltactl.operations.optimize.layout.expect import survey_layout

    return survey_layout
