"""Commit a version as a transaction does, without what is around it."""

from deltactl.log.committers.committer import CommitFacts, Committer
from deltactl.log.committers.put_if_absent import PutIfAbsent
from deltactl.log.committers.settle import settle_commit
from deltactl.protocol.names import commit_version
from deltactl.storage.store import Store

FACTS = CommitFacts("id")


def settle(store: Store, committer: Committer, version: int, content: bytes) -> bool:
    """Return whether the version is this commit."""
    name = settle_commit(store, committer, version, content, FACTS, sleep=lambda seconds: None)
    return name is not None


def put_commit(store: Store, name: str, content: bytes) -> bool:
    """Commit by put-if-absent, by the name of the commit file."""
    version = commit_version(name)
    assert version is not None
    return settle(store, PutIfAbsent(store), version, content)
