"""``deltactl vacuum``: parse options, ask, call the operation, print its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltactl.cli.commands.vacuum_undo import forget_clone as drop_clone
from deltactl.cli.commands.vacuum_undo import purge_quarantined, undo_run
from deltactl.cli.confirm import ask, can_ask
from deltactl.cli.options.common import TableArgument, check_field, dry_run_field, yes_field
from deltactl.cli.options.declared import is_typed
from deltactl.cli.session import Session
from deltactl.errors import DeltactlError, UsageError
from deltactl.operations.vacuum.lost import find_vacuum_error
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.option_fields import safety_option, selection_option
from deltactl.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from deltactl.operations.vacuum.options import Orphans
    from deltactl.operations.vacuum.run import Confirm, VacuumPlan, VacuumReport


@dataclass(frozen=True, slots=True)
class VacuumFlags:
    """Options that only the command line has."""

    yes: bool = yes_field()
    undo: str | None = selection_option(
        None,
        "Undo an earlier vacuum: restore the removed files from the quarantine or from old object "
        "versions. RUN is the id of the vacuum. For the newest vacuum with files to restore, give "
        "--undo last",
        metavar="RUN",
        alone_with=("dry_run", "yes"),  # which it does not ask for
        is_basic=True,
    )
    purge_quarantine: bool = safety_option(
        False,
        "Delete the files whose time in quarantine (--quarantine-for) has ended",
        alone_with=("force_retention", "yes", "check", "dry_run"),
    )
    forget_clone: str | None = safety_option(
        None,
        "Delete the record of this shallow clone. After that, vacuums do not keep the files that "
        "the clone uses",
        metavar="TABLE",
        alone_with=("yes", "dry_run"),
    )
    include_unknown: bool = selection_option(
        False,
        "Also remove all files that are in no action of the log. Without this option, only a "
        "vacuum that asks on a terminal removes such files, and only if a Delta writer gave them "
        "their names and the table was not converted",
    )
    check: bool = check_field("there are files to remove")
    dry_run: bool = dry_run_field()

    @property
    def looks(self) -> bool:
        """Return whether the run changes nothing."""
        return self.dry_run or self.check


def command(
    session: Session, table: TableArgument, options: VacuumOptions, flags: VacuumFlags
) -> None:
    """Remove files that no recent version of the table needs.

    A version is recent if it was the latest version within the retention (--retain). The command
    keeps all files of recent versions, and all files that are younger than the retention.

    The command asks before it removes files. If there is no terminal to ask on, give --yes.

    \b
    Examples:
      deltactl vacuum /data/events --dry-run
      deltactl vacuum /data/events --mode full --quarantine --yes
      deltactl vacuum /data/events --undo last
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    if flags.forget_clone is not None:
        drop_clone(session, table, flags.forget_clone, flags.yes, flags.dry_run)
    elif flags.undo is not None:
        undo_run(session, table, flags.undo, flags.dry_run)
    elif flags.purge_quarantine:
        purge_quarantined(
            session, table, flags.yes, flags.looks, options.force_retention, check=flags.check
        )
    else:
        if is_typed(session.ctx, "quarantine_for_ms") and not options.quarantine:
            raise UsageError(
                "--quarantine-for needs --quarantine: without it, the files are deleted for good",
                hint="Add --quarantine, or omit --quarantine-for.",
            )
        confirm = None if flags.looks else _choose_confirmation(session, flags.yes, options)
        report = _run(session, table, options, confirm, flags)
        _warn(session, report)
        if flags.include_unknown and report.plan.mode == "lite":
            session.output.warn(
                "--include-unknown had no effect: --mode lite reads only the log. To find files "
                "that are in no action of it, add --mode full"
            )
        is_due = not report.plan.is_empty and report.skipped is None
        error = find_vacuum_error(report, table, _NEXT_TIME)
        _present(session, report, error, is_work_needed=flags.check and is_due)


def _choose_confirmation(session: Session, yes: bool, options: VacuumOptions) -> Confirm | None:
    if yes:
        return None

    def confirm(plan: VacuumPlan) -> bool:
        from deltactl.cli.pages.vacuum import describe_plan

        return ask(session, _question(plan, options), describe_plan(plan))

    return confirm


def _question(plan: VacuumPlan, options: VacuumOptions) -> str:
    verb = "Move to quarantine" if options.quarantine else "Delete"
    files = format_count(plan.files.num_rows, "file", "files")
    text = f"{verb} {files} ({format_size(plan.size_bytes)})?"
    ends = plan.horizon.ends if plan.horizon is not None else ()
    if ends:
        count = sum(last - first + 1 for first, last in ends)
        text += f" {format_count(count, 'version', 'versions')} will no longer be readable."
    if plan.retention.is_short:
        text += (
            f" This vacuum keeps removed files for {format_duration(plan.retention.retain_ms)}, "
            f"but the table's retention is {format_duration(plan.retention.table_ms)}: it may "
            "remove files of active writers."
        )
    if plan.doubt is not None:
        text += f" {plan.doubt}. Files of lost add actions look unneeded."
    if plan.loss is not None:
        text += f" {plan.loss}: the files to remove may have its rows."
    return text


def _run(
    session: Session,
    table: str,
    options: VacuumOptions,
    confirm: Confirm | None,
    flags: VacuumFlags,
) -> VacuumReport:
    from deltactl.operations.vacuum.run import vacuum_table

    log = session.open_table(table, read_only=flags.looks)
    asks = can_ask(session) and not flags.yes
    orphans: Orphans = "all" if flags.include_unknown else "named" if asks else "keep"
    with session.run_context("vacuum") as context:
        report = vacuum_table(
            log, options, context, orphans=orphans, confirm=confirm, dry_run=flags.looks
        )
        if report.interrupted:
            is_whole = report.files_removed == report.plan.files.num_rows
            stopped = session.find_interruption(
                f"{format_count(report.files_removed, 'file', 'files')} removed",
                is_part_done=report.files_removed > 0,
                hint=None if is_whole else "Rerun to finish the rest.",
            )
            if stopped is not None:
                _present(session, report, stopped)
    return report


def _warn(session: Session, report: VacuumReport) -> None:
    for path in report.came_back[:1]:
        files = format_count(len(report.came_back), "file was", "files were")
        session.output.warn(
            f"{files} kept, such as {path}: another writer started using them during the run"
        )
    for directory in report.plan.foreign:
        if directory == ".":
            session.output.warn(
                "the directory of this table contains another table. Files that no commit of this "
                "table references are kept: they may be files of the other table"
            )
        else:
            session.output.warn(
                f"{directory!r} contains another table: all files in this directory are kept"
            )


_NEXT_TIME = " Next time, add --quarantine, so that --undo can restore deleted files."


def _present(
    session: Session,
    report: VacuumReport,
    error: DeltactlError | None,
    *,
    is_work_needed: bool = False,
) -> None:
    from deltactl.cli.pages.vacuum import describe_vacuum

    session.table_id = report.plan.table_id
    table = session.table or ""
    session.present(
        lambda: describe_vacuum(report, table),
        rows=report.plan.files,
        error=error,
        is_work_needed=is_work_needed,
        version_before=report.version_before,
        version_after=report.version_after,
        engine=report.engine,
        skipped=report.skipped,
        is_idle=report.plan.is_empty,
        result=report.to_dict(),
    )
