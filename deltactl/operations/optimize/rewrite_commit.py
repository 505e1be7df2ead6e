"""Commit rewritten files (dataChange=false), as far as the commits of other writers allow it.

Source: PROTOCOL.md, "Commit Provenance", "Row Tracking"; Delta's conflict rules for commits without
data change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import KEEPS_FILES, ConflictError, DeltactlError, join_reasons
from deltactl.log.committers.settle import Sleep
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.action_lines import as_removes
from deltactl.log.writing.actions import Actions
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.compaction_tags import tag_removes
from deltactl.log.writing.concurrent_deletes import Bin, ConcurrentCommits, Verdict
from deltactl.log.writing.conflicts import find_conflict
from deltactl.log.writing.transaction import Transaction
from deltactl.log.writing.vectors import VectorWriter, may_write_vectors
from deltactl.parquet.open_files import load_deletion_vector
from deltactl.protocol.arrow_schemas import REMOVE_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported, list_features
from deltactl.protocol.properties import TableProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDescription(Description):
    """The parts of a commit that are the same in all attempts.

    ``measure`` returns the metrics of the committed bins. ``prove`` returns more tags, about the
    rows of the committed bins.
    """

    measure: Callable[[Sequence[Bin]], Mapping[str, str]]
    prove: Callable[[Sequence[Bin]], Mapping[str, str]] = lambda bins: {}  # noqa: E731
    read_version: int
    isolation_level: str = "SnapshotIsolation"

    def of(self, bins: Sequence[Bin]) -> Description:
        """Return the description of a commit of some bins."""
        return Description(
            operation=self.operation,
            parameters=self.parameters,
            engine_info=self.engine_info,
            metrics=self.measure(bins),
            tags={**self.tags, **self.prove(bins)},
            isolation_level=self.isolation_level,
        )


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that succeeded: its version, and for each bin what was committed."""

    version: int
    verdicts: tuple[Verdict, ...]

    @property
    def kept(self) -> tuple[bool, ...]:
        """Return, for each bin, whether it was committed."""
        return tuple(verdict.bin is not None for verdict in self.verdicts)


class BinCommitter:
    """Commit batches of bins, one after another, after the commits of other writers.

    All bins were written from one snapshot. Each bin is compared with every commit of other writers
    since then, also after earlier batches of the same run. If other writers deleted rows from
    inputs, and deletion vectors may be written to the table, these rows are also deleted from the
    outputs.
    """

    def __init__(
        self, log: DeltaLog, snapshot: Snapshot, files: pa.Table, *, clock: Clock, sleep: Sleep
    ) -> None:
        """Begin before the bins are written.

        Take the snapshot from which they are written, and ``files``, which they remove.
        """
        self._store, self._clock = log.store, clock
        base = CommitBase.of(snapshot)
        self._transaction = Transaction(log, base, clock=clock, sleep=sleep)
        self._rule = RewriteRule(snapshot, files)
        self.orphans: list[str] = []
        """Deletion vector files of failed attempts that could not be removed."""

    @property
    def state(self) -> CommitBase:
        """Return the latest state of the table that is known."""
        return self._transaction.base

    def commit(self, bins: Sequence[Bin], description: RewriteDescription) -> Committed:
        """Commit the bins that the commits of other writers still allow.

        Raises:
            ConflictError: no bin may be committed (with a reason for each), or in all attempts
                another writer was first.
            FilesGoneError: outputs do not exist any more; nothing was committed.
            CommitOutcomeUnknownError: it is not known whether the commit succeeded.
            CommitDamagedError: the commit succeeded, and then it or its files were lost.
            NotATableError: the log was deleted.
            UnsupportedFeatureError: another writer upgraded to a protocol that deltactl does not
                support.
            StorageError: the store failed, and the commit does not exist.
        """
        vectors = VectorWriter(self._store, self._clock)
        draft = RewriteCommit(bins, description, self._rule, vectors)
        try:
            after = self._transaction.commit(draft)
        except KEEPS_FILES:
            raise  # a commit in the log may reference the vectors
        except DeltactlError:
            self.orphans += vectors.discard()
            raise
        self.orphans += vectors.discard(file for bin_ in draft.chosen for file in bin_.added)
        return Committed(after.version, tuple(draft.verdicts))


