"""Write commits: the only place from which a commit reaches the log.

Source: PROTOCOL.md, "Delta Log Entries", "Commit Provenance".
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final, Protocol

from deltactl.clock import Clock
from deltactl.errors import (
    CommitDamagedError,
    ConflictError,
    DeltactlError,
    ObjectNotFoundError,
)
from deltactl.log.committers.committer import CommitFacts
from deltactl.log.committers.settle import Sleep, settle_commit
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.writing.actions import Actions, EncodedCommit, encode_commit
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_base import CommitBase, read_concurrent_commits
from deltactl.log.writing.commit_times import choose_times
from deltactl.storage.store import FileInfo

_MAX_ATTEMPTS: Final = 1000


class Draft(Protocol):
    """A commit that an operation wants to make, whatever other writers commit before it.

    It decides which commits conflict with it, and is in the package of its operation, for example
    ``operations/optimize/conflicts``.
    """

    def prepare(self, base: CommitBase) -> Actions:
        """Return the actions of the commit after a state. Called before each attempt.

        Raises:
            DeltactlError: the state does not allow the commit.
        """

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """Take commits of other writers that were first, and the state after them.

        Raises:
            ConflictError: they do not allow the commit.
        """


@dataclass(slots=True)
class _Attempt:
    commit: EncodedCommit
    facts: CommitFacts


class Transaction:
    """Commits to a table, one after another, each after the commits of other writers.

    ``base`` is the latest state of the table that is known.
    """

    def __init__(
        self,
        log: DeltaLog,
        base: CommitBase,
        *,
        clock: Clock,
        sleep: Sleep,
        files: AddedFiles | None = None,
    ) -> None:
        """Begin before the run writes its first file.

        ``sleep`` waits between attempts; it takes seconds. ``files`` proves that the files that the
        commits add exist; ``None``: a new one.
        """
        self._log, self.base = log, base
        self._clock, self._sleep = clock, sleep
        self._files = files or AddedFiles(log.store, clock, dated_ms=base.dated_ms)

    def commit(self, draft: Draft) -> CommitBase:
        """Commit the next version; return the state after it.

        For each attempt, the commit is prepared and encoded again, because version, row ids,
        in-commit timestamp and id all change.

        Raises:
            ConflictError: other writers' commits do not allow it, or in all attempts, another
                writer was first.
            FilesGoneError: files that the commit would add do not exist, or others that it would
                replace were written again; nothing was committed.
            CommitOutcomeUnknownError: it is not known whether the commit succeeded.
            CommitDamagedError: the commit succeeded, and then it or its files were lost.
            NotATableError: the log was deleted.
            StorageError: the store failed, and the commit does not exist.
        """
        for attempt in range(_MAX_ATTEMPTS):
            prepared = self._prepare_if_readable(draft)
            is_there = prepared is not None and self.base.ensure_table_is_there(self._log)
            if prepared is not None and is_there and self._try(prepared):
                return self.base
            # The first time at once. Later, writers that failed together must not try together.
            if attempt:
                self._sleep(random.uniform(0, min(1.0, 0.01 * 2 ** min(attempt, 7))))
            self.read_concurrent(draft)
        raise ConflictError(
            f"gave up after {_MAX_ATTEMPTS} attempts to commit",
            hint="Rerun when fewer writers are active.",
        )

    def create(self, actions: Actions) -> bool:
        """Commit version 0; return ``False`` if another writer created the table.

        Raises:
            FilesGoneError: files of the table do not exist; nothing was committed.
            SafetyError: row ids cannot be assigned.
            CommitOutcomeUnknownError: it is not known whether the commit succeeded.
            CommitDamagedError: the commit succeeded, and then it or its files were lost.
            StorageError: the store failed, and no commit exists.
        """
        return self._try(self._encode(actions, self._clock.new_id()))

    def read_concurrent(self, draft: Draft) -> None:
        """Read the commits of other writers since ``base``, and base the next commit on them.

        Raises:
            ConflictError: the draft does not allow them, a log cleanup removed some of them, or
                another table replaced this one.
            DeltactlError: the table does not exist any more; see ``CommitBase.ensure_same_table``.
        """
        self.base, concurrent = read_concurrent_commits(self._log, self.base)
        self._files.rebase(concurrent)
        draft.rebase(self.base, concurrent)

    def _prepare_if_readable(self, draft: Draft) -> _Attempt | None:
        """Return the next attempt; ``None`` if a log cleanup deleted commits that it needs."""
        txn_id = self._clock.new_id()
        try:
            return self._encode(draft.prepare(self.base), txn_id)
        except ObjectNotFoundError:
            if self.base.ensure_table_is_there(self._log):
                raise
            return None

    def _encode(self, actions: Actions, txn_id: str) -> _Attempt:
        base, enables = self.base, actions.enables_timestamps
        times = choose_times(base, self._log, self._clock, actions.metadata, enables=enables)
        actions = actions.dated(self.base, times)
        info = actions.description.commit_info(
            times, self._log.commit_options, read_version=actions.read_version, txn_id=txn_id
        )
        commit = encode_commit(self.base, actions, info)
        timestamp = times.get("inCommitTimestamp")
        facts = CommitFacts(txn_id, timestamp, actions.protocol, actions.metadata, commit.domains)
        return _Attempt(commit, facts)

    def _try(self, attempt: _Attempt) -> bool:
        """Let the committer decide; return whether the version is the commit of this run."""
        commit, version = attempt.commit, attempt.commit.after.version
        committer = self._log.ensure_committer()
        # Again for each attempt: another writer may have enabled catalogManaged meanwhile (ADR 31).
        self._log.ensure_decides(commit.after.protocol, commit.after.metadata)
        keys = commit.after.metadata.partition_keys
        # As late as possible: until the commit names these files, a vacuum may delete them.
        self._files.ensure_present(self._log.commit_file(version), commit.content, keys)
        store, sleep = self._log.store, self._sleep
        try:
            name = settle_commit(
                store, committer, version, commit.content, attempt.facts, sleep=sleep
            )
        except ObjectNotFoundError:  # the directory of the log
            self.base.ensure_table_is_there(self._log)
            raise
        except CommitDamagedError:
            self._ensure_not_lost(version)
            raise
        if name is None:
            return False
        self._files.ensure_still_present(version, self.base.metadata)
        self.base = replace(commit.after, commit_file=FileInfo(name, len(commit.content), 0))
        # The listing does not have this commit.
        self._log.update()
        return True

    def _ensure_not_lost(self, version: int) -> None:
        """Look, after the commit was not found, whether the whole table is gone.

        Raises:
            CommitDamagedError: the table was moved, deleted or replaced after the commit.
        """
        if self.base.version < 0:
            return
        try:
            self.base.ensure_same_table(self._log)
        except DeltactlError as lost:
            raise CommitDamagedError(
                f"version {version} of {self._log.uri} was committed, but then the table was "
                f"moved, deleted or replaced: {lost.message}",
                hint="Look for the table. If it was moved, it has this version: run "
                "`deltactl check TABLE` at its new address. deltactl kept the new files.",
            ) from lost
