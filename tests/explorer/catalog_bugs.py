"""Seed bugs in the order of ratification, publication, tail and listing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from unittest.mock import patch

from deltactl.errors import StorageError
from deltactl.log.committers.committer import CommitFacts, CommitTail
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import LogListing, list_log
from deltactl.log.writing.commit_base import CommitBase
from deltactl.storage.store import FileInfo
from tests.explorer.bug import Bug
from tests.explorer.sim_catalog import (
    CatalogCommitter,
    Ratified,
    encode_ratified,
    ratified_name,
    staged_name,
)
from tests.explorer.world import Call
from tests.support.table_builder import commit_path


def _ratify_without_a_condition() -> AbstractContextManager[object]:
    def ratify(self: CatalogCommitter, version: int, name: str, content: bytes) -> None:
        data = self._worlds.keep(encode_ratified(name, len(content), published=False))
        self._request(Call("put", ratified_name(version), data))

    return patch.object(CatalogCommitter, "ratify", ratify)


def _publish_first() -> AbstractContextManager[object]:
    def commit(self: CatalogCommitter, version: int, content: bytes, facts: CommitFacts) -> None:
        name = staged_name(version, self._clock.new_id())
        self._store.put(name, content)
        self._store.put_if_absent(commit_path(version), content)
        self.ratify(version, name, content)
        with suppress(StorageError):
            self.publish(keep=1)

    return patch.object(CatalogCommitter, "commit", commit)


def _mark_first() -> AbstractContextManager[object]:
    publish = CatalogCommitter._publish

    def hasty(self: CatalogCommitter, commit: Ratified) -> None:
        self.mark(commit)
        publish(self, commit)

    return patch.object(CatalogCommitter, "_publish", hasty)


def _list_first() -> AbstractContextManager[object]:
    def list_from(self: DeltaLog, version: int) -> LogListing:
        listing = list_log(self.store, version)
        listing.add_tail(self._committer.tail(may_write=True))
        return listing

    return patch.object(DeltaLog, "list_from", list_from)


def _ignore_publication() -> AbstractContextManager[object]:
    add_tail = LogListing.add_tail

    def blind(self: LogListing, tail: CommitTail) -> None:
        add_tail(self, CommitTail(tail.commits))

    return patch.object(LogListing, "add_tail", blind)


def _look_in_the_log_first() -> AbstractContextManager[object]:
    def find(self: CommitBase, log: DeltaLog) -> FileInfo | None:
        names = [log.commit_file(self.version), self.commit_file or ""]
        found = (log.store.stat_many([name])[0] for name in names)
        return next((info for info in found if info is not None), None)

    return patch.object(CommitBase, "_find_commit", find)


CATALOG_BUGS: Sequence[Bug] = (
    Bug("a version ratified twice", _ratify_without_a_condition, "append against append",
        "one winner per version", model="staged"),
    Bug("a commit published before it is ratified", _publish_first, "append against append",
        "only ratified commits are published", model="staged"),
    Bug("a commit marked as published before its file exists", _mark_first, "append against append",
        "items agree with the files", model="staged"),
    Bug("the tail read after the listing", _list_first, "optimize against append", "no false alarm",
        model="staged"),
    Bug("a checkpoint of a version that is not published", _ignore_publication,
        "checkpoint and cleanup against publication", "a checkpoint is of a published version",
        model="staged"),
    Bug("the published name of a commit looked up before the staged one", _look_in_the_log_first,
        "optimize against publication", "no false alarm", model="staged"),
)  # fmt: skip
