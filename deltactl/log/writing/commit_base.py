"""The state of a table on which a commit is based."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from deltactl.errors import (
    ConflictError,
    DataFileError,
    DeltactlError,
    LogGapError,
    NotATableError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail, replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.storage.errors import no_root_error
from deltactl.storage.store import FileInfo

_LOOKS: Final = 4
_ROUNDED_MS: Final = 2000  # listings of some stores have ms, but requests of one file seconds


@dataclass(frozen=True, slots=True)
class CommitBase:
    """The state of the table at ``version``, on which the next commit is based.

    ``version`` is -1 for a table that does not exist yet. ``commit_file`` is the latest commit that
    is known to exist; after a log cleanup it is ``None``. It may have been published since then.
    Its time is 0 if it is a commit of this run. ``dated_ms`` is the time of this file, by the clock
    of the store; 0 if it is not known. After a commit of this run, it is still that of an earlier
    file.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict, repr=False)
    commit_file: FileInfo | None = None
    dated_ms: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> CommitBase:
        """Return the state of a snapshot."""
        commit = snapshot.segment.commit
        return cls(
            snapshot.version,
            snapshot.protocol,
            snapshot.metadata,
            snapshot.domains,
            commit,
            0 if commit is None else commit.modified_ms,
        )

    def ensure_table_is_there(self, log: DeltaLog, *, reads_id: bool = True) -> bool:
        """Check before a commit that the table still exists, and is the same.

        If the table was deleted, a put would create a log that consists of one unreadable commit.
        If it was also created again, a commit would add the files of the old table to the new one.

        Args:
            log: the log of the table.
            reads_id: whether to read the table's id if the previous commit has another time; else
                this counts as another table.

        Returns:
            Whether the previous commit still exists. If a log cleanup removed it, others have
            committed since then, and the table has the same id.

        Raises:
            NotATableError: the table does not exist, and there is no later commit.
            ConflictError: the table is another one, or the previous commit was overwritten.
        """
        if self.commit_file is None:
            return True
        found = self.find_commit(log)
        if found is not None:
            self._ensure_same(log, self.commit_file, found, reads_id=reads_id)
            return True
        self._ensure_same_id(log, self.version + 1)
        return False

    def ensure_same_table(self, log: DeltaLog) -> None:
        """Check, after a file of the table was not found, that its log is still the one read.

        Raises:
            NotATableError: the table does not exist any more.
            StorageError: its directory is missing or empty; or the store failed.
            ConflictError: another table has replaced it, or the previous commit was overwritten.
        """
        if self.commit_file is None:
            self._ensure_same_id(log, self.version)
        else:
            self.ensure_table_is_there(log)

    def _ensure_same_id(self, log: DeltaLog, first: int) -> None:
        """Refuse a log without versions from ``first`` on, or of another table."""
        if not log.has_versions_from(first):
            raise lost_error(log)
        if not self._has_same_id(log):
            raise _other_table_error(log)

    def _ensure_same(
        self, log: DeltaLog, before: FileInfo, found: FileInfo, *, reads_id: bool
    ) -> None:
        """Refuse another file of the same name. No request is needed if size and time are equal."""
        if before.name != log.commit_file(self.version) or found.name != before.name:
            return  # the catalog dates staged commits, and decides
        # The same commit may be written again, as by a writer that completes one in DynamoDB.
        is_new = before.modified_ms and abs(found.modified_ms - before.modified_ms) > _ROUNDED_MS
        if found.size_bytes == before.size_bytes and (
            not is_new or (reads_id and self._has_same_id(log))
        ):
            return
        raise ConflictError(
            f"{found.name} of {log.uri} is not the file that this run has read: the table was "
            "created again during the run, or another writer overwrote the commit",
            hint="Rerun.",
        )

    def _has_same_id(self, log: DeltaLog) -> bool:
        """Return whether the log gives this version the same id; a later one may replace the id."""
        try:
            found = log.unread().snapshot(self.version)
        except (VersionNotFoundError, LogGapError):  # a log cleanup deleted what rebuilds it
            found = log.unread().snapshot()
        return found.metadata.id == self.metadata.id

    def _find_name(self, log: DeltaLog) -> str:
        return log.commit_file(self.version) if self.commit_file is None else self.commit_file.name

    def find_commit(self, log: DeltaLog) -> FileInfo | None:
        """Return the latest commit file, also if it was published meanwhile."""
        published, name = log.commit_file(self.version), self._find_name(log)
        (info,) = log.store.stat_many([name])
        if info is None and name != published:  # not both at once: it may be published meanwhile
            (info,) = log.store.stat_many([published])
        return info

    def read_commit(self, log: DeltaLog) -> CommitBytes:
        """Read the latest commit, also if it was published meanwhile."""
        published, name = log.commit_file(self.version), self._find_name(log)
        try:
            return log.reader.read_named(name)
        except ObjectNotFoundError:
            if name == published:
                raise
            return log.reader.read_named(published)


