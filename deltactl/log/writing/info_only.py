"""Commits that hold a ``commitInfo`` and nothing else, such as a vacuum's START and END.

They touch no file, so no other writer can be in conflict with them: a lost race is put again.
"""

from __future__ import annotations

from collections.abc import Callable

from deltactl.clock import Clock
from deltactl.log.replay import Tail
from deltactl.log.writing.action_lines import line
from deltactl.log.writing.base import CommitBase, win_version
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.put import Sleep
from deltactl.storage.store import Store


def commit_info_only(
    store: Store,
    base: CommitBase,
    description: Description,
    *,
    clock: Clock,
    sleep: Sleep,
    ensure: Callable[[CommitBase], None],
) -> CommitBase:
    """Commit a ``commitInfo`` on top of whatever other writers add, and give the state after it.

    Args:
        store: where the table is.
        base: the newest state known.
        description: of the commit.
        clock: for the time and the transaction's id.
        sleep: waits between attempts; seconds.
        ensure: is asked before each attempt whether the state still allows it; raises if not.

    Raises:
        ConflictError: no version could be won.
        CommitOutcomeUnknownError: the store never told whether the commit landed.
        NotATableError: the log is gone.
        StorageError: the store failed, and the commit is known not to be there.
    """

    def encode(state: CommitBase, txn_id: str) -> bytes:
        ensure(state)
        times = state.times(store, clock)
        info = commit_info(times, description, read_version=state.version, txn_id=txn_id)
        return f"{line('commitInfo', info)}\n".encode()

    def learn(state: CommitBase, winners: Tail) -> None:
        """No file is touched: nothing that others say matters but to ``ensure``."""

    return win_version(store, base, encode, learn=learn, clock=clock, sleep=sleep)