class RewriteRule:
    """Decides which bins may be committed after the commits of other writers."""

    def __init__(self, snapshot: Snapshot, files: pa.Table) -> None:
        """Take the snapshot from which the bins are written, and the files that they remove."""
        self._store, self._origin = snapshot.store, snapshot.metadata
        self._origin_features = list_features(snapshot.protocol)
        self._concurrent = ConcurrentCommits(files)
        self._metadata = snapshot.metadata

    def judge(self, base: CommitBase, bins: Sequence[Bin]) -> Sequence[Verdict]:
        """Return what may be committed of each bin.

        Raises:
            ConflictError: nothing; it has the reason for each bin.
            UnsupportedFeatureError: the protocol was upgraded.
        """
        # Check this before each attempt: another writer may have upgraded the protocol since the
        # last batch.
        ensure_supported(base.protocol, base.metadata, Operation.REWRITE)
        gained = list_features(base.protocol) - self._origin_features
        reason = find_conflict(self._origin, self._metadata, gained)
        if reason is not None:
            raise explain_conflict([reason] * len(bins))
        verdicts = self._concurrent.judge(
            bins,
            partial(load_deletion_vector, self._store),
            may_write_vectors=may_write_vectors(base.protocol, base.metadata),
        )
        if all(verdict.bin is None for verdict in verdicts):
            raise explain_conflict([verdict.reason for verdict in verdicts])
        return verdicts

    def rebase(self, concurrent: Tail) -> None:
        """Take commits of other writers."""
        self._metadata = concurrent.non_file_actions.metadata or self._metadata
        self._concurrent.rebase(concurrent)


class RewriteCommit:
    """The commit of a batch of bins; ``verdicts`` are those of the latest attempt."""

    def __init__(
        self,
        bins: Sequence[Bin],
        description: RewriteDescription,
        rule: RewriteRule,
        vectors: VectorWriter,
    ) -> None:
        self._bins, self._description = bins, description
        self._rule, self._vectors = rule, vectors
        self.verdicts: list[Verdict] = []

    @property
    def chosen(self) -> list[Bin]:
        """Return the bins, or parts of bins, that are committed."""
        return [verdict.bin for verdict in self.verdicts if verdict.bin is not None]

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        verdicts = self._rule.judge(base, self._bins)
        self.verdicts = [_attach(verdict, self._vectors, base) for verdict in verdicts]
        bins, described = self.chosen, self._description
        is_tagged = may_write_vectors(base.protocol, base.metadata)
        removed = [tag_removes(bin_) if is_tagged else bin_.removed for bin_ in bins]
        tombstones = [as_removes(files) for files in removed]
        return Actions(
            description=described.of(bins),
            read_version=described.read_version,
            added=[file for bin_ in bins for file in bin_.added],
            adds_rows=False,
            removed=pa.concat_tables([REMOVE_SCHEMA.empty_table(), *tombstones]),
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        self._rule.rebase(concurrent)


def explain_conflict(reasons: Sequence[str]) -> ConflictError:
    """Return the error for bins that may not be committed; ``reasons`` has one for each bin."""
    return ConflictError(
        f"nothing could be committed: {join_reasons(reasons)}",
        hint="Rerun. This run changed nothing in the table.",
        reasons=reasons,
    )


def _attach(verdict: Verdict, vectors: VectorWriter, base: CommitBase) -> Verdict:
    """If a verdict has deleted rows, write the deletion vector for the output of its bin."""
    bin_, deleted = verdict.bin, verdict.deleted
    if bin_ is None or deleted is None:
        return verdict
    (output,) = bin_.added
    output = vectors.attach(output, deleted, TableProperties(base.metadata.configuration))
    return replace(verdict, bin=replace(bin_, added=(output,)))
