"""Commit an append of new files, while other writers commit. Each file is added once.

Source: PROTOCOL.md, "Transaction Identifiers", "Commit Provenance", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.clock import Clock
from deltactl.errors import ConflictError
from deltactl.log.physical_names import locate
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.action_lines import NewFile, add_line, domain_line, line
from deltactl.log.writing.commit_attempts import CommitBase, win_version
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.put import Sleep
from deltactl.log.writing.row_ids import RowIds
from deltactl.protocol.action_nodes import encode_txn
from deltactl.protocol.actions import Txn
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Description):
    """Files to add, the version from which they were chosen, and the ``txn`` to record."""

    files: Sequence[NewFile]
    txn: Txn


def append_files(snapshot: Snapshot, append: Append, *, clock: Clock, sleep: Sleep) -> int:
    """Commit after the latest version; return the new version.

    Raises:
        ConflictError: another writer added or removed one of the files, committed a ``txn`` of the
            same application, or changed the metadata or protocol of the table.
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        NotATableError: the log was deleted.
        StorageError: the store failed, and the commit does not exist.
    """
    store = snapshot.store

    def encode(base: CommitBase, txn_id: str) -> bytes:
        times = base.times(store, clock)
        info = commit_info(times, append, read_version=snapshot.version, txn_id=txn_id)
        return _encode(base, append, info)

    def learn(base: CommitBase, winners: Tail) -> None:
        _ensure_no_conflict(store, append, winners)

    base = CommitBase.of(snapshot)
    return win_version(store, base, encode, learn=learn, clock=clock, sleep=sleep).version


def _encode(base: CommitBase, append: Append, info: Mapping[str, Any]) -> bytes:
    lines = [line("commitInfo", info)]
    row_ids = RowIds.of(base)
    for file in append.files:
        ids = None if row_ids is None else (row_ids.take(file.num_records), base.version + 1)
        lines.append(add_line(file, ids, data_change=True))
    lines.append(line("txn", encode_txn(append.txn)))
    if row_ids is not None and row_ids.grew:
        lines.append(domain_line(row_ids.domain()))
    return ("\n".join(lines) + "\n").encode()


def _ensure_no_conflict(store: Store, append: Append, winners: Tail) -> None:
    news = winners.non_file_actions
    reason = None
    if append.txn.app_id in news.txns:
        reason = "another run committed first"
    elif news.metadata is not None or news.protocol is not None:
        reason = "another writer changed the table's schema, properties or protocol"
    else:
        ours = pa.array([file.path for file in append.files], pa.string())
        for theirs in (winners.adds["path"], winners.removes["path"]):
            if pc.any(pc.is_in(locate(store, theirs), value_set=ours)).as_py():
                reason = "another writer added or removed the same files"
    if reason is not None:
        raise ConflictError(f"nothing was committed: {reason}", hint="Rerun.")
