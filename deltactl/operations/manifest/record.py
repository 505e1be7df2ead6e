"""Record the version of the manifests, and mark the runs that write them.

    _deltactl/runs/manifests.json    each manifest has this version or a later one
    _deltactl/manifests/<id>         a run whose manifests may be of an earlier version

A run creates its mark, then reads the log and writes. It deletes the mark when the log has no later
version than its manifests; a run that fails first records that no version is known. Only a run that
sees no other mark then records its version: the runs that begin afterwards read this version or a
later one. So the next refresh corrects what a slow or killed run wrote: it compares the partitions
that changed since the record. The mark of a killed run counts for a day; until then, the record
stays as it is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from deltactl.errors import DeltactlError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.caught_up import caught_up_version, identify_commit
from deltactl.operations.leases import LastRun, read_last_run, write_last_run
from deltactl.operations.manifest.content import render_root
from deltactl.operations.manifest.place import RECORD
from deltactl.operations.run_context import RunContext
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store
from deltactl.units import DAY_MS

_MARKS: Final = f"{OWN_DIR}/manifests"
# Longer than the writing of manifests in any run.
_KILLED_MS: Final = DAY_MS


class Writing:
    """A run that writes the manifests of a table to ``place``; marked inside of ``with``.

    ``is_whole``: afterwards, no manifest has an earlier version than the one that it writes.
    ``is_earlier``: this may be an earlier version than the record has.
    """

    def __init__(
        self,
        log: DeltaLog,
        place: Store,
        context: RunContext,
        *,
        is_whole: bool = True,
        is_earlier: bool = False,
    ) -> None:
        self._log, self._store, self._context = log, place, context
        self._is_whole, self._is_earlier = is_whole, is_earlier
        self._mark = f"{_MARKS}/{context.clock.new_id()}"
        self._written: Snapshot | None = None

    def __enter__(self) -> Writing:
        self._store.put(self._mark, b"")
        return self.read()

    def read(self) -> Writing:
        """Read the record; a run that only looks needs no mark."""
        self._found = read_last_run(self._store, RECORD)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(DeltactlError):  # the mark counts for a day
            if self._written is not None:
                self._forget(self._written)
            self._store.delete_many([self._mark])

    def recorded_version(self, snapshot: Snapshot) -> int | None:
        """Return the version that all manifests had; ``None`` if it is not known.

        The table may have been moved or copied since, or replaced by a backup: then its manifests
        list other files.
        """
        last = self._found
        if last is None or last.address != render_root(snapshot.store.engine_uri):
            return None
        return caught_up_version(last, self._log, snapshot)

    def limit_since(self, snapshot: Snapshot, since: int | None) -> int | None:
        """Return ``since``, or the version that all manifests had if this is earlier, and warn.

        Return ``None`` if that version is not known: all manifests may be outdated.
        """
        if since is None:
            return None
        recorded = self.recorded_version(snapshot)
        if recorded is None:
            self._context.warn(
                f"no version of the manifests up to {snapshot.version} is recorded: all "
                "partitions are considered"
            )
            return None
        if since > recorded:
            self._context.warn(
                f"the manifests are of version {recorded}, which is before version {since}: all "
                f"partitions that changed after version {recorded} are considered"
            )
        return min(since, recorded)

    def begin(self, snapshot: Snapshot) -> None:
        """Call this before manifests are written: until ``end``, they may be outdated."""
        self._written = snapshot
        # In another directory, the record first says whose manifests they are.
        is_foreign = self._found is None or self._found.address != render_root(
            snapshot.store.engine_uri
        )
        if self._is_earlier or (is_foreign and self._store is not snapshot.store):
            self._forget(snapshot)

    def end(self, snapshot: Snapshot) -> None:
        """Record the version of a snapshot, unless other runs wrote too; a failure is a warning."""
        try:
            if self._is_whole and self._is_alone():
                version, commit = snapshot.version, identify_commit(self._log, snapshot.version)
                record = as_record(snapshot, self._context)
                record = replace(record, caught_up_version=version, commit=commit)
                write_last_run(self._store, RECORD, record)
            elif self._is_earlier:
                self._forget(snapshot)
            self._written = None
        except DeltactlError as error:
            self._context.warn(
                "the version of the manifests could not be recorded, so the next refresh compares "
                f"more of them: {error.message}"
            )

    def _forget(self, snapshot: Snapshot) -> None:
        """Record no version: the next refresh compares all manifests."""
        self._found = as_record(snapshot, self._context)
        write_last_run(self._store, RECORD, self._found)

    def _is_alone(self) -> bool:
        """Return whether no other run writes, or has recorded something meanwhile."""
        marks = {info.name: info.modified_ms for info in self._store.list_from(_MARKS)}
        if self._mark not in marks:  # another run took this one for killed
            return False
        own_ms = marks.pop(self._mark)
        killed = [name for name, ms in marks.items() if ms < own_ms - _KILLED_MS]
        if killed:
            self._store.delete_many(killed)
        return len(killed) == len(marks) and read_last_run(self._store, RECORD) == self._found


def has_record(store: Store, *, needs_version: bool) -> bool:
    """Return whether manifests have a record, of their version or only of their table."""
    last = read_last_run(store, RECORD)
    return last is not None and not (needs_version and last.caught_up_version is None)


def as_record(snapshot: Snapshot, context: RunContext) -> LastRun:
    """Return the record of a table whose manifests have no known version."""
    now_ms, address = context.clock.now_ms(), render_root(snapshot.store.engine_uri)
    return LastRun(context.run_id or "", snapshot.metadata.id, now_ms, now_ms, address=address)
