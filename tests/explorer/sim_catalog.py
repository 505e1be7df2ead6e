"""A simulated catalog that decides commits: a ratified commit is a file of the world.

A commit is put as ``_delta_log/_staged_commits/N.UUID.json``. It is the next version when the
catalog has ratified it, and later somebody publishes it: copies it to ``_delta_log/N.json``. Each
request to the catalog is one call, and so a scheduling point: ``read`` and ``tail`` look at
ratified commits, ``create`` ratifies one, ``update`` says that it is published. Source:
PROTOCOL.md, "Catalog-managed tables".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from deltactl.clock import Clock
from deltactl.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TransientStorageError,
)
from deltactl.log.committers.committer import CommitFacts, CommitTail
from deltactl.protocol.names import LOG_DIR, STAGED_COMMITS_DIR, commit_version
from deltactl.storage.store import FileInfo, Store
from tests.explorer.world import CATALOG, COMMIT, Call, Reply, Worlds
from tests.support.forwarding import ForwardingStore
from tests.support.table_builder import commit_path


def staged_name(version: int, identifier: str) -> str:
    return f"{LOG_DIR}/{STAGED_COMMITS_DIR}/{version:020d}.{identifier}.json"


def ratified_name(version: int) -> str:
    """Where a world keeps what the catalog knows of a version."""
    return f"{CATALOG}/{version:020d}"


def encode_ratified(staged: str, size: int, *, published: bool) -> bytes:
    return json.dumps({"name": staged, "size": size, "published": published}).encode()


class Ratified(NamedTuple):
    """A commit that the catalog knows."""

    version: int
    staged: FileInfo
    published: bool


class CatalogCommitter:
    """Ratifies commits, and publishes those before its own."""

    fails_for_good = False

    def __init__(
        self, store: Store, worlds: Worlds, ask: Callable[[Call], Reply], clock: Clock
    ) -> None:
        self._store, self._worlds, self._ask, self._clock = store, worlds, ask, clock

    def tail(self, *, may_write: bool) -> CommitTail:
        staged = {it.version: it.staged for it in self._ratified() if not it.published}
        return CommitTail(staged, min(staged) - 1 if staged else None)

    def ensure_can_commit(self) -> None:
        """All writers ask the catalog."""

    def commit(self, version: int, content: bytes, facts: CommitFacts) -> None:
        name = staged_name(version, self._clock.new_id())
        self._store.put(name, content)
        self.ratify(version, name, content)
        with suppress(StorageError):  # the next writer does it
            self.publish(keep=1)

    def ratify(self, version: int, name: str, content: bytes) -> None:
        data = self._worlds.keep(encode_ratified(name, len(content), published=False))
        self._request(Call("create", ratified_name(version), data))

    def publish(self, *, keep: int = 0, removes: bool = False) -> None:
        """Publish all but the newest commits; remove their staged files if asked for."""
        staged = [it for it in self._ratified() if not it.published]
        for it in staged[: len(staged) - keep]:
            self._publish(it)
            if removes:
                self._store.delete_many([it.staged.name])

    def _publish(self, commit: Ratified) -> None:
        with suppress(ObjectExistsError):
            self._store.put_if_absent(
                commit_path(commit.version), self._store.read(commit.staged.name)
            )
        self.mark(commit)

    def mark(self, commit: Ratified) -> None:
        """Tell the catalog that a commit is published."""
        said = encode_ratified(commit.staged.name, commit.staged.size_bytes, published=True)
        name = ratified_name(commit.version)
        self._request(Call("update", name, self._worlds.keep(said), commit.staged.name))

    def find(self, version: int) -> str:
        try:
            data = self._request(Call("read", ratified_name(version))).value
        except ObjectNotFoundError:
            return commit_path(version)
        assert isinstance(data, int)
        body = json.loads(self._worlds.data(data))
        return commit_path(version) if body["published"] else str(body["name"])

    def _ratified(self) -> list[Ratified]:
        found = self._request(Call("tail", CATALOG)).value
        assert isinstance(found, tuple)
        bodies = [(json.loads(self._worlds.data(data)), ms) for data, ms in found]
        return [
            Ratified(
                int(body["name"].rpartition("/")[2].partition(".")[0]),
                FileInfo(body["name"], body["size"], ms),
                body["published"],
            )
            for body, ms in bodies
        ]

    def _request(self, call: Call) -> Reply:
        reply = self._ask(call)
        match reply.error:
            case "":
                return reply
            case "missing":
                raise ObjectNotFoundError(f"{call.name} is not there")
            case "exists":
                raise ObjectExistsError(f"{call.name} exists")
        raise TransientStorageError(f"{call.op} of {call.name} failed on purpose")


class CatalogStore(ForwardingStore):
    """The store of a table whose writers and readers ask a catalog.

    A plain writer lists the log, reads and puts commits by it, as by any store.
    """

    def __init__(self, inner: Store, committer: CatalogCommitter) -> None:
        super().__init__(inner)
        self.inner, self.committer = inner, committer

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        tail = self.committer.tail(may_write=True)
        names = {info.name: info for info in self.inner.list_from(prefix, start)}
        for version, info in tail.commits.items():
            names.setdefault(commit_path(version), replace(info, name=commit_path(version)))
        return iter([names[name] for name in sorted(names)])

    def read(self, name: str) -> bytes:
        """A commit by the name that it will have."""
        match = COMMIT.fullmatch(name)
        if match is None:
            return self.inner.read(name)
        found = self.committer.find(int(match[1]))
        try:
            return self.inner.read(found)
        except ObjectNotFoundError:  # published, and removed where it was
            if found == name:
                raise
            return self.inner.read(name)

    def put_if_absent(self, name: str, data: bytes) -> None:
        version = commit_version(name)
        if version is None:
            self.inner.put_if_absent(name, data)
        else:
            self.committer.commit(version, data, CommitFacts("id"))
