"""Write commits with only a ``commitInfo``, such as a vacuum's START and END.

Such a commit changes no file, so it never conflicts. If another writer commits the version first,
the commit is put again at the next version.
"""

from __future__ import annotations

from collections.abc import Callable

from deltactl.clock import Clock
from deltactl.log.replay import Tail
from deltactl.log.writing.action_lines import line
from deltactl.log.writing.commit_attempts import CommitBase, win_version
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
    """Commit a ``commitInfo`` after the commits of other writers; return the state after it.

    Args:
        store: the store of the table.
        base: the latest state that is known.
        description: the description of the commit.
        clock: for the time and the transaction's id.
        sleep: waits between attempts; takes seconds.
        ensure: is called before each attempt; raises an error if the state does not allow the
            commit.

    Raises:
        ConflictError: in all attempts, another writer was first.
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        NotATableError: the log was deleted.
        StorageError: the store failed, and the commit does not exist.
    """

    def encode(state: CommitBase, txn_id: str) -> bytes:
        ensure(state)
        times = state.times(store, clock)
        info = commit_info(times, description, read_version=state.version, txn_id=txn_id)
        return f"{line('commitInfo', info)}\n".encode()

    def learn(state: CommitBase, winners: Tail) -> None:
        """Check the state. This commit changes no file, so the actions of others do not matter."""

    return win_version(store, base, encode, learn=learn, clock=clock, sleep=sleep)
