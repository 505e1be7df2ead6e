"""Commit the removal of files with their rows, if no other writer changed the files.

Source: PROTOCOL.md, "Add File and Remove File", "Commit Provenance".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import ConflictError
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.action_lines import line, remove_lines
from deltactl.log.writing.commit_attempts import CommitBase, win_version
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.put import Sleep

RESTORE: Final = "RESTORE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal(Description):
    """Files to remove: rows of ``ADD_SCHEMA`` plus ``num_records``."""

    files: pa.Table


def remove_files(
    snapshot: Snapshot,
    removal: Removal,
    *,
    clock: Clock,
    sleep: Sleep,
    ensure: Callable[[CommitBase], None],
    touches: Callable[[Tail], bool],
) -> CommitBase:
    """Commit after the latest version; return the state after it.

    Args:
        snapshot: the version from which the files were chosen.
        removal: the files to remove.
        clock: for the times and the transaction's id.
        sleep: waits between attempts; takes seconds.
        ensure: is called before each attempt; raises an error if the state does not allow the
            commit.
        touches: returns whether commits of other writers changed the files, or files on which the
            choice depends.

    Raises:
        ConflictError: another writer changed the files, restored the table, or changed its metadata
            or protocol.
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        NotATableError: the log was deleted.
        StorageError: the store failed, and the commit does not exist.
    """
    store, started_ms = snapshot.store, clock.now_ms()

    def encode(base: CommitBase, txn_id: str) -> bytes:
        ensure(base)
        times = base.times(store, clock)
        info = commit_info(times, removal, read_version=snapshot.version, txn_id=txn_id)
        lines = [line("commitInfo", info)]
        lines += remove_lines(removal.files, started_ms, data_change=True)
        return ("\n".join(lines) + "\n").encode()

    def learn(base: CommitBase, winners: Tail) -> None:
        reason = None
        latest = winners.non_file_actions
        if latest.metadata is not None or latest.protocol is not None:
            reason = "another writer changed the table's schema, properties or protocol"
        elif touches(winners):
            reason = "another writer added or removed the same files, or removed rows"
        elif RESTORE in winners.operations:  # it may need files that it does not add
            reason = "another writer restored an older version"
        if reason is not None:
            raise ConflictError(f"nothing was committed: {reason}", hint="Rerun.")

    base = CommitBase.of(snapshot)
    return win_version(store, base, encode, learn=learn, clock=clock, sleep=sleep)
