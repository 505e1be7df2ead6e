"""The worker of a vacuum: check a batch of files, delete or move them, and verify a sample.

Runs on any engine: a task is a small picklable value, and the worker opens the store by URI.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deltactl.errors import ObjectNotFoundError, StorageError
from deltactl.operations.vacuum.journal import quarantine_name
from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.open import open_store
from deltactl.storage.store import Store

_ATTEMPTS = 6
_SAMPLE = 20


@dataclass(frozen=True, slots=True)
class DeleteSpec:
    """The values that all batches of a run share.

    Files modified at or after ``cutoff_ms`` are skipped.
    """

    table_uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    run_id: str
    cutoff_ms: int
    quarantine: bool


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The result of a batch.

    ``removed``: files that existed and whose removal the store confirmed; ``vanished``: files that
    did not exist any more; ``changed``: files that were modified after planning. ``failed`` has the
    errors.
    """

    removed: tuple[str, ...]
    vanished: tuple[str, ...]
    changed: tuple[str, ...]
    failed: Mapping[str, StorageError]
    size_bytes: int


def delete_files(spec: DeleteSpec, names: Sequence[str], attempt: int) -> DeleteResult:
    """Remove the files of a batch; errors of single files are part of the result."""
    store = open_store(spec.table_uri, spec.storage_options)
    found = store.stat_many(names)
    present = [info for info in found if info is not None]
    changed = tuple(info.name for info in present if info.modified_ms >= spec.cutoff_ms)
    chosen = {i.name: i.size_bytes for i in present if i.modified_ms < spec.cutoff_ms}
    if spec.quarantine:
        failed = _persist(chosen, lambda some: _move(store, spec.run_id, some))
        failed |= _clean_quarantine(store, spec.run_id, failed)
    else:
        failed = _persist(chosen, store.delete_many)
    gone = [name for name in chosen if name not in failed]
    for name in _find_survivors(store, gone):
        failed[name] = StorageError("the store reported that it was deleted, but it still exists")
    removed = tuple(name for name in gone if name not in failed)
    there = {info.name for info in present}
    return DeleteResult(
        removed,
        tuple(name for name in names if name not in there),
        changed,
        failed,
        sum(chosen[name] for name in removed),
    )


def _move(store: Store, run_id: str, names: Sequence[str]) -> dict[str, StorageError]:
    failed = store.move_many([(name, quarantine_name(run_id, name)) for name in names])
    return {
        name: error for name, error in failed.items() if not isinstance(error, ObjectNotFoundError)
    }


def _clean_quarantine(
    store: Store, run_id: str, failed: Mapping[str, StorageError]
) -> dict[str, StorageError]:
    """Delete the copies of files that stay at their places; return new errors if copies stay."""
    copies = [quarantine_name(run_id, name) for name in failed]
    try:
        pairs = zip(failed, store.stat_many([*failed]), store.stat_many(copies), strict=True)
        both = {name for name, info, copy in pairs if info is not None and copy is not None}
        # After other errors, the request that deletes the file may still be in progress.
        refused = [name for name in both if failed[name].had_no_effect]
        stayed = store.delete_many([quarantine_name(run_id, name) for name in refused])
    except StorageError:
        return {}  # the files themselves are safe
    both -= {name for name in refused if quarantine_name(run_id, name) not in stayed}
    return {name: _with_copy(failed[name], run_id, store.uri) for name in both}


def _with_copy(error: StorageError, run_id: str, uri: str) -> StorageError:
    return type(error)(
        f"{error.message}. A copy of it stays in {quarantine_name(run_id, '')}",
        hint=(error.hint or "Fix the cause, then rerun.")
        + " When their time in quarantine has ended, `deltactl vacuum "
        f"{shlex.quote(uri)} --purge-quarantine` deletes the copies.",
    )


def _persist(
    names: Iterable[str], act: Callable[[Sequence[str]], Mapping[str, StorageError]]
) -> dict[str, StorageError]:
    """Call ``act`` and retry transient failures; return the final failures.

    ``act`` must be idempotent. Waits grow exponentially with jitter.
    """
    failed: dict[str, StorageError] = {}
    waiting = list(names)
    for attempt in range(_ATTEMPTS):
        try:
            errors = dict(act(waiting)) if waiting else {}
        except StorageError as error:
            errors = dict.fromkeys(waiting, error)
        again = [n for n, e in errors.items() if e.retryable and attempt + 1 < _ATTEMPTS]
        failed |= {name: error for name, error in errors.items() if name not in set(again)}
        if not again:
            return failed
        waiting = again
        RetryPolicy().pause(attempt)
    return failed


def _find_survivors(store: Store, names: Sequence[str]) -> list[str]:
    """Return names of a sample that still exist; if any does, of all names."""
    step = max(1, len(names) // _SAMPLE)
    try:
        survivors = [info.name for info in store.stat_many(names[::step]) if info is not None]
        if survivors and step > 1:
            survivors = [info.name for info in store.stat_many(names) if info is not None]
    except StorageError:
        return []  # the deletes were confirmed; a failed check proves nothing
    return survivors
