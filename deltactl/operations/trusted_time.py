"""Give the time for decisions that cannot be undone, such as which files have expired.

The clock of this machine may be wrong. If it is ahead, everything looks expired. So the time is the
earlier of this machine's clock and a time that something else proves:

- The clock of the store, which dates each file: of an object store, or of a file server.
- On a file system, this may be this machine's clock. So also: one day after the newest commit that
  was written before this run. Commits of deltactl in the last hour do not count either, because the
  commands of one script see the same wrong clock.

If time passes without commits, files of a file system are kept longer than the retention.
"""

from __future__ import annotations

from typing import Final

from deltactl.errors import CorruptLogError, StorageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_info import find_run, is_by_deltactl
from deltactl.operations.run_context import RunContext
from deltactl.storage.names import OWN_DIR, is_local_uri
from deltactl.storage.store import FileInfo, Store
from deltactl.units import DAY_MS, HOUR_MS

_PROBE: Final = f"{OWN_DIR}/time"
_ATTEMPTS: Final = 3
# Longer than the time from a commit to the cleanup after it; a retention is much longer.
_FRESH_MS: Final = 10 * 60 * 1000


def trusted_now(
    log: DeltaLog, snapshot: Snapshot, context: RunContext, *, asks_store: bool = False
) -> int:
    """Return a time, in ms since 1970 UTC, that is not in the future: for what expires.

    The store's time is that of the newest log file of the snapshot, which may be much too early.
    ``asks_store`` says whether to ask the store for the time (three requests), unless the log,
    listed just now, has a new file.
    """
    store = snapshot.store
    now_ms = planning_now(log, snapshot, context, context.clock.now_ms())
    files = [*_newest_files(snapshot)]
    if asks_store:
        files += [info for checkpoint in log.checkpoints for info in checkpoint.files]
    dated_ms = max(info.modified_ms for info in files)
    if asks_store and dated_ms < now_ms - _FRESH_MS:
        dated_ms = ask_store(store)
    return min(now_ms, dated_ms)


def planning_now(log: DeltaLog, snapshot: Snapshot, context: RunContext, now_ms: int) -> int:
    """Return the time for a plan, given the time of this machine's clock.

    On object stores, it is the same: the run compares it with the store's clock before it deletes.
    """
    if not is_local_uri(snapshot.store.uri):
        return now_ms
    return min(now_ms, _find_proven_ms(log, snapshot, context.run_id, now_ms) + DAY_MS)


def explain_waiting(files: str, remedy: str) -> str:
    """Return the warning of ``files`` ("2 files are") that have expired by this clock only."""
    return (
        f"{files} kept: only this machine's clock shows that the retention has passed. If it is "
        f"right, {remedy}"
    )


def _newest_files(snapshot: Snapshot) -> list[FileInfo]:
    segment = snapshot.segment
    files = [] if segment.checkpoint is None else list(segment.checkpoint.files)
    return files if segment.commit is None else [segment.commit, *files]


def _find_proven_ms(log: DeltaLog, snapshot: Snapshot, run_id: str | None, now_ms: int) -> int:
    """Return the time of the newest commit that counts; of the oldest log file if none does."""
    oldest = _newest_files(snapshot)[0]
    if snapshot.segment.commit is not None and _counts(snapshot, oldest, run_id, now_ms):
        return oldest.modified_ms
    commits = log.commit_files
    for version in sorted(commits, reverse=True):
        if version < snapshot.version:
            oldest = commits[version]
            if _counts(snapshot, oldest, run_id, now_ms):
                break
    return oldest.modified_ms


def _counts(snapshot: Snapshot, commit: FileInfo, run_id: str | None, now_ms: int) -> bool:
    """Return whether a commit is neither of this run, nor written by deltactl in the last hour."""
    try:
        info = snapshot.reader.read_one(commit).info or {}
    except CorruptLogError:  # another writer's
        return True
    if commit.modified_ms > now_ms - HOUR_MS:
        return not is_by_deltactl(info)
    return run_id is None or find_run(info) != run_id


def ask_store(store: Store) -> int:
    """Return the time of a store, in ms since 1970 UTC: write a file, read its time, delete it."""
    for _ in range(_ATTEMPTS):  # another run may delete the file in between
        store.put(_PROBE, b"")
        [info] = store.stat_many([_PROBE])
        store.delete_many([_PROBE])
        if info is not None:
            return info.modified_ms
    raise StorageError(f"{_PROBE} is not in {store.uri} after it was written")
