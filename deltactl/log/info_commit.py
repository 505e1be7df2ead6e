"""Commits that hold a ``commitInfo`` and nothing else, such as a vacuum's START and END.

They touch no file, so no other writer can be in conflict with them: a lost race is put again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from deltactl.clock import Clock
from deltactl.errors import ConflictError
from deltactl.log.action_lines import line
from deltactl.log.commit_base import CommitBase, read_winners
from deltactl.log.put_commit import Sleep, put_commit
from deltactl.storage.store import Store

_MAX_ATTEMPTS = 1000


@dataclass(frozen=True, slots=True)
class Info:
    """What stays the same over all attempts: ``operation`` with its parameters and metrics."""

    operation: str
    parameters: Mapping[str, object]
    metrics: Mapping[str, str]
    engine_info: str
    tags: Mapping[str, str] = field(default_factory=dict)


def commit_info_only(
    store: Store,
    base: CommitBase,
    info: Info,
    *,
    clock: Clock,
    sleep: Sleep,
    ensure: Callable[[CommitBase], None],
) -> CommitBase:
    """Commit an ``info`` on top of whatever other writers add, and give the state after it.

    Args:
        store: where the table is.
        base: the newest state known.
        info: what to say.
        clock: for the time and the transaction's id.
        sleep: waits between attempts; seconds.
        ensure: is asked before each attempt whether the state still allows it; raises if not.

    Raises:
        ConflictError: no version could be won.
        CommitOutcomeUnknownError: the store never told whether the commit landed.
        NotATableError: the log is gone.
        StorageError: the store failed, and the commit is known not to be there.
    """
    for attempt in range(_MAX_ATTEMPTS):
        ensure(base)
        base.ensure_table_is_there(store)
        txn_id = clock.new_id()
        body: dict[str, object] = base.times(store, clock) | {
            "operation": info.operation,
            "operationParameters": dict(info.parameters),
            "readVersion": base.version,
            "isolationLevel": "SnapshotIsolation",
            "isBlindAppend": True,
            "operationMetrics": dict(info.metrics),
            "engineInfo": info.engine_info,
            "txnId": txn_id,
        }
        if info.tags:
            body["tags"] = dict(info.tags)
        content = f"{line('commitInfo', body)}\n".encode()
        name = base.next_commit_file
        if put_commit(store, name, content, txn_id, sleep):
            return replace(base, version=base.version + 1, commit_file=name)
        if attempt:
            sleep(random.uniform(0, min(1.0, 0.01 * 2 ** min(attempt, 7))))
        base, _ = read_winners(store, base)
    raise ConflictError(
        f"lost the race for a version {_MAX_ATTEMPTS} times", hint="Run again at a quieter time."
    )
