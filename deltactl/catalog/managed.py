"""What a catalog does for a catalog-managed table: it ratifies commits.

Source: PROTOCOL.md, "Catalog-managed tables".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deltactl.errors import TransientStorageError
from deltactl.protocol.actions import DomainMetadata


@dataclass(frozen=True, slots=True)
class RatifiedCommit:
    """A commit that the catalog has accepted, or is asked to accept.

    ``file_name`` is that of a file in ``_delta_log/_staged_commits``. ``timestamp_ms`` is the
    in-commit timestamp.
    """

    version: int
    file_name: str
    size_bytes: int
    modified_ms: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ManagedState:
    """What the catalog knows of a table at one moment.

    Attributes:
        table_uuid: the id in the catalog.
        latest_version: of the table. Commits with higher versions are not part of it.
        commits: the ratified commits of which the catalog does not know that they are published,
            in ascending order.
        allowed: the kinds of maintenance that clients may do, by the names of the catalog.
        is_uniform: whether each commit must be converted to another format too.
    """

    table_uuid: str
    latest_version: int
    commits: tuple[RatifiedCommit, ...] = ()
    allowed: frozenset[str] = frozenset()
    is_uniform: bool = False


class BacklogFullError(TransientStorageError):
    """The catalog accepts no commit until earlier ones are published; it did not accept this one.

    A catalog that has too many requests gives the same answer.
    """

    had_no_effect = True


class ManagedTable(Protocol):
    """One catalog-managed table. Threads share it."""

    @property
    def catalog(self) -> str:
        """Return what messages call the catalog."""

    def load(self) -> ManagedState:
        """Return what the catalog knows now.

        Raises:
            NotATableError: the catalog does not have the table any more.
            AccessDeniedError, StorageError: the catalog refuses, or cannot be reached.
        """

    def add_commit(
        self, table_uuid: str, commit: RatifiedCommit, domains: Sequence[DomainMetadata]
    ) -> None:
        """Ask once to ratify a commit, with the domain metadata that it sets.

        Raises:
            ObjectExistsError: the version is taken, perhaps by an earlier request for this commit.
            SafetyError: the name belongs to another table now.
            BacklogFullError: earlier commits must be published first.
            AccessDeniedError: the catalog refuses.
            StorageError: any other error; the outcome is unknown.
        """

    def report_published(self, table_uuid: str, version: int) -> None:
        """Tell the catalog that all commits up to a version are published, durably.

        Raises:
            SafetyError, StorageError: as for ``add_commit``.
        """
