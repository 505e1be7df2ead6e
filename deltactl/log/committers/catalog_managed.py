"""Commit through a catalog: a commit is part of the table when the catalog has ratified it.

A commit has these steps:

1. The content is written to a staged file. A commit that is tried again has the same file.
2. The catalog ratifies the file as the next version, or refuses it. If the answer is lost, the name
   that the catalog gives for the version decides.
3. The commit is published: the file is copied into the log, unless it is there.
4. The catalog is told so. It then forgets the staged file, so the copy must be durable before.

Any run that may write does the last two steps for all commits that lack them, in order of version.
Staged files of ratified commits are deleted by the log cleanup only. A writer deletes its own
staged file only if the catalog names another one for the version.

Source: PROTOCOL.md, "Catalog-managed tables".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from deltactl.catalog.managed import (
    BacklogFullError,
    ManagedState,
    ManagedTable,
    RatifiedCommit,
)
from deltactl.errors import (
    CorruptLogError,
    NotATableError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    Warn,
)
from deltactl.log.committers.committer import (
    CommitFacts,
    CommitTail,
    Committer,
    Permission,
    create_file,
    is_commit,
)
from deltactl.protocol.names import (
    LOG_DIR,
    STAGED_COMMITS_DIR,
    commit_file,
    commit_name,
    commit_version,
)
from deltactl.storage.store import FileInfo, Store

STAGED: Final = f"{LOG_DIR}/{STAGED_COMMITS_DIR}"


class CatalogManaged(Committer):
    """The catalog ratifies commits."""

    def __init__(self, store: Store, table: ManagedTable, warn: Warn) -> None:
        """Commit to ``store``; send no request yet."""
        self._store, self._table, self._warn = store, table, warn
        self._known: ManagedState | None = None  # the last answer

    def load(self) -> ManagedState:
        """Ask the catalog for the table that it had first.

        Raises:
            NotATableError: the catalog does not have the table.
            StorageError: the catalog cannot be reached, or refuses, or no longer has the table.
        """
        try:
            state = self._table.load()
        except NotATableError as error:
            if self._known is None:
                raise
            raise self._no_longer() from error
        if self._known is not None and self._known.table_uuid != state.table_uuid:
            raise self._no_longer()
        for commit in state.commits:  # the name becomes part of an address
            if commit_version(staged_file(commit).name) != commit.version:
                raise StorageError(
                    f"{self._table.catalog} names {commit.file_name!r} as the commit of version "
                    f"{commit.version} of {self._store.uri}, which does not name a staged commit"
                )
        self._known = state
        return state

    def _no_longer(self) -> StorageError:
        # The table can come back, with a commit of this run: the outcome of that is unknown.
        return StorageError(
            f"{self._store.uri} is no longer the table of this name in {self._table.catalog}",
            hint="Rerun: the table was dropped during this run.",
        )

    def tail(self, *, may_write: bool) -> CommitTail:
        """Return the commits that the catalog names; publish them if this may write."""
        state = self.load()
        through = state.commits[0].version - 1 if state.commits else None
        if may_write and state.commits and self._publish(state):
            through = None
        commits = {commit.version: staged_file(commit) for commit in state.commits}
        return CommitTail(commits, through, state.latest_version)

    @property
    def allowed(self) -> frozenset[str]:
        """Return the maintenance that the catalog allowed when it was asked last.

        Raises:
            StorageError: the catalog cannot be reached, or refuses.
        """
        return (self._known or self.load()).allowed

    def ensure_can_commit(self) -> None:
        """Raise an error if each commit must be converted to another format.

        Raises:
            UnsupportedFeatureError: it must.
            StorageError: the catalog cannot be reached, or refuses.
        """
        if (self._known or self.load()).is_uniform:
            raise self.uniform_error()

    def uniform_error(self) -> UnsupportedFeatureError:
        """Return the error for a table of which each commit must be converted."""
        return UnsupportedFeatureError(
            f"cannot commit to {self._store.uri}: delta.universalFormat.enabledFormats is set, so "
            "each commit must be converted to that format too",
            hint="Use an engine that converts, or unset the property. Nothing was committed.",
        )

    def unratified_error(self, latest: int, newest: int) -> SafetyError:
        """Return the error for a log with versions after the latest one of the catalog."""
        first = latest + 1
        versions = f"version {newest}" if newest == first else f"versions {first} to {newest}"
        return SafetyError(
            f"the log of {self._store.uri} has {versions}, but the latest version that "
            f"{self._table.catalog} knows is {latest}: it was probably restored from an older "
            "state, or another catalog owns the table",
            hint="Restore a newer state of the catalog, or use the catalog that owns the table. To "
            f"give {versions} up instead, move their files and _last_checkpoint out of {LOG_DIR}.",
        )

    def ensure_allowed(self, permission: Permission | None) -> None:
        """Raise an error if the catalog does not allow a kind of maintenance.

        ``None``: a kind that no catalog can allow.

        Raises:
            UnsupportedFeatureError: it does not.
            StorageError: the catalog cannot be reached, or refuses.
        """
        if permission is None:
            raise UnsupportedFeatureError(
                f"{self._store.uri} is a catalogManaged table: only {self._table.catalog} and "
                "engines that it trusts may do this",
                hint="Use such an engine. Nothing was changed.",
            )
        if permission not in self.allowed:
            raise UnsupportedFeatureError(
                f"{self._table.catalog} does not allow this for {self._store.uri}: {permission} is "
                "not in its allowed-maintenance-operations for the table",
                hint="Ask an administrator of the catalog to allow it, or let the catalog do it. "
                "--dry-run works without. Nothing was changed.",
            )

    def commit(self, version: int, content: bytes, facts: CommitFacts) -> None:
        """Stage a commit, let the catalog ratify it, and publish it; see ``Committer.commit``."""
        if facts.in_commit_timestamp is None:
            raise SafetyError(
                f"cannot commit to {self._store.uri}: the table has no in-commit timestamps, which "
                "tables with catalogManaged must have",
                hint="Let the catalog repair the table. Nothing was committed.",
            )
        name = f"{STAGED}/{commit_name(version).removesuffix('.json')}.{facts.txn_id}.json"
        # Not put-if-absent: the name has the id of this attempt, so nobody else writes the file,
        # and to put it again changes nothing (ADR 31).
        self._store.put(name, content)
        [info, published] = self._store.stat_many([name, commit_file(version)])
        if info is None:
            raise ObjectNotFoundError(f"{name} was deleted right after it was written")
        if published is not None and (latest := self.load().latest_version) < version:
            raise self.unratified_error(latest, version)
        wanted = RatifiedCommit(
            version,
            name.rpartition("/")[2],
            info.size_bytes,
            info.modified_ms,
            facts.in_commit_timestamp,
        )
        try:
            self._ask(wanted, facts)
        except StorageError as error:
            state = self.load()
            won = self._has_won(wanted, content, state)
            is_named = any(commit.version == version for commit in state.commits)
            if won is False and is_named and isinstance(error, ObjectExistsError):
                self._store.delete_many([name])  # a version has one file, so this is never ratified
            if not won:
                raise
        else:
            # It names all commits that are not published, also those of other writers.
            state = self.load()
        if state.commits:
            self._publish(state)

    def find(self, version: int) -> str:
        """Return the name that the catalog gives; that of the published file if it gives none."""
        # Ask again: the commit may have been published since the last answer.
        for commit in self.load().commits:
            if commit.version == version:
                return staged_file(commit).name
        return commit_file(version)

    def _ask(self, wanted: RatifiedCommit, facts: CommitFacts) -> None:
        """Ask the catalog to ratify; if the backlog is full, publish it and ask again."""
        uuid = (self._known or self.load()).table_uuid
        try:
            self._table.add_commit(uuid, wanted, facts.domains)
        except BacklogFullError:
            state = self.load()
            if not state.commits or not self._publish(state):
                raise
            self._table.add_commit(uuid, wanted, facts.domains)

    def _has_won(self, wanted: RatifiedCommit, content: bytes, state: ManagedState) -> bool | None:
        """Return whether the catalog ratified this commit; ``None`` if this is not known.

        Raises:
            StorageError: the published file cannot be read.
        """
        for commit in state.commits:
            if commit.version == wanted.version:
                return commit.file_name == wanted.file_name
        # The request may still arrive.
        if wanted.version > state.latest_version:
            return None
        return is_commit(self._store, commit_file(wanted.version), content)

    def _publish(self, state: ManagedState) -> bool:
        """Publish the commits of a state, and report it; return whether all are published.

        Nothing depends on this: the next run that may write does what is left.
        """
        try:
            self._copy(state.commits)
        except (StorageError, CorruptLogError) as error:
            self._warn(f"commits of {self._store.uri} were not published: {error.message}")
            return False
        with suppress(StorageError, SafetyError):
            self._table.report_published(state.table_uuid, state.commits[-1].version)
        return True

    def _copy(self, commits: Sequence[RatifiedCommit]) -> None:
        """Create the published files of commits, in order, durably.

        Raises:
            CorruptLogError: a published file differs from the commit that the catalog ratified.
            StorageError: a file cannot be read or created.
        """
        targets = [commit_file(commit.version) for commit in commits]
        for commit, target, found in zip(
            commits, targets, self._store.stat_many(targets), strict=True
        ):
            try:
                content = self._store.read(staged_file(commit).name)
            except ObjectNotFoundError:  # another writer published it, and removed it?
                [now] = self._store.stat_many([target])
                if now is None or now.size_bytes != commit.size_bytes:
                    raise
                continue
            if found is None:
                with suppress(ObjectExistsError):
                    create_file(self._store, target, content)
                    continue
            if self._store.read(target) != content:
                raise CorruptLogError(
                    f"{target} differs from {commit.file_name}, which the catalog ratified",
                    hint="Run `deltactl check TABLE`.",
                )
        # Before the catalog is told: it then forgets the staged files, the only other copies.
        self._store.sync_directories(targets)


def staged_file(commit: RatifiedCommit) -> FileInfo:
    """Return the staged file of a commit."""
    return FileInfo(f"{STAGED}/{commit.file_name}", commit.size_bytes, commit.modified_ms)
