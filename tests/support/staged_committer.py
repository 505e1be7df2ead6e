"""A committer that keeps its last commits elsewhere, as catalogs do, and is told what to answer.

A commit is first put as ``_delta_log/_staged_commits/N.UUID.json``. It is part of the table when it
is ratified, here in memory, and later published: copied to ``_delta_log/N.json``. Source:
PROTOCOL.md, "Catalog-managed tables".
"""

import threading
import uuid
from collections.abc import Callable

from deltactl.errors import ObjectExistsError
from deltactl.log.committers.committer import CommitFacts, CommitTail, Committer
from deltactl.protocol.names import LOG_DIR, STAGED_COMMITS_DIR, commit_name
from deltactl.storage.store import FileInfo, Store

Answer = Callable[[str], None]


class StagedCommitter(Committer):
    """Ratifies commits; the newest ``keep`` are not published.

    ``answer`` is called with "before" and "after" at each ratification, and may raise an error:
    after it, the commit is ratified all the same. ``facts`` are those of all commits.
    """

    def __init__(
        self, store: Store, latest: int, *, keep: int = 10, answer: Answer | None = None
    ) -> None:
        self._store, self.latest, self._keep = store, latest, keep
        self._answer = answer
        self._staged: dict[int, FileInfo] = {}
        self._lock = threading.Lock()
        self.facts: dict[int, CommitFacts] = {}

    @property
    def fails_for_good(self) -> bool:
        return False

    def tail(self, *, may_write: bool) -> CommitTail:
        with self._lock:
            return CommitTail(dict(self._staged), self.latest - len(self._staged))

    def ensure_can_commit(self) -> None:
        pass

    def commit(self, version: int, content: bytes, facts: CommitFacts) -> None:
        digits = commit_name(version).removesuffix(".json")
        name = f"{LOG_DIR}/{STAGED_COMMITS_DIR}/{digits}.{uuid.uuid4()}.json"
        self._store.put(name, content)
        if self._answer is not None:
            self._answer("before")
        with self._lock:
            if version != self.latest + 1:
                raise ObjectExistsError(f"version {version} is not the next one")
            (info,) = self._store.stat_many([name])
            assert info is not None
            self._staged[version], self.latest = info, version
            self.facts[version] = facts
            while len(self._staged) > self._keep:
                self._publish(min(self._staged))
        if self._answer is not None:
            self._answer("after")

    def publish_all(self) -> None:
        """Publish all commits, and remove their staged files."""
        with self._lock:
            for version in sorted(self._staged):
                name = self._staged[version].name
                self._publish(version)
                self._store.delete_many([name])

    def _publish(self, version: int) -> None:
        content = self._store.read(self._staged[version].name)
        self._store.put_if_absent(f"{LOG_DIR}/{commit_name(version)}", content)
        del self._staged[version]

    def find(self, version: int) -> str:
        with self._lock:
            staged = self._staged.get(version)
        return f"{LOG_DIR}/{commit_name(version)}" if staged is None else staged.name
