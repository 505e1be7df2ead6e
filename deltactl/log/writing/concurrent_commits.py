"""Read the commits of other writers since a state of the table."""

from __future__ import annotations

from typing import Final

from deltactl.errors import ConflictError
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail, replay_tail
from deltactl.log.writing.commit_base import CommitBase
from deltactl.storage.store import FileInfo

_LOOKS: Final = 4


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

    Raises:
        ConflictError: a log cleanup already removed some of these commits.
    """
    commits = _list_commits(log, base.version)
    keys = base.metadata.partition_keys
    operations = _OperationNames()
    tail = replay_tail(log.reader, commits, keys, visitors=[operations])
    tail.operations = operations.found
    news = tail.non_file_actions
    after = CommitBase(
        version=base.version + len(commits),
        protocol=news.protocol or base.protocol,
        metadata=news.metadata or base.metadata,
        domains={**base.domains, **news.domains},
        commit_file=commits[-1].name if commits else base.commit_file,
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
        if log.store.stat_many([log.commit_file(newest + 1)]) == [None]:
            break
    raise ConflictError(
        f"the log of {log.uri} does not have version {newest + 1}, although it has later "
        f"versions. The changes of version {newest + 1} are unknown",
        hint="Rerun: a log cleanup deleted commits during this run.",
    )
