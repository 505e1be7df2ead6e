"""A small table whose commits a catalog in memory decides."""

import json
from typing import Any

import pytest

from deltactl.catalog.managed import RatifiedCommit
from deltactl.errors import Warn
from deltactl.log.committers.catalog_managed import CatalogManaged
from deltactl.log.committers.committer import CommitFacts
from deltactl.log.committers.settle import settle_commit
from deltactl.log.delta_log import DeltaLog
from deltactl.storage.store import Store
from tests.support.memory_catalog import MemoryCatalog
from tests.support.stores import fresh_store
from tests.support.table_builder import START_MS, Column, TableBuilder, commit_path

STAGED = "_delta_log/_staged_commits"


def content(txn_id: str) -> bytes:
    info = {"commitInfo": {"txnId": txn_id, "inCommitTimestamp": 5, "operation": "X"}}
    return json.dumps(info).encode() + b"\n"


class Scene:
    """A table of versions 0 and 1, both published."""

    def __init__(self, **options: Any) -> None:
        self.store: Store = fresh_store()
        features = ["catalogManaged", "inCommitTimestamp"]
        properties = {"delta.enableInCommitTimestamps": "true"}
        self.builder = builder = TableBuilder(
            self.store, [Column("id")], features=features, properties=properties
        )
        builder.append([{"id": 1}])
        self.catalog = MemoryCatalog(builder.version, **options)
        self.first = builder.version + 1

    def committer(self, store: Store | None = None, warn: Warn = pytest.fail) -> CatalogManaged:
        return CatalogManaged(store or self.store, self.catalog, warn)

    def log(self, warn: Warn = pytest.fail, *, read_only: bool = False) -> DeltaLog:
        managed = self.committer(warn=warn)
        return DeltaLog(self.store, warn, managed=managed, read_only=read_only)

    def commit(
        self, txn_id: str, version: int | None = None, committer: CatalogManaged | None = None
    ) -> str | None:
        """Commit; return the name of the file, or ``None`` for the commit of another writer."""
        return settle_commit(
            self.store,
            committer or self.committer(),
            self.catalog.latest + 1 if version is None else version,
            content(txn_id),
            CommitFacts(txn_id, 5),
            sleep=lambda seconds: None,
        )

    def stage(self, txn_id: str, version: int) -> RatifiedCommit:
        """Write a staged file as another writer does, without a request to the catalog."""
        name = f"{version:020d}.{txn_id}.json"
        self.store.put(f"{STAGED}/{name}", content(txn_id))
        return RatifiedCommit(version, name, len(content(txn_id)), 0, 5)

    def ratify_unpublished(self, txn_id: str) -> int:
        commit = self.stage(txn_id, self.catalog.latest + 1)
        self.catalog.add_commit("uuid", commit, ())
        return commit.version

    def published(self, version: int) -> str:
        data = self.store.read(commit_path(version))
        return str(json.loads(data.splitlines()[0])["commitInfo"]["txnId"])

    def staged(self) -> list[str]:
        return [info.name.split(".")[1] for info in self.store.list_from(STAGED)]

    def append(self, *, publishes: bool = False) -> int:
        """Commit a row as another writer of the catalog does."""
        self.builder.append([{"id": self.builder.version + 1}])
        version = self.builder.version
        data = self.store.read(commit_path(version))
        if not publishes:
            self.store.delete_many([commit_path(version)])
        name = f"{version:020d}.append.json"
        self.store.put(f"{STAGED}/{name}", data)
        self.catalog.add_commit(
            "uuid", RatifiedCommit(version, name, len(data), START_MS + version, 5), ()
        )
        return version
