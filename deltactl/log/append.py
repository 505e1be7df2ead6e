"""Adding files that bring rows to a table, once each, whatever other writers do meanwhile.

Source: PROTOCOL.md, "Transaction Identifiers", "Commit Provenance", "Row Tracking".
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.clock import Clock
from deltactl.errors import ConflictError
from deltactl.log.action_lines import NewFile, add_line, domain_line, line
from deltactl.log.commit import MAX_ATTEMPTS
from deltactl.log.commit_base import CommitBase, read_winners
from deltactl.log.put_commit import Sleep, put_commit
from deltactl.log.replay import Tail
from deltactl.log.row_ids import RowIds
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.action_nodes import encode_txn
from deltactl.protocol.actions import Txn


@dataclass(frozen=True, slots=True)
class Append:
    """Files that were chosen by looking at a version, and ``txn``, which says how far."""

    files: Sequence[NewFile]
    txn: Txn
    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    engine_info: str = ""


def append_files(snapshot: Snapshot, append: Append, *, clock: Clock, sleep: Sleep) -> int:
    """Commit on top of whatever came since the snapshot; give the version.

    Raises:
        ConflictError: another writer named one of the files, moved the same application on, or
            changed the table's metadata or protocol.
        CommitOutcomeUnknownError: the store never told whether the commit landed.
        NotATableError: the log is gone.
        StorageError: the store failed, and the commit is known not to be there.
    """
    store, base = snapshot.store, CommitBase.of(snapshot)
    for attempt in range(MAX_ATTEMPTS):
        base.ensure_table_is_there(store)
        txn_id = clock.new_id()
        info = base.times(store, clock) | {
            "operation": append.operation,
            "operationParameters": dict(append.parameters),
            "readVersion": snapshot.version,
            "isolationLevel": "Serializable",
            "isBlindAppend": False,
            "operationMetrics": dict(append.metrics),
            "engineInfo": append.engine_info,
            "txnId": txn_id,
        }
        content = _encode(base, append, info)
        if put_commit(store, base.next_commit_file, content, txn_id, sleep):
            return base.version + 1
        if attempt:
            sleep(random.uniform(0, min(1.0, 0.01 * 2 ** min(attempt, 7))))
        base, winners = read_winners(store, base)
        _ensure_no_conflict(append, winners)
    raise ConflictError(
        f"lost the race for a version {MAX_ATTEMPTS} times", hint="Run again at a quieter time."
    )


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


def _ensure_no_conflict(append: Append, winners: Tail) -> None:
    news = winners.singletons
    reason = None
    if append.txn.app_id in news.txns:
        reason = "another run was faster"
    elif news.metadata is not None or news.protocol is not None:
        reason = "another writer changed the table's schema, properties or protocol"
    else:
        ours = pa.array([file.path for file in append.files], pa.string())
        for theirs in (winners.adds["path"], winners.removes["path"]):
            if pc.any(pc.is_in(theirs, value_set=ours)).as_py():
                reason = "another writer added or removed the same files"
    if reason is not None:
        raise ConflictError(f"nothing was committed: {reason}", hint="Run again.")
