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
    """A run that writes the manifests of a table; marked inside of ``with``.

    ``is_whole``: afterwards, no manifest has an earlier version than the one that it writes.
    ``is_earlier``: this may be an earlier version than the record has.
    """

    def __init__(
        self,
        log: DeltaLog,
        context: RunContext,
        *,
        is_whole: bool = True,
        is_earlier: bool = False,
    ) -> None:
        self._log, self._store, self._context = log, log.store, context
        self._is_whole, self._is_earlier = is_whole, is_earlier
        self._mark = f"{_MARKS}/{context.clock.new_id()}"
        self._written: Snapshot | None = None

    def __enter__(self) -> Writing:
        self._store.put(self._mark, b"")
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
        if last is None or last.caught_up_version is None:
            return None
        found = (last.table_id, last.address, last.commit)
        expected = (
            snapshot.metadata.id,
            render_root(snapshot.store.uri),
            self._identify(last.caught_up_version),
        )
        # A later version is of an earlier table at this address.
        is_of_table = last.caught_up_version <= snapshot.version and found == expected
        return last.caught_up_version if is_of_table else None

    def limit_since(self, snapshot: Snapshot, since: int | None) -> int | None:
        """Return ``since``, or the version that all manifests had if this is earlier, and warn.

        If that version is not known, the manifests of the other partitions may be of any version.
        """
        if since is None:
            return None
        recorded = self.recorded_version(snapshot)
        if recorded is None:
            self._is_whole = False
            return since
        if since > recorded:
            self._context.warn(
                f"the manifests are of version {recorded}, which is before version {since}: all "
                f"partitions that changed after version {recorded} are considered"
            )
        return min(since, recorded)

    def begin(self, snapshot: Snapshot) -> None:
        """Call this before manifests are written: until ``end``, they may be outdated."""
        self._written = snapshot
        if self._is_earlier:
            self._forget(snapshot)

    def end(self, snapshot: Snapshot) -> None:
        """Record the version of a snapshot, unless other runs wrote too; a failure is a warning."""
        try:
            if self._is_whole and self._is_alone():
                version, commit = snapshot.version, self._identify(snapshot.version)
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

    def _identify(self, version: int) -> str:
        """Return the size and the time of a commit; they change if its version is used again."""
        file = self._log.commit_files.get(version)
        return "" if file is None else f"{file.size_bytes} {file.modified_ms}"


def has_record(store: Store) -> bool:
    """Return whether manifests have a record, of a version or of their table."""
    return read_last_run(store, RECORD) is not None


def as_record(snapshot: Snapshot, context: RunContext) -> LastRun:
    """Return the record of a table whose manifests have no known version."""
    now_ms, address = context.clock.now_ms(), render_root(snapshot.store.uri)
    return LastRun(context.run_id or "", snapshot.metadata.id, now_ms, now_ms, address=address)
