"""Commit rewritten files (dataChange=false), as far as the commits of other writers allow it.

Source: PROTOCOL.md, "Commit Provenance", "Row Tracking"; Delta's conflict rules for commits without
data change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Any, Final

import pyarrow as pa

from deltactl.clock import Clock
from deltactl.errors import KEEPS_FILES, DeltactlError
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.committers.settle import Sleep
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import Actions, as_removes
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.concurrent_deletes import (
    Bin,
    ConcurrentCommits,
    VectorWriter,
    Verdict,
    may_write_vectors,
)
from deltactl.log.writing.transaction import Transaction
from deltactl.operations.optimize.conflicts import (
    ensure_same_files,
    explain_conflict,
    find_conflict,
    iceberg_rules,
)
from deltactl.operations.row_proofs import DIGEST_TAG, encode_proof
from deltactl.parquet.digest import RowDigest
from deltactl.parquet.open_files import load_deletion_vector
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import REMOVE_SCHEMA, STRING_MAP
from deltactl.protocol.features import Operation, ensure_supported, list_features
from deltactl.protocol.paths import encode_path
from deltactl.protocol.properties import TableProperties

COMPACTED_INTO: Final = "compactedInto"
COMPACTION_INFO: Final = "compactionInfo"


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that succeeded: its version, and for each bin what was committed."""

    version: int
    verdicts: tuple[Verdict, ...]


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
        self._log, self._store, self._clock = log, log.store, clock
        base = CommitBase.of(snapshot)
        self._transaction = Transaction(log, base, clock=clock, sleep=sleep)
        self._origin, self._metadata = snapshot, snapshot.metadata
        self._concurrent = ConcurrentCommits(files)
        self.after: Metadata | None = None
        self.orphans: list[str] = []
        """Deletion vector files of failed attempts that could not be removed."""

    def become(self, metadata: Metadata) -> None:
        """Commit other metadata with the bins: no file of another writer may have the old names."""
        self.after = metadata

    @property
    def read_version(self) -> int:
        """Return the version from which the bins are written."""
        return self._origin.version

    @property
    def state(self) -> CommitBase:
        """Return the latest state of the table that is known."""
        return self._transaction.base

    def ensure_same_table(self) -> None:
        """Check, after a bin failed, that the table is still there; see ``CommitBase``."""
        self.state.ensure_same_table(self._log)

    def commit(self, bins: Sequence[Bin], description: Description) -> Committed:
        """Commit the bins that the commits of other writers still allow.

        Raises:
            ConflictError: no bin may be committed (with a reason for each), or in all attempts
                another writer was first.
            FilesGoneError: outputs do not exist any more, or inputs were written again; nothing was
                committed.
            CommitOutcomeUnknownError: it is not known whether the commit succeeded.
            CommitDamagedError: the commit succeeded, and then it or its files were lost.
            NotATableError: the log was deleted.
            UnsupportedFeatureError: another writer upgraded to a protocol that deltactl does not
                support.
            StorageError: the store failed, and the commit does not exist.
        """
        vectors = VectorWriter(self._store, self._clock)
        draft = _RewriteCommit(bins, description, self, vectors)
        try:
            after = self._transaction.commit(draft)
        except KEEPS_FILES:
            raise  # a commit in the log may reference the vectors
        except DeltactlError:
            self.orphans += vectors.discard()
            raise
        self.orphans += vectors.discard(file for bin_ in draft.chosen for file in bin_.added)
        return Committed(after.version, tuple(draft.verdicts))

    def judge(self, base: CommitBase, bins: Sequence[Bin]) -> Sequence[Verdict]:
        """Return what may be committed of each bin after the commits of other writers.

        Raises:
            ConflictError: nothing; it has the reason for each bin.
            UnsupportedFeatureError: the protocol was upgraded.
        """
        # Check this before each attempt: another writer may have upgraded the protocol since the
        # last batch.
        ensure_supported(base.protocol, base.metadata, Operation.REWRITE)
        gained = list_features(base.protocol) - list_features(self._origin.protocol)
        reason = find_conflict(self._origin.metadata, self._metadata, gained)
        if iceberg_rules(base) != iceberg_rules(self._origin):
            reason = "another writer changed the Iceberg compatibility"
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
        """Take commits of other writers.

        Raises:
            ConflictError: they changed files or metadata, which the new metadata does not allow.
        """
        if self.after is not None:
            ensure_same_files(concurrent)
        self._metadata = concurrent.non_file_actions.metadata or self._metadata
        self._concurrent.rebase(concurrent)


