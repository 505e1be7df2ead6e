"""``deltactl vacuum``: parse options, ask, call the operation, print its report."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltactl.cli.commands.vacuum_undo import forget_clone as drop_clone
from deltactl.cli.commands.vacuum_undo import purge_quarantined, undo_run
from deltactl.cli.confirm import ask, can_ask
from deltactl.cli.options.common import DryRunOption, IfNeededOption, TableArgument, YesOption
from deltactl.cli.options.values import parse_need
from deltactl.cli.session import Session
from deltactl.cli.settings.params import ensure_alone
from deltactl.errors import DeltactlError, FileMissingError, StorageError
from deltactl.operations.vacuum.options import Mode, VacuumOptions
from deltactl.protocol.properties import DEFAULT_RETENTION_MS
from deltactl.units import format_count, format_duration, format_size, parse_duration

if TYPE_CHECKING:
    from deltactl.operations.vacuum.run import Confirm, VacuumPlan, VacuumReport


_DEFAULTS: Final = VacuumOptions()


def command(  # noqa: PLR0913 - one parameter an option
    ctx: typer.Context,
    table: TableArgument,
    retain: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long to keep files after they were removed from the table, e.g. 168h  "
            "[default: delta.deletedFileRetentionDuration, else "
            f"{format_duration(DEFAULT_RETENTION_MS)}]",
        ),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(
            help="How to find files to remove. full: list all files. lite: read only the log. "
            "auto: full if no vacuum is recorded, or if the log lost commits before a vacuum "
            "processed them; else lite"
        ),
    ] = _DEFAULTS.mode,
    inventory: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read the file names from this inventory of the bucket instead of listing the "
            "table",
        ),
    ] = None,
    dump_listing: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Also write the list of all files to this Parquet file, which --inventory can "
            "read",
        ),
    ] = None,
    keep_version: Annotated[
        list[int] | None,
        typer.Option(
            metavar="V", help="Keep version V readable; may be repeated", show_default=False
        ),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the latest N versions readable")
    ] = None,
    also_keep_for: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="Also keep the files that TABLE uses, for example if TABLE is a shallow clone of "
            "this table; may be repeated",
            show_default=False,
        ),
    ] = None,
    include_unknown: Annotated[
        bool,
        typer.Option(
            "--include-unknown",
            help="Also remove all files that are in no action of the log. Without this option, "
            "only a vacuum on a terminal removes such files, and only if a Delta writer gave them "
            "their names and the table was not converted",
        ),
    ] = False,
    ignore_manifests: Annotated[
        bool,
        typer.Option(
            "--ignore-manifests", help="Also remove files that symlink manifests still list"
        ),
    ] = False,
    max_files: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Remove at most N files  [default: all]")
    ] = None,
    max_orphan_fraction: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Refuse the run if more than this share of the files in the table directory is "
            "in no commit of the log",
        ),
    ] = _DEFAULTS.max_orphan_fraction,
    force_retention: Annotated[
        bool,
        typer.Option(
            "--force-retention",
            help="Allow --retain to be shorter than the retention of the table. On a file system, "
            "trust the clock of this machine, even if the table has no recent commits",
        ),
    ] = False,
    yes: YesOption = False,
    quarantine: Annotated[
        bool,
        typer.Option(
            "--quarantine", help="Move files to _deltactl/quarantine/ instead of deleting them"
        ),
    ] = False,
    quarantine_for: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="With --quarantine: keep the files in quarantine for at least this time",
        ),
    ] = format_duration(_DEFAULTS.quarantine_for_ms),
    no_journal: Annotated[
        bool,
        typer.Option(
            "--no-journal",
            help="Do not record which files are removed. Without this record, --undo is "
            "not possible",
        ),
    ] = False,
    undo: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Undo an earlier vacuum: restore the removed files from the quarantine or from "
            "old object versions. RUN is the id of the vacuum. For the latest vacuum, give "
            "--undo last",
        ),
    ] = None,
    purge_quarantine: Annotated[
        bool,
        typer.Option(
            "--purge-quarantine",
            help="Delete the files whose time in quarantine (--quarantine-for) has ended",
        ),
    ] = False,
    forget_clone: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Delete the record of this shallow clone. After that, vacuums do not keep the "
            "files that the clone uses",
        ),
    ] = None,
    if_needed: IfNeededOption = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Change nothing, and exit with status 3 if there are files to remove"
        ),
    ] = False,
    dry_run: DryRunOption = False,
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
    session = Session.of(ctx)
    ensure_alone(ctx, command, "undo", "check", "dry_run")
    ensure_alone(ctx, command, "purge_quarantine", "force_retention", "yes", "check", "dry_run")
    ensure_alone(ctx, command, "forget_clone", "yes", "check", "dry_run")
    if forget_clone is not None:
        drop_clone(session, table, forget_clone, yes, dry_run or check)
        return
    if undo is not None:
        undo_run(session, table, undo, dry_run or check)
        return
    if purge_quarantine:
        purge_quarantined(session, table, yes, dry_run or check, force_retention)
        return
    options = VacuumOptions(
        retain_ms=None if retain is None else parse_duration(retain),
        mode=mode,
        inventory=inventory,
        dump_listing=dump_listing,
        keep_versions=tuple(keep_version or ()),
        keep_last=keep_last,
        force_retention=force_retention,
        max_files=max_files,
        max_orphan_fraction=max_orphan_fraction,
        include_orphans=can_ask(session),
        include_unknown=include_unknown,
        ignore_manifests=ignore_manifests,
        also_keep_for=tuple(also_keep_for or ()),
        quarantine=quarantine,
        quarantine_for_ms=parse_duration(quarantine_for),
        journal=not no_journal,
        need=parse_need(if_needed),
    )
    confirm = None if dry_run or check else _choose_confirmation(session, yes, options)
    report = _run(session, table, options, confirm, dry_run or check)
    _warn(session, report)
    is_due = not report.plan.is_empty and report.skipped is None
    error = _find_error(report, session.shown_table or table)
    _present(session, report, error, is_work_needed=check and is_due)


def _choose_confirmation(session: Session, yes: bool, options: VacuumOptions) -> Confirm | None:
    if yes:
        return None

    def confirm(plan: VacuumPlan) -> bool:
        from deltactl.cli.pages.vacuum import render_plan

        return ask(session, _question(plan, options), lambda page: render_plan(page, plan))

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
    return text


def _run(
    session: Session, table: str, options: VacuumOptions, confirm: Confirm | None, dry_run: bool
) -> VacuumReport:
    from deltactl.operations.vacuum.run import vacuum_table

    log = session.open_table(table, read_only=dry_run)
    with session.run_context("vacuum") as context:
        report = vacuum_table(log, options, context, confirm=confirm, dry_run=dry_run)
        if report.interrupted:
            stopped = session.find_interruption(
                f"{format_count(report.files_removed, 'file', 'files')} removed",
                is_part_done=report.files_removed > 0,
            )
            if stopped is not None:
                _present(session, report, stopped)
    return report


def _warn(session: Session, report: VacuumReport) -> None:
    missing = report.plan.missing
    if len(missing):
        files = format_count(len(missing), "live file does", "live files do")
        session.output.warn(
            f"{files} not exist, such as {missing[0].as_py()!r}. Run `deltactl check` for details"
        )
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


def _find_error(report: VacuumReport, table: str) -> DeltactlError | None:
    """Return the error of a vacuum; report removed files that the table needs first."""
    failed = _describe_failures(report)
    if report.lost:
        found = (
            f"another writer started using {format_count(len(report.lost), 'file', 'files')} "
            f"during the deletion: {report.lost[0]}"
        )
        return FileMissingError(
            found if failed is None else f"{found}; and {failed}",
            hint=f"Run `deltactl vacuum {shlex.quote(table)} --undo {report.run_id}` to restore "
            f"these files: the table needs them."
            if report.quarantined_until_ms is not None
            else (
                "Copy these files back from a backup. Or run `deltactl restore "
                f"{shlex.quote(table)} --to-version VERSION` to return to a version that does not "
                "need them. Next time, add --quarantine, so that --undo can restore deleted files."
            ),
        )
    if failed is None:
        return None
    removed = format_count(report.files_removed, "file was", "files were")
    hint = f"Fix the cause, then rerun. {removed} removed."
    return StorageError(failed, hint=hint)


def _describe_failures(report: VacuumReport) -> str | None:
    if not report.failures:
        return None
    first = report.failures[0]
    stayed = sum(1 for failure in report.failures if failure.path)
    if not stayed:
        return f"the vacuum stopped early: {first.reason}"
    return (
        f"{format_count(stayed, 'file', 'files')} could not be removed: "
        f"{first.path}: {first.reason}"
    )


def _present(
    session: Session,
    report: VacuumReport,
    error: DeltactlError | None,
    *,
    is_work_needed: bool = False,
) -> None:
    from deltactl.cli.pages.vacuum import render_report

    session.table_id = report.plan.table_id
    table = session.shown_table or ""
    session.present(
        lambda page: render_report(page, report, session.argv, table),
        rows=report.plan.files,
        error=error,
        is_work_needed=is_work_needed,
        version_before=report.version_before,
        version_after=report.version_after,
        dry_run=report.dry_run,
        engine=report.engine,
        skipped=report.skipped,
        is_idle=report.plan.is_empty,
        result=report.to_dict(),
    )
