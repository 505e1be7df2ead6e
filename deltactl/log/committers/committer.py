"""How a version becomes the next version of a table.

A ``Committer`` decides this, and nothing else. It may also know commits that a listing does not
show. Source: PROTOCOL.md, "Delta Log Entries", "Catalog-managed tables".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from deltactl.errors import LogGapError, ObjectExistsError, SafetyError
from deltactl.protocol.actions import DomainMetadata, Metadata
from deltactl.protocol.actions import Protocol as TableProtocol
from deltactl.protocol.names import commit_file
from deltactl.storage.store import FileInfo, Store


class Permission(StrEnum):
    """A kind of maintenance that a catalog may allow to its clients."""

    REORGANIZE_DATA = "DATA_REORGANIZATION"
    CLEAN_DATA = "DATA_CLEANUP"
    CLEAN_LOG = "METADATA_CLEANUP"


@dataclass(frozen=True, slots=True)
class CommitTail:
    """Commits that are part of the table, whether or not a listing shows them.

    Attributes:
        commits: the files of ratified commits that may not be published, by version, without a gap.
        published_through: the latest version of which all commits are published: their files are
            in the log under their own names. ``None``: all commits are published.
        latest_version: the latest version of the table, whatever a listing shows. ``None``: that
            of the listing.
        known_version: a version that is committed. The table may have later ones. ``None``: none
            is known.
    """

    commits: Mapping[int, FileInfo] = field(default_factory=dict)
    published_through: int | None = None
    latest_version: int | None = None
    known_version: int | None = None


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What a commit changes, for committers that need to know it.

    ``protocol`` and ``metadata`` are ``None`` if the commit has none; ``domains`` are those that
    it sets or removes.
    """

    txn_id: str
    in_commit_timestamp: int | None = None
    protocol: TableProtocol | None = None
    metadata: Metadata | None = None
    domains: tuple[DomainMetadata, ...] = ()


class Committer(Protocol):
    """Decides which commit is the next version. Threads and processes may race."""

    @property
    def fails_for_good(self) -> bool:
        """Return whether an attempt that failed without a commit cannot succeed later.

        ``False`` if a request may arrive late.
        """
        return False

    def tail(self, *, may_write: bool) -> CommitTail:
        """Return the commits that a listing may not show. Call this before a listing.

        If it may write, it may finish commits of other writers that are part of the table already.

        Raises:
            LogGapError: the newest commit was lost.
            StorageError: the commits are unknown.
        """

    def find_newest(self) -> int | None:
        """Return the newest version that is known to be committed; ``None``: only a listing knows.

        Raises:
            StorageError: the versions are unknown.
        """
        return None

    def find_loss(self, version: int) -> LogGapError | None:
        """Return an error if a committed version, which a listing does not show, was lost.

        ``None``: a run that may write can finish it.

        Raises:
            StorageError: this is unknown.
        """
        return None

    def ensure_can_commit(self) -> None:
        """Raise an error if commits to this table are not safe. Fast when called again.

        Raises:
            SafetyError: a commit could be overwritten, or other writers commit in another way.
            StorageError: this is not known.
        """

    def commit(self, version: int, content: bytes, facts: CommitFacts) -> None:
        """Try once to make a commit the given version. The first line of content has the txn id.

        Raises:
            ObjectExistsError: the version exists. It can be this commit, after an earlier attempt:
                read the file back.
            SafetyError: commits are not safe; nothing was changed.
            StorageError: any other error; the outcome is unknown.
        """

    def find(self, version: int) -> str:
        """Return the name of the file that a commit of this version has, if it exists.

        The name changes when the commit is published.

        Raises:
            StorageError: the name is unknown.
        """
        return commit_file(version)


def create_file(store: Store, name: str, data: bytes) -> None:
    """Put a file, unless it exists.

    If the store supports it, the put is conditional, so nothing is overwritten. Otherwise a file
    with the same content may be put again.

    Raises:
        ObjectExistsError: the file exists.
        StorageError: the store failed; it is unknown whether the file exists.
    """
    try:
        store.put_if_absent(name, data)
    except SafetyError:
        if store.stat_many([name]) != [None]:
            raise ObjectExistsError(f"cannot create {name!r}: another file has this name") from None
        store.put(name, data)


def is_commit(store: Store, name: str, content: bytes) -> bool:
    """Return whether a file is the commit with this content: whether its first line is equal.

    Raises:
        StorageError: the file cannot be read.
    """
    first = b"".join(content.partition(b"\n")[:2])  # it has the txn id
    return store.read_ranges(name, [(0, len(first))]) == [first]
