"""A simulated catalog that decides commits, and a store for writers that ask it.

A commit is put as ``_delta_log/_staged_commits/N.UUID.json``. It is the next version when the
catalog has ratified it, and later somebody publishes it: copies it to ``_delta_log/N.json``, and
then reports this to the catalog, which forgets its staged file. What the catalog knows is one file
of the world, and each request one call, and so a scheduling point. Source: PROTOCOL.md,
"Catalog-managed tables".
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from deltactl.catalog.managed import BacklogFullError, ManagedState, RatifiedCommit
from deltactl.clock import Clock
from deltactl.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    TransientStorageError,
    ignore_warning,
)
from deltactl.log.committers.committer import Permission
from deltactl.log.committers.open import open_managed
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.actions import DomainMetadata
from deltactl.protocol.names import LOG_DIR, STAGED_COMMITS_DIR, commit_version
from deltactl.storage.store import FileInfo, Store
from tests.explorer.world import CATALOG, Call, Reply, Worlds
from tests.support.forwarding import ForwardingStore
from tests.support.table_builder import commit_path


class StagedCommit(NamedTuple):
    """A commit as a catalog knows it."""

    version: int
    name: str
    size: int
    modified_ms: int

    @property
    def info(self) -> FileInfo:
        return FileInfo(staged_path(self.name), self.size, self.modified_ms)


class Known(NamedTuple):
    """The answer of a catalog: its latest version, and commits that are not reported."""

    latest: int
    commits: Sequence[StagedCommit]


def staged_path(name: str) -> str:
    return f"{LOG_DIR}/{STAGED_COMMITS_DIR}/{name}"


def encode_known(published: int, *commits: StagedCommit) -> bytes:
    """What a catalog knows of a table; see ``naive.ratified``."""
    latest = max((it.version for it in commits), default=published)
    known = [it._asdict() for it in commits]
    return json.dumps({"latest": latest, "reported": published, "commits": known}).encode()


class SimCatalog:
    """The requests to a catalog."""

    def __init__(self, worlds: Worlds, ask: Callable[[Call], Reply]) -> None:
        self._worlds, self._ask = worlds, ask

    def load(self) -> Known:
        data = self._request(Call("read", CATALOG)).value
        assert isinstance(data, int)
        known = json.loads(self._worlds.data(data))
        return Known(known["latest"], [StagedCommit(**it) for it in known["commits"]])

    def ratify(self, commit: StagedCommit) -> bool:
        """Ask for a next version; return ``False`` if too many are not published.

        Raises:
            ObjectExistsError: the version exists.
            StorageError: there was no answer.
        """
        data = self._worlds.keep(json.dumps(commit._asdict()).encode())
        return self._request(Call("ratify", CATALOG, data)).error != "backlog"

    def report(self, version: int) -> None:
        """Say that commits up to a version are published."""
        self._request(Call("report", CATALOG, other=str(version)))

    def _request(self, call: Call) -> Reply:
        reply = self._ask(call)
        match reply.error:
            case "" | "backlog":
                return reply
            case "exists":
                raise ObjectExistsError("the version exists")
            case "refused":
                raise SafetyError("the catalog refused the request")
        raise TransientStorageError(f"{call.op} failed on purpose")


class SimManagedTable:
    """The same requests as the code under test sends them."""

    catalog = "the catalog"

    def __init__(self, requests: SimCatalog) -> None:
        self._requests = requests

    def load(self) -> ManagedState:
        known = self._requests.load()
        commits = [
            RatifiedCommit(it.version, it.name, it.size, it.modified_ms, it.modified_ms)
            for it in known.commits
        ]
        allowed = frozenset(permission.value for permission in Permission)
        return ManagedState("uuid", known.latest, tuple(commits), allowed)

    def add_commit(
        self, table_uuid: str, commit: RatifiedCommit, domains: Sequence[DomainMetadata]
    ) -> None:
        asked = StagedCommit(
            commit.version, commit.file_name, commit.size_bytes, commit.modified_ms
        )
        if not self._requests.ratify(asked):
            raise BacklogFullError("too many commits are not published")

    def report_published(self, table_uuid: str, version: int) -> None:
        self._requests.report(version)


class CatalogStore(ForwardingStore):
    """The store of a table whose writers ask a catalog.

    A plain writer lists the log, reads and puts commits by it, as by any store. Each of them
    publishes the commits before its own; if it is ``lazy``, only what the catalog wants.
    """

    def __init__(
        self, inner: Store, catalog: SimCatalog, clock: Clock, *, only_looks: bool
    ) -> None:
        super().__init__(inner)
        self.inner, self.catalog, self._clock = inner, catalog, clock
        self.only_looks, self.lazy = only_looks, False
        self._names: dict[int, str] = {}

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        ratified = self.catalog.load().commits
        found = {info.name: info for info in self.inner.list_from(prefix, start)}
        versions = ((commit_version(name), name) for name in found)
        self._names |= {version: name for version, name in versions if version is not None}
        for it in ratified:
            name = commit_path(it.version)
            found[name] = replace(it.info, name=name)
            self._names[it.version] = it.info.name
        return iter([found[name] for name in sorted(found)])

    def read(self, name: str) -> bytes:
        """A commit by the name that it will have."""
        version = commit_version(name)
        if version is None:
            return self.inner.read(name)
        if version not in self._names:
            ratified = {it.version: it.info.name for it in self.catalog.load().commits}
            self._names[version] = ratified.get(version, name)
        try:
            return self.inner.read(self._names[version])
        except ObjectNotFoundError:  # published, and removed where it was
            if self._names[version] == name:
                raise
            return self.inner.read(name)

    def put_if_absent(self, name: str, data: bytes) -> None:
        version = commit_version(name)
        if version is None:
            self.inner.put_if_absent(name, data)
            return
        staged = StagedCommit(
            version, f"{version:020d}.{self._clock.new_id()}.json", len(data), self._clock.now_ms()
        )
        self.inner.put(staged.info.name, data)
        while not self.catalog.ratify(staged):
            self.publish()
        if not self.lazy:
            with suppress(StorageError):  # the next writer does it
                self.publish(keep=1)

    def open_log(self) -> DeltaLog:
        """The log, as the code under test opens it."""
        table = SimManagedTable(self.catalog)
        managed = open_managed(self.inner, table, ignore_warning, published_only=False)
        return DeltaLog(self.inner, ignore_warning, managed=managed, read_only=self.only_looks)

    def publish(self, *, keep: int = 0, removes: bool = False) -> None:
        """Publish all but the newest commits; remove their staged files if asked for."""
        ratified = self.catalog.load().commits
        chosen = ratified[: len(ratified) - keep]
        for it in chosen:
            # Whoever removed a staged file has published it.
            with suppress(ObjectExistsError, ObjectNotFoundError):
                self.inner.put_if_absent(commit_path(it.version), self.inner.read(it.info.name))
        if chosen:
            self.catalog.report(chosen[-1].version)
        if removes:
            self.inner.delete_many([it.info.name for it in chosen])
