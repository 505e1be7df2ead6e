"""``deltactl optimize``: parse options, call the operation, print its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from deltactl.cli.options.common import (
    TableArgument,
    check_field,
    dry_run_field,
    max_concurrent_field,
)
from deltactl.cli.session import Session
from deltactl.engine.memory import machine_memory_bytes
from deltactl.errors import (
    DeltactlError,
    PartialSuccessError,
    UsageError,
    join_reasons,
)
from deltactl.operations.optimize.options import LAST_RUN, OptimizeOptions
from deltactl.option_fields import execution_option
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


def to_commit_every(texts: Sequence[str]) -> Mapping[str, Any]:
    """Return the fields of ``OptimizeOptions`` for a time and a size, each given at most once.

    Raises:
        UsageError: there are two times or two sizes, or a text is neither.
    """
    found: dict[str, int] = {}
    for text in texts:
        try:
            field, value = "commit_every_ms", parse_duration(text)
        except UsageError:
            field, value = "commit_every_bytes", parse_size(text)
        if field in found:
            raise UsageError("at most one time and one size are possible")
        found[field] = value
    return found


@dataclass(frozen=True, slots=True)
class OptimizeFlags:
    """Options that only the command line has."""

    commit_every: Annotated[Mapping[str, Any], to_commit_every] = execution_option(
        {},
        "After each TIME, or each SIZE of input, commit the finished files. To set both, give the "
        "option twice",
        metavar="TIME|SIZE",
        default=f"{format_duration(_DEFAULTS.commit_every_ms)} and "
        f"{format_compact_size(_DEFAULTS.commit_every_bytes)}",
        is_settable=True,
        is_repeated=True,
    )
    max_concurrent: int | None = max_concurrent_field(
        "Number of bins (groups of files) to rewrite at the same time"
    )
    check: bool = check_field("there are files to rewrite")
    dry_run: bool = dry_run_field()


def command(
    session: Session, table: TableArgument, options: OptimizeOptions, flags: OptimizeFlags
) -> None:
    """Merge small files, and rewrite files with many deleted rows.

    Before the commit, deltactl compares counts of rows and nulls, or every row with --verify full.
    The old files stay in storage until a vacuum removes them.

    \b
    Examples:
      deltactl optimize /data/events --dry-run
      deltactl optimize /data/events --where "date >= '2024-06-01'" --max-bytes 50GiB
      deltactl optimize /data/events --cluster-by country,device --dry-run
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    memory = options.memory_bytes or machine_memory_bytes() // 2
    options = replace(options, memory_bytes=memory, **flags.commit_every)
    report = _run(session, table, options, flags.max_concurrent, flags.dry_run or flags.check)
    is_due = not report.plan.is_empty and report.skipped is None
    error = _what_is_left(session, report)
    _present(session, report, error, is_work_needed=flags.check and is_due)


def _run(
    session: Session,
    table: str,
    options: OptimizeOptions,
    max_concurrent: int | None,
    dry_run: bool,
) -> OptimizeReport:
    from deltactl.operations.caught_up import identify_commit
    from deltactl.operations.optimize.run import optimize_table

    log = session.open_table(table, read_only=dry_run)
    engine = session.engine(max_concurrent=max_concurrent, memory_bytes=options.memory_bytes)
    with session.run_context("optimize", engine) as context:
        report = optimize_table(log, options, context, dry_run=dry_run)
        if report.interrupted:
            stopped = session.find_interruption(
                f"{report.committed}{_unfinished(report)}",
                is_part_done=bool(report.versions),
                hint=_hint_to_finish(report),
            )
            if stopped is not None:
                _present(session, report, stopped)
    version = report.caught_up_version
    if version is not None and options.since_version in (None, LAST_RUN):
        with suppress(DeltactlError):  # then the record keeps its version
            session.caught_up = version, identify_commit(log, version)
    return report


def _what_is_left(session: Session, report: OptimizeReport) -> DeltactlError | None:
    """Return the error for failed bins, else for bins whose files other writers changed.

    Such a run is not complete: schedulers and ``--min-interval`` must see an error.
    """
    if error := report.find_error():
        for conflict in report.conflicts:
            session.output.warn(f"{_left(conflict.files)}: {conflict.reason}")
        return error
    if report.conflicts:
        lost = sum(conflict.files for conflict in report.conflicts)
        return PartialSuccessError(
            f"{_left(lost)}: {join_reasons([left.reason for left in report.conflicts])}",
            hint=f"Rerun to rewrite the rest. {report.committed.capitalize()}.",
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
    from deltactl.cli.pages.optimize import describe_optimize

    session.table_id = report.plan.table_id
    session.present(
        lambda: describe_optimize(report),
        rows=report.plan.partitions,
        error=error,
        is_work_needed=is_work_needed,
        version_before=report.version_before,
        version_after=report.version_after,
        engine=report.engine,
        engine_reason=report.engine_reason,
        skipped=report.skipped,
        is_idle=report.plan.is_empty,
        result=report.to_dict(),
    )


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
