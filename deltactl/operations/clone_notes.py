"""Read and write notes of shallow clones: tables that use files of this table.

    _deltactl/clones/<digest of the clone's address and id>.json
    _deltactl/clones/<digest>.running    while a run makes this clone

A shallow clone references files of its source, so a vacuum of the source must keep them. The note
is written before the commit of the clone, so a clone never exists without its note. If the run ends
in between, the note remains without a clone; vacuum then refuses to run until somebody deletes the
note, because it cannot distinguish this case from a clone whose storage is not accessible. The same
holds for ``--replace``, until the clone has the version that the note names. A run that was killed
also leaves its mark. So the note of a young mark must not be deleted: the run may still commit. The
run looks for its note just before its commit, and again after it. If two runs make a
clone at the same address, each has its own note. The run that does not commit deletes its own note;
the run that commits warns of the other notes at this address.

A vacuum that read the notes before a new note was written does not have the new note. Therefore
a vacuum reads the notes again after its VACUUM START commit, and stops if there is a new one. A
clone reads the log again after it wrote its note: a VACUUM START without its END means that a
vacuum may be removing files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from deltactl.clock import Clock
from deltactl.errors import (
    MALFORMED,
    ConflictError,
    DeltactlError,
    ObjectNotFoundError,
    SafetyError,
    UsageError,
    ignore_warning,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.trusted_time import ask_store
from deltactl.storage.names import OWN_DIR
from deltactl.storage.open import canonical_uri, open_store
from deltactl.storage.store import Store
from deltactl.units import DAY_MS, HOUR_MS, format_timestamp, parse_timestamp

CLONE: Final = "CLONE"
"""The operation in the commit of a clone."""

KIND_TAG: Final = "deltactl.cloneKind"
"""The tag in the commit of a clone by deltactl: deep or shallow."""

CLONES_DIR: Final = f"{OWN_DIR}/clones"
_DIGEST_CHARACTERS: Final = 32
_SUFFIX: Final = ".json"
_MARK: Final = ".running"
# Longer than the checks between the note and the commit of a clone of millions of files.
_RUN_MS: Final = HOUR_MS


@dataclass(frozen=True, slots=True)
class CloneNote:
    """A shallow clone: its address, the version of the source, and when it was noted (ms).

    ``clone_version`` is the version of the clone that the run which wrote the note was to commit.

    ``clone_uri`` is the ``uri`` of the clone's store. ``clone_id`` is the id in the metadata that
    the clone's first commit has; empty if it is not known. ``host`` is the machine of a clone on a
    local file system: on another machine, this address may be of another table. ``begun_ms`` is
    when the run that makes the clone began, by the clock of the source's store; ``None`` after its
    end.
    """

    clone_uri: str
    source_version: int
    noted_ms: int
    clone_id: str = ""
    host: str = ""
    clone_version: int = 0
    begun_ms: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Return the name of the note's file: one for each clone."""
        text = f"{self.clone_uri}\n{self.clone_id}" if self.clone_id else self.clone_uri
        digest = sha256(text.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return f"{CLONES_DIR}/{digest}{_SUFFIX}"

    @property
    def mark(self) -> str:
        """Return the name of the file that exists while a run makes the clone."""
        return f"{self.name.removesuffix(_SUFFIX)}{_MARK}"

    def may_be_running(self, *times_ms: int) -> bool:
        """Return whether the run may still commit, by one of several clocks.

        A mark that is a day ahead of a clock is of a run whose clock was wrong.
        """
        began = self.begun_ms
        return began is not None and any(began - DAY_MS < t < began + _RUN_MS for t in times_ms)

    def describe_run(self) -> tuple[str, str]:
        """Return the text and the hint of the error that the run may still commit."""
        began = self.begun_ms or 0
        return (
            f"a `deltactl clone` to {self.clone_uri!r} may be running since "
            f"{format_timestamp(began)}",
            "Rerun when the clone has ended. If it was killed, rerun after "
            f"{format_timestamp(began + _RUN_MS)}.",
        )

    def to_dict(self) -> dict[str, object]:
        """Return the content of the note, as reports have it; the time is RFC 3339."""
        return {
            "clone": self.clone_uri,
            "source_version": self.source_version,
            "noted_at": format_timestamp(self.noted_ms),
            "clone_id": self.clone_id,
            "host": self.host,
        }


def write_note(source: Store, note: CloneNote) -> None:
    """Write the note of a clone that is about to be committed; durable when this returns.

    Raises:
        StorageError: the source cannot be written; without a note there must be no clone.
    """
    content = note.to_dict() | {"clone_version": note.clone_version}
    source.put(note.name, json.dumps(content, indent=2).encode())


def mark_running(source: Store, note: CloneNote) -> None:
    """Mark that a run makes the clone of a note that is about to be written.

    Raises:
        StorageError: the source cannot be written.
    """
    source.put(note.mark, b"")


def unmark(source: Store, note: CloneNote) -> None:
    """Delete the mark of a run that has ended; as far as the store allows it."""
    with suppress(DeltactlError):  # it counts for an hour
        source.delete_many([note.mark])


def has_note(source: Store, note: CloneNote) -> bool:
    """Return whether the note is there, or that of another run for this or a later version.

    Raises:
        SafetyError: it is not valid.
        StorageError: it cannot be read.
    """
    found = _read(source, note.name, None)
    return found is not None and found.clone_version >= note.clone_version


def is_noted(source: Store, note: CloneNote, storage_options: Mapping[str, str]) -> bool:
    """Return whether there is a note of this clone, however it spells the address.

    Raises:
        SafetyError: a note is not valid.
        StorageError: the notes cannot be read.
    """
    if has_note(source, note):
        return True
    others = _choose_notes(read_notes(source), note.clone_uri, storage_options)
    return any(other.clone_id == note.clone_id for other in others)


def read_notes(source: Store) -> tuple[CloneNote, ...]:
    """Return the notes in a table, by address.

    Raises:
        SafetyError: a note is not valid, so that a clone may be unknown.
        StorageError: they cannot be listed or read.
    """
    times = {info.name: info.modified_ms for info in source.list_from(CLONES_DIR)}
    names = {name: name.removesuffix(_SUFFIX) + _MARK for name in times if name.endswith(_SUFFIX)}
    found = (_read(source, name, times.get(mark)) for name, mark in names.items())
    notes = [note for note in found if note is not None]
    return tuple(sorted(notes, key=lambda note: note.clone_uri))


def earlier_notes(source: Store, note: CloneNote) -> tuple[CloneNote, ...]:
    """Return the notes of other clones at the address of a clone: deleted, moved, or never made.

    Raises:
        SafetyError: a note is not valid.
        StorageError: they cannot be listed or read.
    """
    place = (note.clone_uri, note.host)
    others = (other for other in read_notes(source) if other.name != note.name)
    return tuple(other for other in others if (other.clone_uri, other.host) == place)


def drop_note(source: Store, note: CloneNote) -> None:
    """Delete a note: a vacuum of the source then keeps no files for this clone.

    Call this only if the clone was certainly not committed, or was deleted permanently. Safe to
    call again.

    Raises:
        StorageError: it cannot be deleted.
    """
    if failed := source.delete_many([note.name, note.mark]):
        raise next(iter(failed.values()))


def find_notes(
    source: Store, address: str, storage_options: Mapping[str, str] | None = None
) -> tuple[CloneNote, ...]:
    """Return the notes of clones at an address, however it is spelled; at least one.

    If there are several, the note of the table that is there now is not returned.

    Raises:
        UsageError: no clone is noted with this address.
        SafetyError: a note is not valid.
    """
    table_id = None
    notes = read_notes(source)
    with suppress(DeltactlError):
        clone = open_store(address, storage_options)
        table_id = DeltaLog(clone, ignore_warning).read_only().snapshot().metadata.id
    if found := _choose_notes(notes, address, storage_options):
        return tuple(note for note in found if note.clone_id != table_id) or found
    noted = ", ".join(note.clone_uri for note in notes)
    raise UsageError(
        f"{source.uri} has no record of a shallow clone at {address!r}; recorded clones: "
        f"{noted or 'none'}",
        hint="Give the address of a recorded clone.",
    )


def _choose_notes(
    notes: Iterable[CloneNote], address: str, storage_options: Mapping[str, str] | None
) -> tuple[CloneNote, ...]:
    options = storage_options or {}
    place = canonical_uri(address, options)
    return tuple(note for note in notes if canonical_uri(note.clone_uri, options) == place)


def ensure_ended(source: Store, notes: Iterable[CloneNote], clock: Clock, *, dry_run: bool) -> None:
    """Refuse to delete notes of runs that may still commit, by this clock or by the store's.

    A dry run does not ask the store, because it writes nothing.

    Raises:
        ConflictError: there is such a note.
        StorageError: the source cannot be written.
    """
    marked = [note for note in notes if note.begun_ms is not None]
    if not marked:
        return
    times = [clock.now_ms(), *([] if dry_run else [ask_store(source)])]
    for note in marked:
        if note.may_be_running(*times):
            text, hint = note.describe_run()
            raise ConflictError(f"{text}, so its record was kept", hint=hint)


def _read(source: Store, name: str, begun_ms: int | None) -> CloneNote | None:
    """Return a note; ``None`` if it was deleted since the listing."""
    try:
        data = source.read(name)
    except ObjectNotFoundError:
        return None
    try:
        found = json.loads(data)
        note = CloneNote(
            str(found["clone"]),
            int(found["source_version"]),
            parse_timestamp(found["noted_at"]),
            str(found["clone_id"]),
            str(found["host"]),
            int(found.get("clone_version", 0)),  # earlier versions of deltactl do not write it
            begun_ms,
        )
    except (*MALFORMED, DeltactlError) as error:
        raise SafetyError(
            f"{name!r} in {source.uri} is not a valid record of a shallow clone, so it is unknown "
            "which files the clone uses",
            hint="Restore this file from a backup, or delete it if the table has no shallow "
            "clones.",
        ) from error
    return note
