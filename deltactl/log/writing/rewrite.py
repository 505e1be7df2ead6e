"""Commit rewritten files (dataChange=false) in the put-if-absent loop.

After every failed put, the version is read back and its ``txnId`` is compared. Source: PROTOCOL.md,
"Commit Provenance", "In-Commit Timestamps", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import (
    KEEPS_FILES,
    ConflictError,
    DeltactlError,
    join_reasons,
)
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.action_lines import add_line, domain_line, line, remove_lines
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_attempts import CommitBase, win_version
from deltactl.log.writing.commit_info import Description, commit_info
from deltactl.log.writing.compaction_tags import tag_removes
from deltactl.log.writing.concurrent_deletes import Bin, Verdict, Winners
from deltactl.log.writing.conflicts import find_conflict
from deltactl.log.writing.put import Sleep
from deltactl.log.writing.row_ids import RowIds
from deltactl.log.writing.vectors import VectorWriter, may_write_vectors
from deltactl.parquet.open_files import load_deletion_vector
from deltactl.protocol.actions import DomainMetadata, Metadata
from deltactl.protocol.features import Operation, ensure_supported, list_features
from deltactl.protocol.properties import TableProperties


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(Description):
    """The parts of a commit that are the same in all attempts.

    ``measure`` returns the metrics of the committed bins. ``prove`` returns more tags, about the
    rows of the committed bins.
    """

    measure: Callable[[Sequence[Bin]], Mapping[str, str]]
    prove: Callable[[Sequence[Bin]], Mapping[str, str]] = lambda bins: {}  # noqa: E731
    read_version: int
    deletion_timestamp_ms: int
    isolation_level: str = "SnapshotIsolation"


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that succeeded: its version, and for each bin what was committed."""

    version: int
    verdicts: tuple[Verdict, ...]

    @property
    def kept(self) -> tuple[bool, ...]:
        """Return, for each bin, whether it was committed."""
        return tuple(verdict.bin is not None for verdict in self.verdicts)


class Committer:
    """Commit batches of bins, one after another, after the commits of other writers.

    All bins were written from one snapshot. Each bin is compared with every commit of other writers
    since then, also after earlier batches of the same run. If other writers deleted rows from
    inputs, and deletion vectors may be written to the table, these rows are also deleted from the
    outputs.
    """

    def __init__(self, snapshot: Snapshot, files: pa.Table, *, clock: Clock, sleep: Sleep) -> None:
        """Begin before the bins are written.

        Take the snapshot from which they are written, and ``files``, which they remove.
        """
        self._store, self._clock, self._sleep = snapshot.store, clock, sleep
        self._origin = snapshot.metadata
        self._origin_features = list_features(snapshot.protocol)
        self._base = CommitBase.of(snapshot)
        self._winners = Winners(files)
        self._added_files = AddedFiles(snapshot.store, clock)
        self._metadata: Metadata | None = None
        self.orphans: list[str] = []
        """Deletion vector files of failed attempts that could not be removed."""

    @property
    def state(self) -> CommitBase:
        """Return the latest state of the table that is known."""
        return self._base

    def commit(self, bins: Sequence[Bin], draft: Draft) -> Committed:
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
        try:
            committed = self._commit(bins, draft, vectors)
        except KEEPS_FILES:
            raise  # a commit in the log may reference the vectors
        except DeltactlError:
            self.orphans += vectors.discard()
            raise
        chosen = [verdict.bin for verdict in committed.verdicts if verdict.bin is not None]
        self.orphans += vectors.discard(file for bin_ in chosen for file in bin_.added)
        return committed

    def _commit(self, bins: Sequence[Bin], draft: Draft, vectors: VectorWriter) -> Committed:
        verdicts: list[Verdict] = []
        domains = self._base.domains

        def encode(base: CommitBase, txn_id: str) -> bytes:
            nonlocal verdicts, domains
            verdicts = [_attach(v, vectors, base) for v in self._judge(base, bins)]
            chosen = [verdict.bin for verdict in verdicts if verdict.bin is not None]
            info = commit_info(
                base.times(self._store, self._clock),
                replace(draft, tags={**draft.tags, **draft.prove(chosen)}),
                read_version=draft.read_version,
                txn_id=txn_id,
                metrics=draft.measure(chosen),
            )
            content, domains = _encode(base, chosen, info, draft.deletion_timestamp_ms)
            return content

        won = win_version(
            self._store,
            self._base,
            encode,
            learn=self._learn,
            clock=self._clock,
            sleep=self._sleep,
            files=self._added_files,
        )
        self._base = replace(won, domains=domains)
        return Committed(won.version, tuple(verdicts))

    def _judge(self, base: CommitBase, bins: Sequence[Bin]) -> Sequence[Verdict]:
        # Check this before each attempt: another writer may have upgraded the protocol since the
        # last batch.
        ensure_supported(base.protocol, base.metadata, Operation.REWRITE)
        gained = list_features(base.protocol) - self._origin_features
        reason = find_conflict(self._origin, self._metadata, gained)
        if reason is not None:
            raise explain_conflict([reason] * len(bins))
        verdicts = self._winners.judge(
            bins,
            partial(load_deletion_vector, self._store),
            may_write_vectors=may_write_vectors(base.protocol, base.metadata),
        )
        if all(verdict.bin is None for verdict in verdicts):
            raise explain_conflict([verdict.reason for verdict in verdicts])
        return verdicts

    def _learn(self, base: CommitBase, winners: Tail) -> None:
        self._base = base
        self._metadata = winners.non_file_actions.metadata or self._metadata
        self._winners.learn(winners)


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


def _encode(
    base: CommitBase,
    bins: Sequence[Bin],
    info: Mapping[str, Any],
    deletion_timestamp_ms: int,
) -> tuple[bytes, Mapping[str, DomainMetadata]]:
    """Return the content of the next version's commit, and the domains after this commit."""
    lines = [line("commitInfo", info)]
    row_ids = RowIds.of(base)
    is_tagged = may_write_vectors(base.protocol, base.metadata)
    for bin_ in bins:
        for file in bin_.added:
            ids = None if row_ids is None else (row_ids.take(file.num_records), base.version + 1)
            lines.append(add_line(file, ids))
        removed = tag_removes(bin_) if is_tagged else bin_.removed
        lines += remove_lines(removed, deletion_timestamp_ms)
    domains = dict(base.domains)
    if row_ids is not None and row_ids.grew:
        domain = row_ids.domain()
        domains[domain.domain] = domain
        lines.append(domain_line(domain))
    return ("\n".join(lines) + "\n").encode(), domains
