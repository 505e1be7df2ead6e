"""Commit finished bins in batches, and delete orphaned outputs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.base import Done, Failed
from deltactl.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    DeltactlError,
    explain_foreign,
)
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.rearrange import Committer, Draft, Group
from deltactl.log.writing.run_tags import engine_info, run_tags
from deltactl.operations.optimize.copy_groups import RewriteCounts
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.plan import OptimizePlan, format_predicates
from deltactl.operations.optimize.report import BinFailure, OptimizeReport
from deltactl.operations.optimize.tasks import RewriteResult
from deltactl.operations.run_context import RunContext
from deltactl.protocol.features import ROW_TRACKING, has_feature
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store
from deltactl.units import format_count

_log: Final = logging.getLogger(__name__)

Outcomes = Iterator[Done[RewriteResult] | Failed]


@dataclass(slots=True)
class _Totals:
    """The counts of what has been committed so far."""

    versions: list[int] = field(default_factory=list)
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    rows: int = 0
    vectors: int = 0

    def add(self, version: int, groups: Sequence[Group]) -> None:
        self.versions.append(version)
        self.vectors += count_vectors(groups)
        for group in groups:
            self.files_added += len(group.added)
            self.files_removed += group.removed.num_rows
            self.bytes_added += sum(file.size_bytes for file in group.added)
            self.bytes_removed += _input_bytes(group)
            self.rows += sum(file.num_records for file in group.added)


class OptimizeRun:
    """The state of one run."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: OptimizePlan,
        options: OptimizeOptions,
        bins: Sequence[pa.Table],
        context: RunContext,
        *,
        run_id: str,
        folders: Callable[[], Iterable[str]],
    ) -> None:
        self._snapshot, self._plan, self._options = snapshot, plan, options
        self._bins, self._context = bins, context
        self._run_id, self._folders = run_id, folders
        self._store = snapshot.store
        self._committer = Committer(snapshot, clock=context.clock, sleep=context.sleep)
        self._draft = _build_draft(snapshot, plan, options, context)
        self._batch: list[Group] = []
        self._batch_bytes = 0
        self._batch_started = context.clock.monotonic()
        self._totals = _Totals()
        self._rewritten = RewriteCounts()
        self._failures: list[BinFailure] = []
        self._conflicts: list[BinFailure] = []
        self._errors: list[DeltactlError] = []
        self._committed: set[str] = set()  # outputs
        self._strays: list[str] = []
        self._strays_removed: list[str] = []

    def collect(self, outcomes: Outcomes) -> OptimizeReport:
        """Commit the bins that the engine finishes; return the report.

        Raises:
            ConflictError: other writers took every bin.
            CommitOutcomeUnknownError: the outcome of a commit is unknown; all outputs are kept.
            DeltactlError: nothing was committed; the first failure.
        """
        try:
            for outcome in outcomes:
                if isinstance(outcome, Failed):
                    self._fail(self._bins[outcome.task_id], outcome.error)
                    continue
                removed = self._bins[outcome.task_id]
                _log.debug(
                    "bin %d: %s done", outcome.task_id, format_count(removed.num_rows, "file")
                )
                self._rewritten.add(outcome.result.groups)
                group = Group(removed, outcome.result.outputs)
                self._batch.append(group)
                self._batch_bytes += _input_bytes(group)
                if self._batch_is_due():
                    self._commit_batch()
            self._commit_batch()
        except CommitOutcomeUnknownError:
            raise  # all outputs may be in the log
        except BaseException:
            self._discard(self._batch)
            raise
        if self._context.engine.leaves_strays:
            self._delete_orphans()
        if self._errors and not self._totals.versions:
            raise self._errors[0]
        return self._report(interrupted=self._context.is_cancelled)

    def _batch_is_due(self) -> bool:
        elapsed_ms = (self._context.clock.monotonic() - self._batch_started) * 1000
        return (
            elapsed_ms >= self._options.commit_every_ms
            or self._batch_bytes >= self._options.commit_every_bytes
        )

    def _commit_batch(self) -> None:
        # From here on only `commit` knows whether the batch's outputs are in the log: if
        # anything else ends the run, even an interrupt, they must not be deleted.
        batch, self._batch = self._batch, []
        self._batch_bytes = 0
        self._batch_started = self._context.clock.monotonic()
        if not batch:
            return
        try:
            self._store.sync_folders([file.path for group in batch for file in group.added])
            committed = self._committer.commit(batch, self._draft)
        except CommitOutcomeUnknownError:
            raise
        except DeltactlError as error:
            for group in batch:
                self._lose(group, error)
            return
        bins = format_count(len(batch), "bin")
        _log.info("%s: committed version %d, %s", self._store.uri, committed.version, bins)
        kept = [g for g, keep in zip(batch, committed.kept, strict=True) if keep]
        self._totals.add(committed.version, kept)
        self._committed.update(file.path for group in kept for file in group.added)
        conflict = ConflictError(committed.reason or "another writer committed first")
        for group, keep in zip(batch, committed.kept, strict=True):
            if not keep:
                self._lose(group, conflict)

    def _lose(self, group: Group, error: DeltactlError) -> None:
        """Record a bin that was rewritten but is known not to be in the log; delete its outputs."""
        failure = BinFailure(group.removed.num_rows, _input_bytes(group), error.message)
        (self._conflicts if isinstance(error, ConflictError) else self._failures).append(failure)
        self._errors.append(error)
        self._discard([group])

    def _fail(self, files: pa.Table, raised: Exception) -> None:
        error = explain_foreign(f"rewriting {files.num_rows} files", raised)
        size = int(pc.sum(files["size_bytes"]).as_py() or 0)
        self._failures.append(BinFailure(files.num_rows, size, error.message))
        self._errors.append(error)

    def _discard(self, groups: Sequence[Group]) -> None:
        """Delete outputs that no commit can name."""
        self._remove([file.path for group in groups for file in group.added])

    def _remove(self, names: Sequence[str]) -> None:
        if not names:
            return
        try:
            self._strays += self._store.delete_many(names)
        except DeltactlError:
            self._strays += names  # continue: they are harmless, and are reported

    def _delete_orphans(self) -> None:
        """Delete outputs of failed or repeated attempts; all commit outcomes are known here."""
        known = self._committed.union(self._strays)
        orphans = find_orphaned_outputs(self._store, self._folders(), self._run_id, known)
        self._remove(orphans)
        self._strays_removed = sorted(set(orphans).difference(self._strays))

    def _report(self, *, interrupted: bool) -> OptimizeReport:
        totals = self._totals
        return OptimizeReport(
            plan=self._plan,
            engine=self._context.engine.name,
            engine_reason=self._context.engine.reason,
            versions=tuple(totals.versions),
            files_added=totals.files_added,
            files_removed=totals.files_removed,
            bytes_added=totals.bytes_added,
            bytes_removed=totals.bytes_removed,
            rows_rewritten=totals.rows,
            deletion_vectors_removed=totals.vectors,
            rewritten=self._rewritten,
            failures=tuple(self._failures),
            conflicts=tuple(self._conflicts),
            strays=tuple(self._strays),
            strays_removed=tuple(self._strays_removed),
            interrupted=interrupted,
            run_id=self._run_id,
            options=self._options,
        )