@contextmanager
def noticing_loss(
    log: DeltaLog, snapshot: Snapshot, kind: type[DeltactlError] = DataFileError
) -> Iterator[None]:
    """Look, if files cannot be read, whether the table of the snapshot is still there.

    ``kind``: the error that says that they cannot be read.

    Raises:
        DeltactlError: see ``CommitBase.ensure_same_table``.
    """
    try:
        yield
    except kind:
        CommitBase.of(snapshot).ensure_same_table(log)
        raise


def lost_error(log: DeltaLog) -> DeltactlError:
    """Return the error for a table whose log, or its latest version, does not exist any more."""
    if log.has_versions_from(0):
        return _other_table_error(log)
    store = log.store
    if store.directories is not None and not (store.list_directories() or any(store.list_from(""))):
        return no_root_error(store.uri)
    return NotATableError(
        f"{log.uri} has no log any more: the table was deleted during the run",
        hint="Check the path.",
    )


def _other_table_error(log: DeltaLog) -> ConflictError:
    return ConflictError(
        f"{log.uri} has another log than this run has read: the table was replaced during the run",
        hint="Rerun.",
    )


class _OperationNames(Visitor):
    """The operations in the ``commitInfo`` of commits."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[object] = set()

    def see(self, commit: CommitBytes) -> bool:
        """Take the operation."""
        if commit.info is not None:
            self.found.add(commit.info.get("operation"))
        return False


def read_concurrent_commits(log: DeltaLog, base: CommitBase) -> tuple[CommitBase, Tail]:
    """Return the state after all commits above ``base``, and their actions.

    The commits are of the same table: the commit of ``base`` still exists after they were read.

    Raises:
        ConflictError: a log cleanup already removed some of these commits, or the table is another
            one.
        DeltactlError: see ``CommitBase.ensure_same_table``.
    """
    commits = _list_commits(log, base.version)
    keys = base.metadata.partition_keys
    operations = _OperationNames()
    tail = replay_tail(log.reader, commits, keys, visitors=[operations])
    base.ensure_same_table(log)  # last: until they are read, another table may replace this one
    tail.operations = operations.found
    news = tail.non_file_actions
    after = CommitBase(
        version=base.version + len(commits),
        protocol=news.protocol or base.protocol,
        metadata=news.metadata or base.metadata,
        domains={**base.domains, **news.domains},
        commit_file=commits[-1] if commits else base.commit_file,
        dated_ms=commits[-1].modified_ms if commits else base.dated_ms,
    )
    return after, tail


def _list_commits(log: DeltaLog, version: int) -> list[FileInfo]:
    """Return the commits above a version, without a gap.

    Commits that a listing may miss are looked up.
    """
    for _ in range(_LOOKS):
        listing = log.list_from(version + 1)
        newest = version
        while newest + 1 in listing.commits:
            newest += 1
        if (listing.latest_version or 0) <= newest:
            return [listing.commits[v] for v in range(version + 1, newest + 1)]
        # If it exists, the listing missed it, and is repeated. Else a log cleanup deleted it.
        if log.store.stat_many([log.commit_file(newest + 1)]) == [None]:
            break
    raise ConflictError(
        f"the log of {log.uri} does not have version {newest + 1}, although it has later "
        f"versions. The changes of version {newest + 1} are unknown",
        hint="Rerun: a log cleanup deleted commits during this run.",
    )
