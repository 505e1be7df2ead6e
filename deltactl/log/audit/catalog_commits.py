"""Compare the commits that a catalog ratified with the files of the log.

Source: PROTOCOL.md, "Catalog-managed tables".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from deltactl.catalog.managed import ManagedState
from deltactl.log.committers.catalog_managed import STAGED, CatalogManaged, staged_file
from deltactl.log.listing import list_log
from deltactl.protocol.names import commit_version
from deltactl.storage.store import FileInfo, Store
from deltactl.units import DAY_MS, format_count, format_size, format_timestamp

_MANY: Final = 8
"""Unpublished commits; Unity Catalog accepts ten."""


class CatalogProblem(NamedTuple):
    """A problem of the commits of a catalog; ``version`` and ``file`` are the first of several.

    ``wrong`` commits of the log are not those that it ratified. Many ratified ones are ``waiting``
    to be published. Staged ones are ``lost`` if they were never ratified.
    """

    kind: Literal["wrong", "waiting", "lost"]
    text: str
    version: int
    file: str


def compare_commits(store: Store, managed: CatalogManaged, now_ms: int) -> list[CatalogProblem]:
    """Compare staged and published commits with what the catalog ratified.

    Raises:
        StorageError: the catalog or the store failed.
    """
    # Before the listing: a commit that is published meanwhile is in both then, not in none.
    state = managed.load()
    published = list_log(store).commits
    if any(version > state.latest_version for version in published):
        state = managed.load()  # perhaps they were ratified since
    lost = [
        info
        for info in _find_lost(store, state, published)
        if info.modified_ms < now_ms - DAY_MS  # the catalog may be deciding a younger one
    ]
    return [
        *_find_wrong(store, state, published),
        *_describe_waiting(state, published),
        *_sum_up(lost),
    ]


def _find_wrong(
    store: Store, state: ManagedState, published: Mapping[int, FileInfo]
) -> Iterator[CatalogProblem]:
    for version in sorted(published):
        if version > state.latest_version:
            text = f"the catalog did not ratify it: its latest version is {state.latest_version}"
            yield CatalogProblem("wrong", text, version, published[version].name)
    # Of earlier ones, the catalog no longer names a file to compare with.
    for commit in state.commits:
        info = published.get(commit.version)
        if info is not None and store.read(info.name) != store.read(staged_file(commit).name):
            text = f"it differs from {commit.file_name}, which the catalog ratified"
            yield CatalogProblem("wrong", text, commit.version, info.name)


def _describe_waiting(
    state: ManagedState, published: Mapping[int, FileInfo]
) -> list[CatalogProblem]:
    waiting = [commit for commit in state.commits if commit.version not in published]
    if len(waiting) < _MANY:
        return []
    text = f"{len(waiting)} ratified commits are not published"
    first = waiting[0]
    return [CatalogProblem("waiting", text, first.version, staged_file(first).name)]


def _sum_up(lost: Sequence[FileInfo]) -> list[CatalogProblem]:
    if not lost:
        return []
    size = format_size(sum(info.size_bytes for info in lost))
    oldest = format_timestamp(min(info.modified_ms for info in lost))
    text = f"{format_count(len(lost), 'staged commit')} ({size}) never ratified, since {oldest}"
    version = commit_version(lost[0].name)
    assert version is not None
    return [CatalogProblem("lost", text, version, lost[0].name)]


def _find_lost(
    store: Store, state: ManagedState, published: Mapping[int, FileInfo]
) -> Iterator[FileInfo]:
    """Yield staged files that are not the commit of their version, as far as this is known."""
    ratified = {commit.version: staged_file(commit).name for commit in state.commits}
    staged: dict[int, list[FileInfo]] = defaultdict(list)
    for info in store.list_from(STAGED):
        if (version := commit_version(info.name)) is not None:
            staged[version].append(info)
    for version, files in staged.items():
        if version > state.latest_version:
            yield from files
        elif version in ratified:
            yield from (info for info in files if info.name != ratified[version])
        elif version in published:
            # A version that is in neither is older than the log: nothing shows its commit.
            yield from _differing(store, files, published[version])


def _differing(store: Store, files: Sequence[FileInfo], kept: FileInfo) -> Iterator[FileInfo]:
    """Yield files with another content. One file of the same size has the same."""
    equal = [info for info in files if info.size_bytes == kept.size_bytes]
    if len(equal) > 1:
        content = store.read(kept.name)
        equal = [info for info in equal if store.read(info.name) == content]
    yield from (info for info in files if info not in equal)