def _input_bytes(group: Group) -> int:
    return int(pc.sum(group.removed["size_bytes"]).as_py() or 0)


def _build_draft(
    snapshot: Snapshot,
    plan: OptimizePlan,
    options: OptimizeOptions,
    context: RunContext,
) -> Draft:
    """Source: Delta's OPTIMIZE and REORG operations; parameters are JSON strings, flags raw."""
    parameters: dict[str, object] = {"predicate": format_predicates(plan)}
    if options.purge:
        parameters["applyPurge"] = True
    else:
        parameters |= {"zOrderBy": "[]", "clusterBy": "[]", "auto": False}
    tracks_rows = (
        has_feature(snapshot.protocol, ROW_TRACKING) and snapshot.properties.row_tracking_enabled
    )
    preserved = {"delta.rowTracking.preserved": "true"} if tracks_rows else {}
    return Draft(
        operation="REORG" if options.purge else "OPTIMIZE",
        parameters=parameters,
        measure=commit_metrics,
        read_version=snapshot.version,
        deletion_timestamp_ms=context.clock.now_ms(),
        engine_info=engine_info(context.engine.name, context.engine.reason),
        tags={**preserved, **run_tags(context.run_id)},
    )


def commit_metrics(groups: Sequence[Group]) -> Mapping[str, str]:
    """Return ``operationMetrics`` of an OPTIMIZE or REORG commit, named as Delta names them."""
    added = sorted(file.size_bytes for group in groups for file in group.added)
    removed_files = sum(group.removed.num_rows for group in groups)
    removed_bytes = sum(pc.sum(group.removed["size_bytes"]).as_py() or 0 for group in groups)

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
        "numDeletionVectorsRemoved": count_vectors(groups),
    }
    return {name: str(value) for name, value in metrics.items()}


def count_vectors(groups: Sequence[Group]) -> int:
    """Return the number of removed files with a deletion vector."""
    return sum(len(group.removed) - group.removed["deletion_vector"].null_count for group in groups)


def find_orphaned_outputs(
    store: Store, folders: Iterable[str], run_id: str, committed: Set[str]
) -> list[str]:
    """Return the sorted names of the files of a run that no commit names.

    Every file that a run writes has ``-<run_id>-`` in its name, and no other file has: those not
    in ``committed`` are in no version of the table. A directory that cannot be listed is returned
    as the pattern of the files that it may contain.
    """
    marker = f"-{run_id}-"

    def find(folder: str) -> list[str]:
        try:
            found = [info.name for info in store.list_from(folder, "part-") if marker in info.name]
        except DeltactlError:
            return [f"{folder}/part-*{marker}*".lstrip("/")]
        return [name for name in found if name not in committed]

    found = each_in_parallel(find, sorted(set(folders)))
    return sorted(name for names in found for name in names)
