"""Put a commit of deltactl; derive its version, protocol and times from the state before it.

``times`` sets ``inCommitTimestamp``. ``create`` sets it for version 0, and ``restore`` may increase
it. Source: PROTOCOL.md, "In-Commit Timestamps", "Commit Provenance".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deltactl.clock import Clock
from deltactl.errors import ConflictError, NotATableError, ObjectNotFoundError
from deltactl.log.commits.contents import CommitBytes, CommitReader
from deltactl.log.commits.operations import OperationNames
from deltactl.log.listing import list_log
from deltactl.log.replay import Tail, replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.put import Sleep, put_commit
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import FileInfo, Store

_MAX_ATTEMPTS: Final = 1000
_LOOKS: Final = 4

Encode = Callable[["CommitBase", str], bytes]
Learn = Callable[["CommitBase", Tail], None]


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The state of the table at ``version``, on which the next commit is based.

    ``commit_file`` is the latest commit that is known to exist; after a log cleanup it is ``None``.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata] = field(repr=False)
    commit_file: str | None = None

    @classmethod
    def of(cls, snapshot: Snapshot) -> CommitBase:
        """Return the state of a snapshot."""
        commit = snapshot.segment.commit
        return cls(
            snapshot.version,
            snapshot.protocol,
            snapshot.metadata,
            snapshot.domains,
            None if commit is None else commit.name,
        )

    @property
    def next_commit_file(self) -> str:
        """Return the file name of the next commit."""
        return f"{LOG_DIR}/{commit_name(self.version + 1)}"

    def ensure_table_is_there(self, store: Store) -> bool:
        """Check before a put that the table still exists.

        If the table was deleted, a put would create a log that consists of one unreadable commit.

        Returns:
            Whether the previous commit still exists. If a log cleanup removed it, others have
            committed since then.

        Raises:
            NotATableError: the table does not exist, and there is no later commit.
        """
        name = self.commit_file
        if name is None or store.stat_many([name]) != [None]:
            return True
        if list_log(store, self.version + 1).latest_version is not None:
            return False
        raise NotATableError(
            f"{name} of {store.uri} does not exist: the table was deleted during the run",
            hint="Check the path. Nothing was committed.",
        )

    def times(self, store: Store, clock: Clock, after: Metadata | None = None) -> dict[str, Any]:
        """Return the first fields of the next commitInfo: the times that the table requires.

        Args:
            store: the store of the table.
            clock: for the time.
            after: the metadata that the commit sets, if it sets one.

        Raises:
            CorruptLogError: the previous commit has no in-commit timestamp, but must have one.
        """
        now = clock.now_ms()
        before, after = self.metadata, after or self.metadata
        info: dict[str, Any] = {}
        if TableProperties(after.configuration).in_commit_timestamps:
            info["inCommitTimestamp"] = now
            # If this commit enables the timestamps, all earlier times are older.
            if TableProperties(before.configuration).in_commit_timestamps:
                name = f"{LOG_DIR}/{commit_name(self.version)}"
                commit = CommitBytes(name, store.read(name))
                info["inCommitTimestamp"] = max(now, commit.in_commit_timestamp + 1)
        return info | {"timestamp": now}


def win_version(
    store: Store,
    base: CommitBase,
    encode: Encode,
    *,
    learn: Learn,
    clock: Clock,
    sleep: Sleep,
    files: AddedFiles | None = None,
) -> CommitBase:
    """Put a commit after the commits of other writers; return the state after the commit.

    For each attempt, the commit is encoded again, because version, row ids, in-commit timestamp and
    id all change.

    Args:
        store: the store of the table.
        base: the latest state that is known.
        encode: returns the content of a commit with a given id, after a given state. It raises an
            error if the state does not allow the commit.
        learn: is called with the state after commits of other writers, and with their actions.
        clock: for ids.
        sleep: waits between attempts; takes seconds.
        files: proves that the files that the commit adds exist; ``None``: a new one.

    Returns:
        The state on which the commit is based, with the new version. Its ``domains`` are those
        before the commit.

    Raises:
        ConflictError: in all attempts, another writer was first.
        FilesGoneError: files that the commit would add do not exist; nothing was committed.
        CommitOutcomeUnknownError: it is not known whether the commit succeeded.
        CommitDamagedError: the commit succeeded, and then it or its files were lost.
        NotATableError: the log was deleted.
        StorageError: the store failed, and the commit does not exist.
    """
    files = files or AddedFiles(store, clock)
    for attempt in range(_MAX_ATTEMPTS):
        txn_id = clock.new_id()
        name = base.next_commit_file
        content = _encode_on(base, encode, txn_id, store)
        if content is not None and base.ensure_table_is_there(store):
            files.ensure_present(name, content, base.metadata.partition_keys)
            if put_commit(store, name, content, sleep):
                files.ensure_still_present(base.version + 1, base.metadata)
                return replace(base, version=base.version + 1, commit_file=name)
        if attempt:
            sleep(random.uniform(0, min(1.0, 0.01 * 2 ** min(attempt, 7))))
        base, winners = read_winners(store, base)
        files.learn(winners)
        learn(base, winners)
    raise ConflictError(
        f"gave up after {_MAX_ATTEMPTS} attempts to commit",
        hint="Rerun when fewer writers are active.",
    )


def _encode_on(base: CommitBase, encode: Encode, txn_id: str, store: Store) -> bytes | None:
    """Return the content to put; ``None`` if a log cleanup deleted commits that it needs."""
    try:
        return encode(base, txn_id)
    except ObjectNotFoundError:
        if base.ensure_table_is_there(store):
            raise
        return None


def read_winners(store: Store, base: CommitBase) -> tuple[CommitBase, Tail]:
    """Return the state after all commits above ``base``, and their actions.

    Raises:
        ConflictError: a log cleanup already removed some of these commits.
    """
    winners = _list_winners(store, base.version)
    keys = base.metadata.partition_keys
    operations = OperationNames()
    tail = replay_tail(CommitReader(store), winners, keys, visitors=[operations])
    tail.operations = operations.found
    news = tail.non_file_actions
    after = CommitBase(
        version=base.version + len(winners),
        protocol=news.protocol or base.protocol,
        metadata=news.metadata or base.metadata,
        domains={**base.domains, **news.domains},
        commit_file=winners[-1].name if winners else base.commit_file,
    )
    return after, tail


def _list_winners(store: Store, version: int) -> list[FileInfo]:
    """Return the commits above a version, without a gap.

    Commits that a listing may miss are looked up.
    """
    for _ in range(_LOOKS):
        listing = list_log(store, version + 1)
        newest = version
        while newest + 1 in listing.commits:
            newest += 1
        if (listing.latest_version or 0) <= newest:
            return [listing.commits[v] for v in range(version + 1, newest + 1)]
        missing = f"{LOG_DIR}/{commit_name(newest + 1)}"
        if store.stat_many([missing]) == [None]:
            break
    raise ConflictError(
        f"the log of {store.uri} does not have version {newest + 1}, although it has later "
        f"versions. The changes of version {newest + 1} are unknown",
        hint="Rerun: a log cleanup deleted commits during this run.",
    )
