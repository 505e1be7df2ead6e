"""``deltactl vacuum --undo``, ``--purge-quarantine`` and ``--forget-clone``."""

from __future__ import annotations

from deltactl.cli.confirm import ask
from deltactl.cli.output.output import OutputFormat
from deltactl.cli.session import Session
from deltactl.clock import SystemClock
from deltactl.errors import SafetyError


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
        error=report.find_error(),
        result=report.to_dict(),
        is_idle=not report.restored,
    )


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
    session: Session, table: str, yes: bool, dry_run: bool, force_retention: bool, *, check: bool
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
    session.present(
        lambda: describe_purge(report),
        error=report.find_error(table),
        is_work_needed=check and bool(report.runs),
        result=report.to_dict(),
        is_idle=not report.runs,
    )
