"""Record uploads in parts before their first part, and abort those of killed runs.

    _deltactl/uploads/<run>-<digest>.json

The parts of such an upload are not in listings of files, but the store keeps and bills them. A run
writes a note for each upload, and deletes the note when the upload is completed or aborted. Other
notes belong to killed runs, or to runs that are running. A run on this machine has ended if its
process does not exist. A run on another machine has ended if it held a lease and does not hold it
any more; without a lease, it counts as ended a day after the upload began. It is safe to abort the
upload of a running run: its bin fails and is not committed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Final

from deltactl.clock import Clock
from deltactl.errors import AccessDeniedError, DeltactlError, ObjectNotFoundError, Warn
from deltactl.operations.leases import Holder, list_leases
from deltactl.operations.trusted_time import ask_store
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import FileInfo, Store, Uploads

_log: Final = logging.getLogger(__name__)
_NOTES: Final = f"{OWN_DIR}/uploads"
_WITHOUT_LEASE_MS: Final = 24 * 60 * 60 * 1000  # a run that has no lease may still work
_LIFECYCLE: Final = (
    "Let the bucket abort such uploads with a lifecycle rule (AbortIncompleteMultipartUpload)."
)


@dataclass(frozen=True, slots=True)
class UploadingRun:
    """A run that uploads; ``is_leased``: it held a lease when it began."""

    holder: Holder
    is_leased: bool


@dataclass(frozen=True, slots=True)
class _Note:
    """An upload: the name of the file, the upload id of the store, and its run."""

    name: str
    upload_id: str
    run: UploadingRun


def find_uploading_run(store: Store, run_id: str, clock: Clock) -> UploadingRun | None:
    """Return this run, for the notes of its uploads; ``None`` if the store needs none."""
    if store.uploads is None:
        return None
    try:
        is_leased = run_id in (it.run_id for it in list_leases(store, clock.now_ms()))
    except DeltactlError as error:
        _log.warning("%s: the leases cannot be read: %s", store.uri, error.message)
        is_leased = False
    return UploadingRun(Holder.here(run_id, clock), is_leased)


def note_uploads(store: Store, run: UploadingRun | None) -> Store:
    """Return a store that writes notes of the uploads of a run."""
    uploads = store.uploads
    if uploads is None or run is None:
        return store

    def note(name: str, upload_id: str) -> Callable[[], None]:
        digest = sha256(f"{name} {upload_id}".encode()).hexdigest()[:16]
        path = f"{_NOTES}/{run.holder.run_id}-{digest}.json"
        try:
            store.put(path, json.dumps(asdict(_Note(name, upload_id, run)), indent=2).encode())
        except AccessDeniedError as error:
            _log.warning("the upload of %s is not recorded: %s", name, error.message)
            return lambda: None
        return lambda: _delete(store, path)

    return uploads.observed(note)


def abort_ended_uploads(store: Store, clock: Clock, warn: Warn) -> None:
    """Abort the uploads of runs that have ended; warn of those that cannot be aborted."""
    uploads = store.uploads
    if uploads is None:
        return
    errors: list[DeltactlError] = []
    infos: list[FileInfo] = []
    leased: set[str] = set()
    now_ms = clock.now_ms()
    try:
        infos = list(store.list_from(_NOTES))
        if infos:
            now_ms = min(now_ms, ask_store(store))
            leased = {it.run_id for it in list_leases(store, now_ms)}
    except DeltactlError as error:
        errors, infos = [error], []
    for info in infos:
        try:
            note = _read(store, info)
            if note is not None and _has_ended(note.run, info, leased, now_ms):
                _abort(store, uploads, note, info.name)
        except DeltactlError as error:
            errors.append(error)
    if errors:
        first = errors[0]
        denied = isinstance(first, AccessDeniedError)
        next_step = _LIFECYCLE if denied else "The next run tries again."
        warn(
            f"could not abort unfinished uploads of killed runs: {first.message}. If such "
            f"uploads exist, the store charges for them. {next_step}"
        )


def _has_ended(run: UploadingRun, info: FileInfo, leased: set[str], now_ms: int) -> bool:
    running = run.holder.is_running()
    if running is not None:
        return not running
    if run.holder.run_id in leased:
        return False
    return run.is_leased or info.modified_ms + _WITHOUT_LEASE_MS <= now_ms


def _abort(store: Store, uploads: Uploads, note: _Note, path: str) -> None:
    uploads.abort_upload(note.name, note.upload_id)
    _log.info("%s: aborted the unfinished upload of %s", store.uri, note.name)
    _delete(store, path)


def _delete(store: Store, path: str) -> None:
    if failed := store.delete_many([path]):
        raise next(iter(failed.values()))


def _read(store: Store, info: FileInfo) -> _Note | None:
    """Return a note; ``None`` if it was deleted since the listing, or is not valid."""
    try:
        found = json.loads(store.read(info.name))
        run = found["run"]
        owner = UploadingRun(Holder.parse(run["holder"]), bool(run["is_leased"]))
        return _Note(str(found["name"]), str(found["upload_id"]), owner)
    except (ObjectNotFoundError, ValueError, KeyError, TypeError):
        return None
