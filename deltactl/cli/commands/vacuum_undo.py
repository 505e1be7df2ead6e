"""``deltactl vacuum --undo``, ``--purge-quarantine`` and ``--forget-clone``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from deltactl.cli.confirm import ask
from deltactl.cli.output.output import OutputFormat
from deltactl.cli.session import Session
from deltactl.clock import SystemClock
from deltactl.errors import (
    DeltactlError,
    FileMissingError,
    SafetyError,
    StorageError,
    explain_rest,
    find_worst_error,
)
from deltactl.operations.vacuum.lost import describe_lost, hint_at_lost
from deltactl.units import format_count

if TYPE_CHECKING:
    from deltactl.operations.vacuum.purge import NeededRun
    from deltactl.operations.vacuum.undo import UndoReport


def undo_run(session: Session, table: str, run_id: str, dry_run: bool) -> None:
    """Restore the files that a vacuum removed.

    Raises:
        DeltactlError: there is no such run, or files cannot be restored.
    """
    from deltactl.cli.pages.vacuum import describe_undo
    from deltactl.operations.vacuum.undo import REMOVED_AGAIN, undo_vacuum

    report = undo_vacuum(
        session.open_table(table, read_only=dry_run).store, run_id, dry_run=dry_run
    )
    if report.restored and session.output.form is not OutputFormat.TABLE:  # the page says it
        session.output.warn(f"{REMOVED_AGAIN[0].lower()}{REMOVED_AGAIN[1:]}")
    session.present(
        lambda: describe_undo(report, table),
        error=_explain_undo(report),
        result=report.to_dict(),
        is_idle=not report.restored,
    )


def _explain_undo(report: UndoReport) -> DeltactlError | None:
    """Return the worst error of an undo: a file that is gone before a store that refused."""
    if not report.errors:
        return None
    worst = find_worst_error(report.errors.values())
    path = next(path for path, error in report.errors.items() if error is worst)
    hint = worst.hint
    if not isinstance(worst, FileMissingError):
        hint = (hint or "Fix the cause.") + f" Then rerun with --undo {report.run_id}."
    count = format_count(len(report.errors), "file", "files")
    return explain_rest(worst, f"{count} cannot be restored: {path}: {worst.message}", hint=hint)


def forget_clone(session: Session, table: str, clone: str, yes: bool, dry_run: bool) -> None:
    """Ask, then delete the records of a shallow clone in its source table.

    Raises:
        UsageError: there is no such record.
        ConflictError: the run that makes the clone may still be running.
        SafetyError: the clone uses files of the table, the user answered no, or there is no
            terminal to ask on.
    """
    from deltactl.cli.pages.vacuum import describe_forgotten_clone
    from deltactl.operations.clone_notes import drop_note, ensure_ended, find_notes
    from deltactl.operations.vacuum.forget import ensure_unused

    store = session.open_table(table, read_only=dry_run).store
    notes = find_notes(store, clone, session.storage_options)
    ensure_ended(store, notes, SystemClock(), dry_run=dry_run)
    for each in notes:
        ensure_unused(store, each, session.storage_options)
    note = notes[0]
    if not (yes or dry_run):
        text = (
            f"Delete the record of the shallow clone {note.clone_uri}? A later vacuum may delete "
            "files that the clone uses."
        )
        if not ask(session, text):
            raise SafetyError("not confirmed: the record was kept")
    for each in () if dry_run else notes:
        drop_note(store, each)
    session.present(
        lambda: describe_forgotten_clone(note, dry_run=dry_run),
        result=note.to_dict(),
    )


def purge_quarantined(
    session: Session, table: str, yes: bool, dry_run: bool, force_retention: bool
) -> None:
    """Ask, then delete quarantined files whose time has passed.

    Raises:
        SafetyError: the user answered no, there is no terminal to ask on, or files are needed.
        FileMissingError: another writer started to use deleted files.
        StorageError: some files were not deleted.
    """
    from deltactl.cli.pages.vacuum import describe_purge
    from deltactl.operations.run_context import RunContext
    from deltactl.operations.vacuum.purge import purge_quarantine

    if not (yes or dry_run) and not ask(
        session, "Delete the quarantined files whose time in quarantine has ended?"
    ):
        raise SafetyError("not confirmed: nothing was removed")
    log = session.open_table(table, read_only=dry_run)
    context = RunContext(warn=session.output.warn)
    report = purge_quarantine(log, context, force_retention=force_retention, dry_run=dry_run)
    error: DeltactlError | None = None
    if report.lost:
        hint = hint_at_lost(table)
        error = FileMissingError(describe_lost(report.lost), hint=hint)
    elif report.needed:
        error = _explain_needed(report.needed[0], table)
    elif report.failures:
        path, reason = next(iter(report.failures.items()))
        files = format_count(len(report.failures), "file was", "files were")
        error = StorageError(
            f"{files} not deleted, such as {path}: {reason}", hint="Fix the cause, then rerun."
        )
    session.present(
        lambda: describe_purge(report),
        error=error,
        result=report.to_dict(),
        is_idle=not report.runs,
    )


def _explain_needed(run: NeededRun, table: str) -> SafetyError:
    who = "an earlier version inside the retention of the table, or another table,"
    wait = " Or wait until the retention of the table has passed."
    if run.version is not None:
        who, wait = f"the latest version ({run.version})", ""
    files = format_count(len(run.paths), "file that is", "files that are")
    return SafetyError(
        f"the quarantined files of run {run.run_id} are kept: {who} needs {files} only "
        f"there, such as {run.paths[0]!r}",
        hint=f"Run `deltactl vacuum {shlex.quote(table)} --undo {run.run_id}`, which moves the "
        f"files back.{wait}",
    )
