"""``deltactl checkpoint``: parse options, call the operation, print its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltactl.cli.confirm import ask, can_ask
from deltactl.cli.options.common import TableArgument, dry_run_field, yes_field
from deltactl.cli.session import Session
from deltactl.errors import DeltactlError
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.option_fields import execution_option, safety_option

if TYPE_CHECKING:
    from deltactl.operations.checkpoint.run import CheckpointReport
    from deltactl.operations.thresholds import Need


@dataclass(frozen=True, slots=True)
class CheckpointFlags:
    """Options that only the command line has."""

    repair: bool = execution_option(
        False,
        "Verify all checkpoints and _last_checkpoint, and rewrite those that are invalid",
        alone_with=("check", "dry_run"),
        is_basic=True,
    )
    check: bool = safety_option(
        False,
        "Change nothing. Exit with status 3 if --if-needed, or without it "
        "delta.checkpointInterval or a wrong _last_checkpoint, requires a checkpoint now. With "
        "--repair: exit with status 3 if a checkpoint or _last_checkpoint is invalid",
        alone_with=("repair", "dry_run", "need"),
        is_basic=True,
    )
    yes: bool = yes_field()
    dry_run: bool = dry_run_field()


def command(
    session: Session, table: TableArgument, options: CheckpointOptions, flags: CheckpointFlags
) -> None:
    """Write a checkpoint of a table, verify it, then update _last_checkpoint.

    The command deletes old log files only with --cleanup or --cleanup-only. Versions that are
    younger than delta.logRetentionDuration stay readable. Before this, the command asks if no
    commit shows that the clock of this machine is right. Without a terminal and --yes, it keeps
    these files.

    \b
    Examples:
      deltactl checkpoint /data/events
      deltactl checkpoint /data/events --check
      deltactl checkpoint /data/events --cleanup --dry-run
      deltactl checkpoint /data/events --repair
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    if flags.repair:
        _repair(session, table, check=flags.check, dry_run=flags.dry_run or flags.check)
    elif flags.check:
        _check(session, table, options.need)
    else:
        _checkpoint(session, table, options, flags.yes, flags.dry_run)


def _check(session: Session, table: str, need: Need | None) -> None:
    from deltactl.cli.pages.checkpoint import describe_due
    from deltactl.operations.checkpoint.run import check_due

    report = check_due(session.open_table(table, read_only=True), need)
    session.present(
        lambda: describe_due(report),
        is_work_needed=report.due,
        is_idle=not report.due,
        version_before=report.version,
        result=report.to_dict(),
    )


def _checkpoint(
    session: Session, table: str, options: CheckpointOptions, yes: bool, dry_run: bool
) -> None:
    from deltactl.operations.checkpoint.run import checkpoint_table

    log = session.open_table(table, read_only=dry_run)
    has_terminal = can_ask(session)
    with session.run_context("checkpoint") as context:

        def confirm(question: str) -> bool:
            if dry_run:
                asks = "with --yes, a real run does not ask" if yes else "a real run asks"
                context.warn(f"{asks} this question: {question}")
            return yes or dry_run or ask(session, question)

        report = checkpoint_table(
            log,
            options,
            context,
            confirm=confirm if yes or has_terminal else None,
            confirm_doubt=confirm if has_terminal and not yes else None,
            dry_run=dry_run,
        )
        if report.interrupted:
            stopped = session.find_interruption(
                "the checkpoint was written" if report.written else "nothing was written",
                is_part_done=report.written is not None,
            )
            if stopped is not None:
                _present(session, report, stopped)
    _present(session, report, report.find_error())


def _present(session: Session, report: CheckpointReport, error: DeltactlError | None) -> None:
    from deltactl.cli.pages.checkpoint import describe_checkpoint

    session.table_id = report.table_id
    session.present(
        lambda: describe_checkpoint(report),
        error=error,
        version_before=report.plan.version,
        engine=report.engine,
        skipped=report.skipped,
        is_idle=report.is_empty,
        result=report.to_dict(),
    )


def _repair(session: Session, table: str, *, check: bool, dry_run: bool) -> None:
    from deltactl.cli.pages.checkpoint import describe_repair
    from deltactl.operations.checkpoint.repair import repair_checkpoints

    log = session.open_table(table, read_only=dry_run)
    with session.run_context("repair") as context:
        report = repair_checkpoints(log, context, dry_run=dry_run)
    session.present(
        lambda: describe_repair(report),
        error=report.find_error(),
        is_work_needed=check and bool(report.findings),
        is_idle=not report.findings,
        version_before=report.version,
        engine=report.engine,
        result=report.to_dict(),
    )
