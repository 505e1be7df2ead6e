"""Write notes of a shallow clone into the tables that own its files."""

from __future__ import annotations

import errno
import shlex
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from deltactl.errors import (
    KEEPS_FILES,
    AccessDeniedError,
    ConflictError,
    CredentialsExpiredError,
    CredentialsRefusedError,
    DeltactlError,
    SafetyError,
    StorageError,
    UnsupportedByStoreError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone.plan import ClonePlan
from deltactl.operations.clone.shallow import (
    ensure_no_vacuum,
    ensure_present,
    list_directories,
    open_as_reader,
)
from deltactl.operations.clone_notes import (
    CloneNote,
    drop_note,
    earlier_notes,
    has_note,
    mark_running,
    read_notes,
    unmark,
    write_note,
)
from deltactl.operations.missing_files import Missing, find_missing_again
from deltactl.operations.owners import find_owners
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.storage.names import is_local_uri
from deltactl.storage.store import Store
from deltactl.units import format_count, format_timestamp


@dataclass(frozen=True, slots=True)
class Noted:
    """The note of a clone, and the tables that have it."""

    note: CloneNote
    owners: Sequence[Store]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the addresses of the tables with a note."""
        return tuple(store.uri for store in self.owners)

    def ensure_there(self) -> None:
        """Check just before the commit that nobody deleted the notes during the run.

        Raises:
            ConflictError: a note is gone, so a vacuum may have removed files.
            SafetyError, StorageError: a note cannot be read.
        """
        for store in self.owners:
            if not has_note(store, self.note):
                raise ConflictError(
                    f"nothing was committed: the record of the clone in {store.uri}, "
                    f"{self.note.name!r}, was deleted during the run",
                    hint="Rerun the command. Do not delete the record of a clone that is running.",
                )

    def find_gone(
        self, reader: DeltaLog, plan: ClonePlan, context: RunContext, done: str
    ) -> tuple[Missing, ...]:
        """Return the notes and files that are gone after the commit that is ``done``.

        A vacuum of another tool does not read the notes.

        Raises:
            CommitDamagedError: it cannot be found out.
        """
        lost = tuple(
            Missing(f"{store.uri}/{self.note.name}", problem)
            for store in self.owners
            if (problem := _find_problem(store, self.note))
        )
        context, where = context.of_log(reader), self.note.clone_uri
        return lost + find_missing_again(
            reader.store, plan.files, context, done, where, everywhere=True
        )


def _find_problem(store: Store, note: CloneNote) -> str | None:
    committed = replace(note, clone_version=0)  # no vacuum waits for the version any more
    try:
        return None if has_note(store, committed) else "this record of the clone was deleted"
    except DeltactlError as error:
        return error.message


@contextmanager
def with_clone_note(
    snapshot: Snapshot,
    target: Store,
    plan: ClonePlan,
    context: RunContext,
    *,
    leave: bool,
    version: int = 0,
) -> Iterator[Noted]:
    """Write notes of the clone to the tables that own its files.

    Yield the notes; none unless ``leave``. ``version`` is the version of the clone that is
    committed in the context. If none is committed, delete the notes of a new clone; one that
    existed still needs them. Otherwise warn of the notes of earlier clones at the address.
    ``context`` has the storage options of the source.

    Raises:
        SafetyError: a table cannot be written; no clone was made.
    """
    note = _make_note(target, plan, plan.metadata.id, context, version)
    if not leave:
        yield Noted(note, ())
        return
    owners = _find_owners(snapshot.store, plan, context)
    started: list[Store] = []
    try:
        for store in owners:
            started.append(store)
            _write(store, note)
        yield Noted(note, owners)
    except KEEPS_FILES:
        raise
    except DeltactlError:  # no other: after it, there is certainly no commit
        for store in started:
            _take_back(store, note)
        raise
    for store in started:
        unmark(store, note)
    for store in {id(it): it for it in (snapshot.store, *owners)}.values():
        with suppress(DeltactlError):  # a vacuum names them
            _warn_of_earlier(store, note, context.without_cancel())


def note_again(
    source: DeltaLog,
    snapshot: Snapshot,
    target: DeltaLog,
    plan: ClonePlan,
    context: RunContext,
    *,
    table_id: str,
) -> tuple[str, ...]:
    """Write the notes of an existing clone that are missing; return where.

    ``table_id`` is the id of the clone.

    They are missing if the clone was moved or made without notes, or if somebody deleted them.
    Vacuums may have removed files meanwhile.

    Raises:
        DataFileError: files of the clone are missing.
        SafetyError: a table cannot be written.
    """
    noting = context.of_log(source)
    note = _make_note(target.store, plan, table_id, noting, 0)
    owners = _find_owners(snapshot.store, plan, noting)
    lacking = [store for store in owners if not has_note(store, note)]
    if not lacking:
        return ()
    for store in lacking:
        _write(store, note)
    try:
        ensure_no_vacuum(source, plan, context)
        ensure_present(source, open_as_reader(source, target), snapshot, plan, context)
    finally:
        for store in lacking:
            unmark(store, note)
    return tuple(store.uri for store in lacking)


def _make_note(
    target: Store, plan: ClonePlan, table_id: str, context: RunContext, version: int
) -> CloneNote:
    host = socket.gethostname() if is_local_uri(target.uri) else ""
    return CloneNote(target.uri, plan.version, context.clock.now_ms(), table_id, host, version)


def _warn_of_earlier(store: Store, note: CloneNote, context: RunContext) -> None:
    now_ms = context.clock.now_ms()
    if earlier := [it for it in earlier_notes(store, note) if not it.may_be_running(now_ms)]:
        source, clone = shlex.quote(store.uri), shlex.quote(note.clone_uri)
        context.warn(
            f"{store.uri} has a record of an earlier shallow clone at {note.clone_uri} (made at "
            f"{format_timestamp(earlier[0].noted_ms)}), which may have been moved. Until this "
            f"record is deleted, vacuums of {store.uri} are refused. If that clone was deleted, "
            f"run `deltactl vacuum {source} --forget-clone {clone}`"
        )


def _write(store: Store, note: CloneNote) -> None:
    try:
        mark_running(store, note)
        write_note(store, note)
    except StorageError as error:
        if not _is_not_writable(error):
            raise
        raise SafetyError(
            f"the clone cannot be recorded in {store.uri}: {error.message}. Without this record, "
            "a vacuum of the source could remove files that the clone uses",
            hint=f"Add {option('note', False)} to clone without this record, or use "
            f"{option('deep', True)}.",
        ) from error


def _is_not_writable(error: StorageError) -> bool:
    """Return whether a table cannot be written by this user at all, also not after a rerun."""
    if isinstance(error, CredentialsExpiredError | CredentialsRefusedError):
        return False
    is_read_only = getattr(error.__cause__, "errno", None) == errno.EROFS
    return is_read_only or isinstance(error, AccessDeniedError | UnsupportedByStoreError)


def _take_back(store: Store, note: CloneNote) -> None:
    with suppress(DeltactlError):  # a vacuum names it
        if note.clone_version:
            if note in read_notes(store):  # else another run replaces the clone
                write_note(store, replace(note, clone_version=0))
                unmark(store, note)
        else:
            drop_note(store, note)


def _find_owners(source: Store, plan: ClonePlan, context: RunContext) -> list[Store]:
    """Return the tables that own the clone's files.

    These are the source and, if it is a shallow clone itself, other tables. The source is omitted
    if it owns none: a vacuum of it would find no files, and refuse to run.
    """
    directories = [f"{it}/" for it in list_directories(plan)]
    root = f"{plan.source_uri.rstrip('/')}/"
    outside = [it for it in directories if not it.startswith(root)]
    owners, _ = find_owners(outside, context.storage_options, read_only=False)
    lost = len(outside) - sum(len(owner.names) for owner in owners)
    if lost:
        context.warn(
            f"the source uses files in {format_count(lost, 'directory', 'directories')} of other "
            "tables, but deltactl did not find these tables. A vacuum of such a table may delete "
            "the files, although the clone uses them"
        )
    needs_source = lost or not owners or len(outside) < len(directories)
    return [*([source] if needs_source else []), *(owner.store for owner in owners)]
