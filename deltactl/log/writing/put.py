"""One commit file, put if absent; whatever the store says, the outcome is read back.

Source: PROTOCOL.md, "Commit Provenance". A failed put, "exists" above all, may be one whose first
try landed: only the commit's own ``txnId`` in the file tells.
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
    """Put a commit; tell whether it is ours that is there. Never guesses.

    Raises:
        CommitOutcomeUnknownError: it could not be settled.
        AccessDeniedError: no try was allowed, and nothing is there.
        StorageError: a local file system failed, and nothing is there.
        SafetyError: commits here could be overwritten; nothing was put.
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
                raise error from None  # a local link either happened or did not
            continue  # the first try may still land: only the same name, put again, settles it
        except StorageError:
            denied_only = False
            continue
        return info is not None and info.get("txnId") == txn_id
    assert error is not None
    if denied_only:
        raise error
    raise CommitOutcomeUnknownError(
        f"the store did not say whether {name} was committed: {error}",
        hint="Read `deltactl describe-history`, then rerun. New files were kept; `vacuum` removes "
        "those that were not committed.",
    ) from error
