"""``deltactl checkpoint``: parse options, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltactl.cli.confirm import ask, can_ask
from deltactl.cli.options.common import DryRunOption, TableArgument, YesOption
from deltactl.cli.options.params import ensure_alone
from deltactl.cli.options.values import parse_need
from deltactl.cli.session import Session
from deltactl.errors import CorruptLogError, DeltactlError, StorageError
from deltactl.log.checkpoint.compat import Compat
from deltactl.operations.checkpoint.options import (
    CheckpointOptions,
    Kind,
    TopFormat,
    no_parts_error,
)

if TYPE_CHECKING:
    from deltactl.operations.checkpoint.run import CheckpointReport

_DEFAULTS: Final = CheckpointOptions()


def command(  # noqa: PLR0913 - one parameter an option
    ctx: typer.Context,
    table: TableArgument,
    version: Annotated[
        int | None,
        typer.Option(min=0, help="Write a checkpoint of this version  [default: the latest]"),
    ] = None,
    kind: Annotated[
        Kind,
        typer.Option(
            help="Kind of the checkpoint. auto: v2 if delta.checkpointPolicy is v2 and the "
            "protocol has the feature v2Checkpoint, else classic"
        ),
    ] = _DEFAULTS.kind,
    sidecar_size: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="ROWS",
            help="For V2 checkpoints: maximum number of file actions in a sidecar",
        ),
    ] = _DEFAULTS.sidecar_rows,
    part_size: Annotated[int | None, typer.Option(hidden=True)] = None,
    top_file: Annotated[
        TopFormat,
        typer.Option(
            help="For V2 checkpoints: format of the top-level file, which lists the sidecars"
        ),
    ] = _DEFAULTS.top_format,
    compat: Annotated[
        Compat,
        typer.Option(
            help="Form of the checkpoint files. default: readable by every Delta reader. spark: "
            "the columns are the same as in checkpoints of Delta on Spark. plain: as "
            "default, but with no dictionary encoding and no compression"
        ),
    ] = _DEFAULTS.compat,
    cleanup: Annotated[
        bool,
        typer.Option(
            "--cleanup",
            help="After the checkpoint, delete log files older than delta.logRetentionDuration",
        ),
    ] = False,
    cleanup_only: Annotated[
        bool,
        typer.Option(
            "--cleanup-only", help="Delete log files as --cleanup does, but write no checkpoint"
        ),
    ] = False,
    compact_log: Annotated[
        bool,
        typer.Option(
            "--compact-log",
            help="Also write one compacted log file. It has the commits after the previous "
            "checkpoint, up to the version of the new one",
        ),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Verify all checkpoints and _last_checkpoint, and rewrite those that are invalid",
        ),
    ] = False,
    if_needed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="commits=N",
            help="Run only if there are at least N commits since the last checkpoint",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Change nothing. Exit with status 3 if delta.checkpointInterval requires a "
            "checkpoint now. With --repair: exit with status 3 if a checkpoint or "
            "_last_checkpoint is invalid",
        ),
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Write a checkpoint of a table, verify it, then update _last_checkpoint.

    The command deletes log files only with --cleanup or --cleanup-only. Versions that are younger
    than delta.logRetentionDuration stay readable. Before this, the command asks if no commit shows
    that the clock of this machine is right. Without a terminal and --yes, it keeps these files.

    \b
    Examples:
      deltactl checkpoint /data/events
      deltactl checkpoint /data/events --check
      deltactl checkpoint /data/events --cleanup --dry-run
      deltactl checkpoint /data/events --repair
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    if part_size is not None:
        raise no_parts_error()
    options = CheckpointOptions(
        version=version,
        kind=kind,
        sidecar_rows=sidecar_size,
        top_format=top_file,
        compat=compat,
        cleanup=cleanup,
        cleanup_only=cleanup_only,
        compact_log=compact_log,
        need=parse_need(if_needed, ("commits",)),
    )
    ensure_alone(ctx, command, "repair", "check", "dry_run")
    ensure_alone(ctx, command, "check", "repair", "dry_run")
    if repair:
        _repair(session, table, check=check, dry_run=dry_run or check)
    elif check:
        _check(session, table)
    else:
        _checkpoint(session, table, options, yes, dry_run)


def _check(session: Session, table: str) -> None:
    from deltactl.cli.pages.checkpoint import render_due
    from deltactl.operations.checkpoint.run import check_due

    report = check_due(session.open_table(table, read_only=True))
    session.present(
        lambda page: render_due(page, report),
        is_work_needed=report.due,
        is_idle=not report.due,
        version_before=report.version,
        version_after=report.version,
        dry_run=True,
        result=report.to_dict(),
    )


def _checkpoint(
    session: Session, table: str, options: CheckpointOptions, yes: bool, dry_run: bool
) -> None:
    from deltactl.operations.checkpoint.run import checkpoint_table

    log = session.open_table(table, read_only=dry_run)
    may_ask = yes or can_ask(session)
    with session.run_context("checkpoint") as context:
        report = checkpoint_table(
            log,
            options,
            context,
            confirm=(lambda question: yes or ask(session, question)) if may_ask else None,
            dry_run=dry_run,
        )
        if report.interrupted:
            stopped = session.find_interruption(
                "the checkpoint was written" if report.written else "nothing was written",
                is_part_done=report.written is not None,
            )
            if stopped is not None:
                _present(session, report, stopped)
    error = None
    if report.failed:
        error = StorageError(
            f"{len(report.failed)} log files were not deleted: {report.failed[0][1]}",
            hint="Fix the cause, then rerun with --cleanup-only.",
        )
    _present(session, report, error)


def _present(session: Session, report: CheckpointReport, error: DeltactlError | None) -> None:
    from deltactl.cli.pages.checkpoint import render_report

    session.table_id = report.table_id
    session.present(
        lambda page: render_report(page, report, session.argv),
        error=error,
        version_before=report.plan.version,
        version_after=report.plan.version,
        dry_run=report.dry_run,
        engine=report.engine,
        skipped=report.skipped,
        is_idle=report.is_empty,
        result=report.to_dict(),
    )


def _repair(session: Session, table: str, *, check: bool, dry_run: bool) -> None:
    from deltactl.cli.pages.checkpoint import render_repair
    from deltactl.operations.checkpoint.repair import repair_checkpoints

    log = session.open_table(table, read_only=dry_run)
    with session.run_context("repair") as context:
        report = repair_checkpoints(log, context, dry_run=dry_run)
    error = None
    if not (dry_run or report.all_repaired):
        left = [finding for finding in report.findings if not finding.repaired]
        error = CorruptLogError(
            f"{left[0].name} was not repaired. Problem: {left[0].problem}. Repair: "
            f"{left[0].remedy}",
            hint="Run `deltactl check --checkpoints` for details.",
        )
    session.present(
        lambda page: render_repair(page, report, session.argv),
        error=error,
        is_work_needed=check and bool(report.findings),
        is_idle=not report.findings,
        version_before=report.version,
        version_after=report.version,
        dry_run=report.dry_run,
        engine=report.engine,
        result=report.to_dict(),
    )
