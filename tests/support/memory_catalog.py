"""A catalog in memory that ratifies the commits of one table, and is told how to fail."""

from collections.abc import Callable, Sequence
from threading import RLock

from deltactl.catalog.managed import BacklogFullError, ManagedState, RatifiedCommit
from deltactl.errors import ObjectExistsError, StorageError
from deltactl.log.committers.committer import Permission
from deltactl.protocol.actions import DomainMetadata

Answer = Callable[[str, str], None]


class MemoryCatalog:
    """Ratifies commits after version ``latest``; see ``ManagedTable``.

    ``answer`` is called with "before" and "after", and the name of each request. It may raise an
    error: after a request, what was asked is done all the same. With ``twice``, each request to
    ratify arrives twice, and the second answer is returned.
    """

    catalog = "the catalog in memory"

    def __init__(
        self,
        latest: int,
        *,
        most: int = 10,
        allowed: frozenset[str] = frozenset(Permission),
        answer: Answer = lambda when, request: None,
        twice: bool = False,
    ) -> None:
        self.latest, self.most, self.allowed, self.answer = latest, most, allowed, answer
        self.twice = twice
        self.table_uuid = "uuid"
        self.is_uniform = False
        self.ratified: dict[int, RatifiedCommit] = {}
        self.reported = latest
        self.keeps = 0  # reported commits that are listed all the same
        self.domains: list[DomainMetadata] = []
        self._lock = RLock()

    def load(self) -> ManagedState:
        self.answer("before", "load")
        with self._lock:
            listed = [v for v in self.ratified if v > self.reported - self.keeps]
            state = ManagedState(
                self.table_uuid,
                self.latest,
                tuple(self.ratified[version] for version in sorted(listed)),
                self.allowed,
                self.is_uniform,
            )
        self.answer("after", "load")
        return state

    def add_commit(
        self, table_uuid: str, commit: RatifiedCommit, domains: Sequence[DomainMetadata]
    ) -> None:
        assert table_uuid == self.table_uuid
        self.answer("before", "add_commit")
        for _ in range(2 if self.twice else 1):
            with self._lock:
                self._ratify(commit, domains)
        self.answer("after", "add_commit")

    def _ratify(self, commit: RatifiedCommit, domains: Sequence[DomainMetadata]) -> None:
        if commit.version <= self.latest:
            raise ObjectExistsError("taken")
        if commit.version > self.latest + 1:
            raise StorageError("HTTP 400: a gap")
        if self.latest - self.reported >= self.most:
            raise BacklogFullError("too many commits are not published")
        self.ratified[commit.version], self.latest = commit, commit.version
        self.domains += domains

    def report_published(self, table_uuid: str, version: int) -> None:
        assert table_uuid == self.table_uuid
        self.answer("before", "report_published")
        assert version <= self.latest
        with self._lock:
            self.reported = max(self.reported, version)
        self.answer("after", "report_published")
