"""Let a committer commit a version, and find out whether the stored commit is the one of this run.

After a failed attempt, above all with "exists", an earlier attempt of the same commit may have
succeeded. After a success, a writer that looks and then puts may have replaced the commit. Only the
``txnId`` in the first line shows whose commit it is. Source: PROTOCOL.md, "Commit Provenance".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from deltactl.errors import (
    CommitDamagedError,
    CommitOutcomeUnknownError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
)
from deltactl.log.committers.committer import CommitFacts, Committer, is_commit
from deltactl.storage.store import Store

_SETTLE_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS: Final = 0.2

Sleep = Callable[[float], None]


def settle_commit(
    store: Store,
    committer: Committer,
    version: int,
    content: bytes,
    facts: CommitFacts,
    *,
    sleep: Sleep,
) -> str | None:
    """Commit a version; return the name of its file if it is the commit of this run.

    Args:
        store: the store of the table.
        committer: decides.
        version: the version to commit.
        content: the commit. Its first line has the ``txnId``, so no other commit begins with it.
        facts: what the commit changes.
        sleep: waits between attempts; takes seconds.

    Returns:
        ``None`` if the version is the commit of another writer.

    Raises:
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        CommitDamagedError: the commit succeeded, but another writer replaced or deleted it.
        StorageError: an attempt failed for good, or every attempt was refused; no commit exists.
        SafetyError: commits to this table could be overwritten; nothing was committed.
    """
    error: StorageError | None = None
    is_committed, refused_only = False, True
    for _ in _attempts(sleep):
        if not is_committed:
            failed = _commit_once(store, committer, version, content, facts, earlier=error)
            is_committed = failed is None
            if failed is not None:
                error = failed
                refused_only = refused_only and failed.had_no_effect
        try:
            # If the put failed, its sync may have failed.
            name, is_ours = _read_back(store, committer, version, content, syncs=not is_committed)
        except ObjectNotFoundError as missing:
            if is_committed:
                raise _explain_damage(version, store, "deleted") from missing
            if committer.fails_for_good:
                raise error from None  # type: ignore[misc]  # it was not committed, and will not be
            continue  # the first attempt may still succeed: only another attempt can decide
        except StorageError as unread:
            error, refused_only = error or unread, False
            continue
        if is_committed and not is_ours:
            raise _explain_damage(version, store, "overwritten")
        return name if is_ours else None
    assert error is not None
    # The store refused each attempt, so none of them can take effect later.
    if refused_only:
        raise error
    raise _explain_doubt(version, store, error) from error


def _commit_once(
    store: Store,
    committer: Committer,
    version: int,
    content: bytes,
    facts: CommitFacts,
    *,
    earlier: StorageError | None,
) -> StorageError | None:
    """Let the committer try; return the error. ``earlier`` is that of the last attempt."""
    try:
        committer.commit(version, content, facts)
    except StorageError as error:
        return error
    except SafetyError as refused:
        if earlier is None:
            raise
        raise _explain_doubt(version, store, earlier) from refused  # that one may have succeeded
    return None


def _attempts(sleep: Sleep) -> Iterator[int]:
    """Yield the numbers of the attempts; wait before each but the first."""
    for attempt in range(_SETTLE_ATTEMPTS):
        if attempt:
            sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        yield attempt


def _explain_doubt(version: int, store: Store, error: StorageError) -> CommitOutcomeUnknownError:
    return CommitOutcomeUnknownError(
        f"it is not known whether version {version} of {store.uri} was committed: {error}",
        hint="Run `deltactl describe-history TABLE` to see whether the version exists, then "
        "rerun. deltactl kept the new files. If they were not committed, `deltactl vacuum TABLE` "
        "on a terminal removes them after the retention.",
    )


def _read_back(
    store: Store, committer: Committer, version: int, content: bytes, *, syncs: bool
) -> tuple[str, bool]:
    """Return the name of the commit of a version, and whether it is the given commit.

    If it is and ``syncs``, sync its directory.

    Raises:
        ObjectNotFoundError: there is no such commit.
        StorageError: this is not known.
    """
    name = committer.find(version)
    while True:
        try:
            is_ours = is_commit(store, name, content)
        except ObjectNotFoundError:
            before, name = name, committer.find(version)  # it may have been published since then
            if name == before:
                raise
            continue
        if is_ours and syncs:
            store.sync_directories([name])
        return name, is_ours


def _explain_damage(version: int, store: Store, what: str) -> CommitDamagedError:
    return CommitDamagedError(
        f"version {version} of {store.uri} was committed, but another writer has {what} it since "
        "then",
        hint="Stop the other writers of this table. One of them does not use put-if-absent (see "
        "docs/object-store-commits.md). Run `deltactl check TABLE`, then rerun. deltactl kept the "
        "new files.",
    )
