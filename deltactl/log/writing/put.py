"""Put one commit file if absent. After an error, read back whether the commit succeeded.

After a failed put, above all with "exists", an earlier attempt of the same put may have succeeded.
Only the ``txnId`` in the file shows whose commit it is. Source: PROTOCOL.md, "Commit Provenance".
"""

from __future__ import annotations

from collections.abc import Callable

from deltactl.errors import (
    AccessDeniedError,
    CommitOutcomeUnknownError,
    ObjectNotFoundError,
    StorageError,
)
from deltactl.log.commits.info import parse_commit_info
from deltactl.storage.names import is_local_uri
from deltactl.storage.store import Store

_SETTLE_ATTEMPTS = 5

Sleep = Callable[[float], None]


def put_commit(store: Store, name: str, content: bytes, txn_id: str, sleep: Sleep) -> bool:
    """Put a commit; return whether the stored commit is the one of this run (same ``txnId``).

    Raises:
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        AccessDeniedError: no attempt was allowed, and no commit exists.
        StorageError: a local file system failed, and no commit exists.
        SafetyError: commits on this store could be overwritten; nothing was put.
    """
    error: StorageError | None = None
    denied_only = True
    for attempt in range(_SETTLE_ATTEMPTS):
        if attempt:
            sleep(0.1 * 2**attempt)
        try:
            store.put_if_absent(name, content)
            return True
        except StorageError as failed:
            error = failed
            denied_only = denied_only and isinstance(failed, AccessDeniedError)
        try:
            info = parse_commit_info(name, store.read(name))
        except ObjectNotFoundError:
            if is_local_uri(store.uri):
                raise error from None  # a hard link was either created or not
            continue  # the first attempt may still succeed: only another put can decide
        except StorageError:
            denied_only = False
            continue
        return info is not None and info.get("txnId") == txn_id
    assert error is not None
    if denied_only:
        raise error
    raise CommitOutcomeUnknownError(
        f"it is not known whether {name} was committed: {error}",
        hint="Run `deltactl describe-history` to see whether the version exists, then rerun. "
        "deltactl kept the new files. If they were not committed, `deltactl vacuum` removes "
        "them.",
    ) from error
