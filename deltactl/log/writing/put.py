"""Put one commit file if absent. Read back whether the stored commit is the one of this run.

After a failed put, above all with "exists", an earlier attempt of the same put may have succeeded.
After a successful put, a writer that looks and then puts may have replaced the commit. Only the
``txnId`` in the first line shows whose commit it is. Source: PROTOCOL.md, "Commit Provenance".
"""

from __future__ import annotations

from collections.abc import Callable

from deltactl.errors import (
    AccessDeniedError,
    CommitDamagedError,
    CommitOutcomeUnknownError,
    ObjectNotFoundError,
    StorageError,
)
from deltactl.storage.names import is_local_uri
from deltactl.storage.store import Store

_SETTLE_ATTEMPTS = 5

Sleep = Callable[[float], None]


def put_commit(store: Store, name: str, content: bytes, sleep: Sleep) -> bool:
    """Put a commit; return whether the stored commit is the one of this run.

    Args:
        store: the store of the table.
        name: of the commit file.
        content: the commit. Its first line has the ``txnId``, so no other commit begins with it.
        sleep: waits between attempts; takes seconds.

    Raises:
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        CommitDamagedError: the put succeeded, but another writer replaced or deleted the commit.
        AccessDeniedError: no attempt was allowed, and no commit exists.
        StorageError: a local file system failed, and no commit exists.
        SafetyError: commits on this store could be overwritten; nothing was put.
    """
    error: StorageError | None = None
    is_put, denied_only = False, True
    for attempt in range(_SETTLE_ATTEMPTS):
        if attempt:
            sleep(0.1 * 2**attempt)
        try:
            if not is_put:
                store.put_if_absent(name, content)
                is_put = True
        except StorageError as failed:
            error = failed
            denied_only = denied_only and isinstance(failed, AccessDeniedError)
        try:
            is_ours = _begins_with_first_line(store, name, content)
            if is_ours and not is_put:
                store.sync_directories([name])  # the sync of the put may have failed
        except ObjectNotFoundError as missing:
            if is_put:
                raise _explain_damage(name, "deleted") from missing
            if is_local_uri(store.uri):
                raise error from None  # type: ignore[misc]  # a link was either created or not
            continue  # the first attempt may still succeed: only another put can decide
        except StorageError as failed:
            error, denied_only = error or failed, False
            continue
        if is_put and not is_ours:
            raise _explain_damage(name, "overwritten")
        return is_ours
    assert error is not None
    if denied_only:
        raise error
    raise CommitOutcomeUnknownError(
        f"it is not known whether {name} was committed: {error}",
        hint="Run `deltactl describe-history` to see whether the version exists, then rerun. "
        "deltactl kept the new files. If they were not committed, `deltactl vacuum` removes "
        "them.",
    ) from error


def _begins_with_first_line(store: Store, name: str, content: bytes) -> bool:
    first = b"".join(content.partition(b"\n")[:2])
    return store.read_ranges(name, [(0, len(first))]) == [first]


def _explain_damage(name: str, what: str) -> CommitDamagedError:
    return CommitDamagedError(
        f"{name} was committed, but another writer has {what} it since then",
        hint="Stop the other writers of this table. One of them does not use put-if-absent (see "
        "docs/object-store-commits.md). Run `deltactl check`, then rerun. deltactl kept the new "
        "files.",
    )
