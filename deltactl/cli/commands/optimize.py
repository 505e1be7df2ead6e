"""``deltactl optimize``: parse options, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltactl.cli.commands.optimize_values import (
    LAST_RUN,
    parse_codec,
    parse_commit_every,
    parse_optional_size,
    parse_since,
)
from deltactl.cli.options.common import DryRunOption, TableArgument
from deltactl.cli.options.values import parse_need
from deltactl.cli.session import Session
from deltactl.engine.memory import machine_memory_bytes
from deltactl.errors import DeltactlError, PartialSuccessError, explain_rest, join_reasons
from deltactl.operations.optimize.options import (
    DEFAULT_LAYOUT,
    DEFAULT_MIN_ROW_GROUP_BYTES,
    LIQUID_LAYOUT,
    Layout,
    OptimizeOptions,
    Rewrite,
    Verification,
)
from deltactl.operations.target_size import DEFAULT_MIN_SHARE, DEFAULT_TARGET
from deltactl.units import (
    format_compact_size,
    format_count,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

if TYPE_CHECKING:
    from deltactl.operations.optimize.run import OptimizeReport

_DEFAULTS: Final = OptimizeOptions()


def command(  # noqa: PLR0913 - one parameter an option
    ctx: typer.Context,
    table: TableArgument,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Rewrite only partitions that match this SQL condition, e.g. "
            "\"date >= '2024-01-01'\"",
        ),
    ] = None,
    purge: Annotated[
        bool,
        typer.Option(
            "--purge",
            help="Rewrite every file that has a deletion vector or contains dropped columns",
        ),
    ] = False,
    cluster_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Sort rows into files by these columns, e.g. country,day, so that queries with "
            "filters read fewer files",
        ),
    ] = None,
    layout: Annotated[
        Layout | None,
        typer.Option(
            help="How --cluster-by arranges rows. tile: split each column into ranges with equal "
            "row counts. hilbert, zorder: sort along a Hilbert or Z-order curve. linear: sort by "
            f"the columns  [default: {DEFAULT_LAYOUT}; {LIQUID_LAYOUT} if the table has "
            "clustering columns]",
            show_default=False,
        ),
    ] = None,
    zorder_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help="Sort rows into files in Z-order of these columns, as OPTIMIZE ZORDER BY of "
            "Delta on Spark does",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="With --cluster-by or --zorder-by: also rewrite files that already have this "
            "layout",
        ),
    ] = False,
    min_cluster_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="A cluster is a group of files that were sorted together in one run. If a "
            "cluster is smaller than SIZE, its files are sorted again, together with new files  "
            f"[default: {format_compact_size(_DEFAULTS.min_cluster_bytes)}]",
        ),
    ] = None,
    spill_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Directory for rows that do not fit in memory while deltactl sorts them  "
            "[default: TMPDIR, else /tmp]",
        ),
    ] = None,
    since_version: Annotated[
        str | None,
        typer.Option(
            metavar="N|last-run",
            help="Rewrite only partitions that changed after version N. last-run: rewrite only "
            "partitions that changed since the last optimize run that finished all work",
        ),
    ] = None,
    skip_hot: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Skip partitions whose newest file is younger than this age, e.g. 1h",
        ),
    ] = None,
    target_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Target size of the new files  [default: delta.targetFileSize, else "
            f"{DEFAULT_TARGET}]",
        ),
    ] = None,
    min_file_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Merge files that are smaller than this size  [default: "
            f"{DEFAULT_MIN_SHARE:.0%} of target]",
        ),
    ] = None,
    min_input_files: Annotated[
        int, typer.Option(min=1, help="Merge files only in groups of at least this many files")
    ] = _DEFAULTS.min_input_files,
    max_deleted_rows_ratio: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Rewrite a file if more than this share of its rows is deleted"
        ),
    ] = _DEFAULTS.max_deleted_rows_ratio,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Rewrite at most this many bytes of input files  [default: no limit]",
        ),
    ] = None,
    commit_every: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME|SIZE",
            help="After each TIME, or each SIZE of input, commit the finished files. To set both, "
            f"give the option twice  [default: {format_duration(_DEFAULTS.commit_every_ms)} "
            f"and {format_compact_size(_DEFAULTS.commit_every_bytes)}]",
        ),
    ] = None,
    max_concurrent: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of bins (groups of files) to rewrite at the same time  [default: "
            "number of cores]",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory limit of the process  [default: half of the memory of the "
            "machine or cgroup]",
        ),
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:LEVEL]",
            help="Compression of the new files: zstd, snappy, gzip, lz4, brotli or none  "
            "[default: delta.parquet.compression.codec, else the codec of most input files]",
        ),
    ] = None,
    rewrite: Annotated[
        Rewrite,
        typer.Option(
            help="How to write row groups. auto: copy large row groups without decoding, and "
            "merge small ones. copy: copy as many as possible. encode: copy none"
        ),
    ] = _DEFAULTS.rewrite,
    min_row_group: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="With --rewrite auto: copy row groups without decoding if their compressed size "
            "is at least SIZE. Merge smaller row groups  [default: "
            f"{format_compact_size(DEFAULT_MIN_ROW_GROUP_BYTES)}]",
        ),
    ] = None,
    verify: Annotated[
        Verification,
        typer.Option(
            help="How to compare new files with their inputs before the commit. counts: compare "
            "row counts and null counts in the footers. full: also read and compare all rows"
        ),
    ] = _DEFAULTS.verify,
    if_needed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=THRESHOLD",
            help="Run only if one threshold is reached. files=N, size=SIZE: N files or SIZE to "
            "rewrite. skip=SHARE: for a clustering column, a query for one value skips less "
            "than SHARE of the files. May be repeated",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Change nothing, and exit with status 3 if there are files to rewrite"
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Merge small files, and rewrite files with many deleted rows.

    Before the commit, deltactl verifies that no row was lost or changed. The old files stay in
    storage until a vacuum removes them.

    \b
    Examples:
      deltactl optimize /data/events --dry-run
      deltactl optimize /data/events --where "date >= '2024-06-01'" --max-bytes 50GiB
      deltactl optimize /data/events --cluster-by country,device --dry-run
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    codec_name, codec_level = parse_codec(codec)
    every_ms, every_bytes = parse_commit_every(commit_every or [])
    since = parse_since(session, table, since_version)
    options = OptimizeOptions(
        where=where,
        target_bytes=parse_optional_size(target_size),
        min_file_bytes=parse_optional_size(min_file_size),
        rewrite=rewrite,
        min_row_group_bytes=parse_optional_size(min_row_group),
        min_input_files=min_input_files,
        max_deleted_rows_ratio=max_deleted_rows_ratio,
        max_bytes=parse_optional_size(max_bytes),
        commit_every_ms=_DEFAULTS.commit_every_ms if every_ms is None else every_ms,
        commit_every_bytes=_DEFAULTS.commit_every_bytes if every_bytes is None else every_bytes,
        codec=codec_name,
        codec_level=codec_level,
        verify=verify,
        purge=purge,
        cluster_by=cluster_by,
        layout=layout,
        zorder_by=zorder_by,
        full=full,
        min_cluster_bytes=_parse_min_cluster(min_cluster_size),
        spill_dir=spill_dir,
        skip_hot_ms=None if skip_hot is None else parse_duration(skip_hot),
        since_version=since[0],
        since_table_id=since[1],
        need=parse_need(if_needed, ("files", "size", "skip")),
        memory_bytes=machine_memory_bytes() // 2 if memory is None else parse_size(memory),
    )
    report = _run(session, table, options, max_concurrent, dry_run or check)
    if report.caught_up_version is not None and since_version in (None, LAST_RUN):
        session.caught_up_version = report.caught_up_version
    is_due = not report.plan.is_empty and report.skipped is None
    _present(session, report, _what_is_left(session, report), is_work_needed=check and is_due)


def _run(
    session: Session,
    table: str,
    options: OptimizeOptions,
    max_concurrent: int | None,
    dry_run: bool,
) -> OptimizeReport:
    from deltactl.operations.optimize.run import optimize_table

    log = session.open_table(table, read_only=dry_run)
    engine = session.engine(max_concurrent=max_concurrent, memory_bytes=options.memory_bytes)
    with session.run_context("optimize", engine) as context:
        report = optimize_table(log, options, context, dry_run=dry_run)
        if report.interrupted:
            stopped = session.find_interruption(
                f"{_committed(report)}{_unfinished(report)}",
                is_part_done=bool(report.versions),
                hint=_hint_to_finish(report),
            )
            if stopped is not None:
                _present(session, report, stopped)
    return report


def _what_is_left(session: Session, report: OptimizeReport) -> DeltactlError | None:
    """Return the error for failed bins, else for bins whose files other writers changed.

    Such a run is not complete: schedulers and ``--min-interval`` must see an error.
    """
    committed = _committed(report)
    committed = committed[0].upper() + committed[1:]
    if report.failures:
        for conflict in report.conflicts:
            session.output.warn(f"{_left(conflict.files)}: {conflict.reason}")
        cause = report.find_worst_failure()
        lost = sum(failure.files for failure in report.failures)
        files = format_count(lost, "file was", "files were")
        return explain_rest(
            cause,
            f"{files} not rewritten: {cause.message}",
            hint=(cause.hint or "Fix the cause, then rerun.") + f" {committed}.",
        )
    if report.conflicts:
        lost = sum(conflict.files for conflict in report.conflicts)
        return PartialSuccessError(
            f"{_left(lost)}: {join_reasons([left.reason for left in report.conflicts])}",
            hint=f"Rerun to rewrite the rest. {committed}.",
        )
    return None


def _left(files: int) -> str:
    return format_count(files, "file was not changed", "files were not changed")


def _present(
    session: Session,
    report: OptimizeReport,
    error: DeltactlError | None,
    *,
    is_work_needed: bool = False,
) -> None:
    from deltactl.cli.pages.optimize import render_report

    session.table_id = report.plan.table_id
    session.present(
        lambda page: render_report(page, report, session.argv),
        rows=report.plan.partitions,
        error=error,
        is_work_needed=is_work_needed,
        version_before=report.version_before,
        version_after=report.version_after,
        dry_run=report.dry_run,
        engine=report.engine,
        engine_reason=report.engine_reason,
        skipped=report.skipped,
        is_idle=report.plan.is_empty,
        result=report.to_dict(),
    )


def _committed(report: OptimizeReport) -> str:
    if not report.versions:
        return "nothing was committed"
    removed = format_count(report.files_removed, "file")
    versions = ", ".join(map(str, report.versions))
    return f"{removed} became {report.files_added} in version {versions}"


def _unfinished(report: OptimizeReport) -> str:
    rest = report.unfinished
    if not rest.bins:
        return ""
    files = format_count(rest.files, "file")
    return f"; {format_count(rest.bins, 'bin')} left ({files}, {format_size(rest.bytes)})"


def _hint_to_finish(report: OptimizeReport) -> str:
    """Return what to do after a run that was stopped: a cluster is started again."""
    layout = report.plan.layout
    if layout is None or not report.unfinished.bins or layout.request.kind == "zorder":
        return "Rerun to finish the rest."
    size = format_size(report.unfinished.largest_bytes)
    return (
        "Rerun to finish the rest. The next run starts unfinished clusters from the beginning. "
        f"The largest unfinished cluster has {size}: allow enough time for it, or divide clusters "
        "with --max-bytes."
    )


def _parse_min_cluster(text: str | None) -> int:
    return _DEFAULTS.min_cluster_bytes if text is None else parse_size(text)
