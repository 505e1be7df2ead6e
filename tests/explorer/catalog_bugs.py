"""Seed bugs in the order of ratification, publication, report, tail and listing."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from unittest.mock import patch

from deltactl.catalog.managed import ManagedState, RatifiedCommit
from deltactl.errors import ObjectExistsError
from deltactl.log.committers.catalog_managed import CatalogManaged
from deltactl.log.committers.committer import CommitFacts, CommitTail, create_file
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import LogListing, list_log
from tests.explorer.bug import Bug
from tests.explorer.sim_catalog import staged_path
from tests.support.table_builder import commit_path


def _publish_first() -> AbstractContextManager[object]:
    ask = CatalogManaged._ask

    def hasty(self: CatalogManaged, wanted: RatifiedCommit, facts: CommitFacts) -> None:
        content = self._store.read(staged_path(wanted.file_name))
        with suppress(ObjectExistsError):
            create_file(self._store, commit_path(wanted.version), content)
        ask(self, wanted, facts)

    return patch.object(CatalogManaged, "_ask", hasty)


def _report_first() -> AbstractContextManager[object]:
    publish = CatalogManaged._publish

    def hasty(self: CatalogManaged, state: ManagedState) -> bool:
        self._table.report_published(state.table_uuid, state.commits[-1].version)
        return publish(self, state)

    return patch.object(CatalogManaged, "_publish", hasty)


def _publish_backwards() -> AbstractContextManager[object]:
    copy = CatalogManaged._copy

    def backwards(self: CatalogManaged, commits: Sequence[RatifiedCommit]) -> None:
        copy(self, commits[::-1])

    return patch.object(CatalogManaged, "_copy", backwards)


def _take_own_commit_for_lost() -> AbstractContextManager[object]:
    return patch.object(CatalogManaged, "_has_won", lambda *args: False)


def _trust_the_listing() -> AbstractContextManager[object]:
    return patch.object(CatalogManaged, "find", lambda self, version: commit_path(version))


def _list_first() -> AbstractContextManager[object]:
    def list_once(self: DeltaLog, version: int) -> tuple[LogListing, CommitTail]:
        listing = list_log(self.store, version)
        return listing, self._committer.tail(may_write=True)

    return patch.object(DeltaLog, "_list_once", list_once)


def _ignore_publication() -> AbstractContextManager[object]:
    tail = CatalogManaged.tail

    def blind(self: CatalogManaged, *, may_write: bool) -> CommitTail:
        return replace(tail(self, may_write=may_write), published_through=None)

    return patch.object(CatalogManaged, "tail", blind)


CATALOG_BUGS: Sequence[Bug] = (
    Bug("a commit published before it is ratified", _publish_first, "optimize against append",
        "only ratified commits are published", model="staged"),
    Bug("a report before the publication", _report_first, "optimize against append",
        "a reported commit is published", model="staged"),
    Bug("commits published from the newest on", _publish_backwards,
        "optimize against a writer that never publishes", "commits are published in order",
        model="staged"),
    Bug("the staged file of the winner deleted", _take_own_commit_for_lost,
        "optimize against append", "a listed commit has its staged file", model="staged", faults=1,
        kinds=frozenset({"lie"})),
    Bug("a commit sought where the listing shows it", _trust_the_listing,
        "optimize against append", "no false alarm", model="staged"),
    Bug("the tail read after the listing", _list_first, "append, append and optimize",
        "no false alarm", model="staged"),
    Bug("a checkpoint of a version that is not published", _ignore_publication,
        "checkpoint and cleanup against publication", "a checkpoint is of a published version",
        model="staged", faults=1, kinds=frozenset({"fail"})),
)  # fmt: skip