@dataclass(slots=True)
class _RewriteCommit:
    """The commit of a batch of bins; ``verdicts`` are those of the latest attempt."""

    bins: Sequence[Bin]
    description: Description
    committer: BinCommitter
    vectors: VectorWriter
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def chosen(self) -> list[Bin]:
        """Return the bins, or parts of bins, that are committed."""
        return [verdict.bin for verdict in self.verdicts if verdict.bin is not None]

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        verdicts = self.committer.judge(base, self.bins)
        self.verdicts = [_attach(verdict, self.vectors, base) for verdict in verdicts]
        bins, described = self.chosen, self.description
        is_tagged = may_write_vectors(base.protocol, base.metadata)
        removed = [_tag_removes(bin_) if is_tagged else bin_.removed for bin_ in bins]
        tombstones = [as_removes(files) for files in removed]
        return Actions(
            description=replace(
                described,
                metrics=_commit_metrics(bins),
                tags={**described.tags, **_digest_tags(bins)},
            ),
            read_version=self.committer.read_version,
            metadata=self.committer.after,
            added=[file for bin_ in bins for file in bin_.added],
            adds_rows=False,
            removed=pa.concat_tables([REMOVE_SCHEMA.empty_table(), *tombstones]),
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        self.committer.rebase(concurrent)


def _digest_tags(bins: Sequence[Bin]) -> Mapping[str, str]:
    """Return the tag with the row digest of a layout commit."""
    digests = [bin_.digest for bin_ in bins if bin_.digest is not None]
    if not digests:
        return {}
    return {DIGEST_TAG: encode_proof(reduce(add, digests, RowDigest()))}


def _commit_metrics(bins: Sequence[Bin]) -> Mapping[str, str]:
    """Return ``operationMetrics`` of an OPTIMIZE or REORG commit, with the names of Delta."""
    added = sorted(file.size_bytes for bin_ in bins for file in bin_.added)
    removed_files = sum(bin_.removed.num_rows for bin_ in bins)
    removed_bytes = sum(map(input_bytes, bins))

    def quantile(share: float) -> int:
        return added[min(int(len(added) * share), len(added) - 1)] if added else 0

    metrics = {
        "numAddedFiles": len(added),
        "numRemovedFiles": removed_files,
        "numAddedBytes": sum(added),
        "numRemovedBytes": removed_bytes,
        "minFileSize": quantile(0),
        "p25FileSize": quantile(0.25),
        "p50FileSize": quantile(0.5),
        "p75FileSize": quantile(0.75),
        "maxFileSize": quantile(1),
        "numDeletionVectorsRemoved": count_vectors(bins),
    }
    carried = sum(file.deletion_vector is not None for bin_ in bins for file in bin_.added)
    if carried:  # of other writers; named as in Delta's DELETE
        metrics["numDeletionVectorsAdded"] = carried
    return {name: str(value) for name, value in metrics.items()}


def input_bytes(bin_: Bin) -> int:
    """Return the bytes of the files that a bin removes."""
    return sum_sizes(bin_.removed)


def count_vectors(bins: Sequence[Bin]) -> int:
    """Return the number of removed files with a deletion vector."""
    return sum(len(bin_.removed) - bin_.removed["deletion_vector"].null_count for bin_ in bins)


def _attach(verdict: Verdict, vectors: VectorWriter, base: CommitBase) -> Verdict:
    """If a verdict has deleted rows, write the deletion vector for the output of its bin."""
    bin_, deleted = verdict.bin, verdict.deleted
    if bin_ is None or deleted is None:
        return verdict
    (output,) = bin_.added
    output = vectors.attach(output, deleted, TableProperties(base.metadata.configuration))
    return replace(verdict, bin=replace(bin_, added=(output,)))


def _tag_removes(bin_: Bin) -> pa.Table:
    """Return the files that a bin removes, with tags that show where its rows are in the output.

    If a commit of deltactl was first, another writer can apply its own deletion again to the output
    of deltactl. The deletion vector of the same ``remove`` contains the rows that were deleted
    before. Source: delta-io/delta#7407; Databricks writes the same tags.

    A file gets no tags if they would not be exact. This is so if no output keeps the order of rows,
    or if the ``remove`` has another deletion vector than the one that was read.
    """
    tags = [None if own is None else _others(own) for own in bin_.removed["tags"].to_pylist()]
    if bin_.inputs is not None and len(bin_.added) == 1:
        target = json.dumps([encode_path(bin_.added[0].path)], ensure_ascii=False)
        tags = [
            own if first is None else [*(own or ()), *_ours(target, first, physical)]
            for own, first, physical in zip(
                tags,
                bin_.inputs["first_row"].to_pylist(),
                bin_.inputs["physical_rows"].to_pylist(),
                strict=True,
            )
        ]
    index = bin_.removed.schema.get_field_index("tags")
    return bin_.removed.set_column(index, "tags", pa.array(tags, STRING_MAP))


def _others(tags: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in tags if key not in (COMPACTED_INTO, COMPACTION_INFO)]


def _ours(target: str, first_row: int, physical_rows: int) -> list[tuple[str, str]]:
    run = {"rowOffsetInTarget": first_row, "sourceNumPhysicalRecords": physical_rows}
    info = json.dumps([run], separators=(",", ":"))
    return [(COMPACTED_INTO, target), (COMPACTION_INFO, info)]
