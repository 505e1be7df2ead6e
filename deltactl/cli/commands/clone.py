"""``deltactl clone``: parse options, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltactl.cli.options.common import DryRunOption
from deltactl.cli.options.values import parse_properties, parse_time
from deltactl.cli.session import Session
from deltactl.clock import SystemClock
from deltactl.errors import CommitDamagedError, UsageError
from deltactl.operations.clone.options import CloneOptions
from deltactl.option_fields import to_pairs
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.clone.report import CloneReport


def command(  # noqa: PLR0913 - one parameter an option
    ctx: typer.Context,
    table: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Path or URI of the table to clone", show_default=False
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="Path or URI of the new table", show_default=False),
    ],
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Copy the files, so that the clone is independent of the source"
        ),
    ] = False,
    shallow: Annotated[
        bool,
        typer.Option(
            "--shallow",
            help="Copy no data files. The log of the clone refers to the files of the source",
        ),
    ] = False,
    version: Annotated[
        int | None, typer.Option("--version", min=0, metavar="N", help="Clone version N")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help='Clone the version that was the latest at this time: "2024-01-31 12:00", or '
            '"2h" for two hours ago',
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Clone only partitions that match this SQL condition",
        ),
    ] = None,
    table_property: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="PROPERTY=VALUE",
            help="Set this table property in the clone; may be repeated",
        ),
    ] = None,
    sync: Annotated[
        bool,
        typer.Option(
            "--sync",
            help="Update an existing deep clone to the latest version of the source, or to the "
            "version given with --version",
        ),
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="With --sync: also update the clone if another writer changed it, or if the "
            "source was created again",
        ),
    ] = False,
    no_note: Annotated[
        bool,
        typer.Option(
            "--no-note",
            help="With --shallow: do not record the clone in the source. Without this record, a "
            "vacuum of the source may delete files that the clone needs",
        ),
    ] = False,
    source_storage_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Storage option for SOURCE; may be repeated. If you give it, --storage-option "
            "applies only to TARGET",
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Clone a table: copy its files (--deep) or refer to them (--shallow).

    The clone has the rows, schema and properties of one version, but no history.

    TARGET becomes a table only after deltactl has copied all files. If a run is interrupted, rerun
    the same command: the new run copies only the missing files.

    \b
    Examples:
      deltactl clone /data/events s3://backup/events --deep
      deltactl clone /data/events s3://backup/events --deep --sync
      deltactl clone /data/events /tmp/test --shallow --version 12
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    if deep == shallow:
        raise UsageError(
            "--deep and --shallow cannot be combined"
            if deep
            else "clone needs --deep or --shallow",
            hint="Give one of them: --deep copies the files, --shallow does not.",
        )
    options = CloneOptions(
        deep=deep,
        version=version,
        timestamp_ms=(None if timestamp is None else parse_time(timestamp, SystemClock().now_ms())),
        where=where,
        properties=parse_properties(table_property or []),
        sync=sync,
        full=full,
        note=not no_note,
    )
    from deltactl.operations.clone.run import clone_table

    source_options = session.resolve_options(to_pairs(source_storage_option or ()))
    source = session.open_log(table, options=source_options, read_only=dry_run or deep or no_note)
    log = session.open_table(target, read_only=dry_run)
    with session.run_context("files", session.engine()) as context:
        report = clone_table(source, log, options, context, dry_run=dry_run)
    _present(session, report, target)


def _present(session: Session, report: CloneReport, target: str) -> None:
    from deltactl.cli.pages.clone import render_report

    result = report.to_dict()
    session.present(
        lambda page: render_report(page, report, session.argv, target),
        rows=[result],
        error=_find_error(report),
        version_before=report.version_before,
        version_after=report.version_after,
        dry_run=report.dry_run,
        is_idle=report.is_done,
        engine=report.engine,
        engine_reason=report.engine_reason,
        result=result,
    )


def _find_error(report: CloneReport) -> CommitDamagedError | None:
    """Return the error of a shallow clone whose files a vacuum removed during the run."""
    if not report.gone:
        return None
    from deltactl.operations.missing_files.find import list_missing

    return CommitDamagedError(
        f"the clone was created, but {format_count(len(report.gone), 'file', 'files')} of its "
        f"source cannot be read: {list_missing(report.gone)}",
        hint="Delete the clone, then clone the latest version: a vacuum removed files of the "
        "source during the run.",
    )
