"""Commit finished bins in batches, and delete orphaned outputs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import starmap, zip_longest
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.base import Done, Failed, ended
from deltactl.errors import (
    KEEPS_FILES,
    ConflictError,
    DataFileError,
    DeltactlError,
    FilesGoneError,
    InterruptedRunError,
    StorageError,
    TableError,
    explain_foreign,
    find_worst_error,
    name_commits,
)
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description, engine_info, run_tags
from deltactl.log.writing.concurrent_deletes import Bin
from deltactl.operations.file_sizes import FileSizes, count_sizes
from deltactl.operations.optimize.conflicts import explain_conflict
from deltactl.operations.optimize.layout.tags import encode_names
from deltactl.operations.optimize.options import REMOVE_MAPPING, OptimizeOptions
from deltactl.operations.optimize.plan import OptimizePlan
from deltactl.operations.optimize.purged_files import state_of_written
from deltactl.operations.optimize.report import BinFailure, OptimizeReport, Unfinished
from deltactl.operations.optimize.rewrite_commit import (
    BinCommitter,
    Committed,
    count_vectors,
    input_bytes,
)
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.operations.optimize.tasks import RewriteResult
from deltactl.operations.optimize.unreadable_inputs import unreadable_mask
from deltactl.operations.partition_groups import group_partitions
from deltactl.operations.run_context import RunContext
from deltactl.protocol.features import ROW_TRACKING, has_feature
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store
from deltactl.units import format_count

_log: Final = logging.getLogger(__name__)

Outcomes = Iterator[Done[RewriteResult] | Failed]


class OptimizeRun:
    """The state of one run: of its first round, and of the rounds for dropped bins."""

    def __init__(
        self, plan: OptimizePlan, options: OptimizeOptions, context: RunContext, run_id: str
    ) -> None:
        self.options, self._context = options, context
        self.run_id = run_id
        self._batch: list[Bin] = []
        self._batch_bytes = 0
        self._batch_started = context.clock.monotonic()
        self._report = OptimizeReport(
            plan, context.engine.name, context.engine.reason, run_id=run_id, options=options
        )
        self._rewritten = RewriteCounts()
        self._failures: list[BinFailure] = []
        self._dropped: list[BinFailure] = []
        self._left: list[BinFailure] = []
        self._lost: list[pa.Table] = []
        self._readable: list[tuple[pa.Table, DeltactlError]] = []  # of failed bins
        self._unfinished: list[pa.Table] = []
        self._failure: DeltactlError | None = None
        self._conflict: ConflictError | None = None
        self._written: set[str] = set()  # outputs that no attempt of a commit has had
        self._committed: set[str] = set()  # outputs
        self._orphans: list[str] = []
        self._orphans_removed: list[str] = []
        self.num_bins = 0
        self.rounds = 0

    def begin_round(
        self, log: DeltaLog, snapshot: Snapshot, plan: OptimizePlan, bins: Sequence[pa.Table]
    ) -> None:
        """Set the bins of a plan; dropped bins are in it, or need no work."""
        context = self._context
        self._store = snapshot.store
        self._partition_fields = snapshot.metadata.known_partition_fields
        self._bins = bins
        self._committer = BinCommitter(
            log, snapshot, plan.files, clock=context.clock, sleep=context.sleep
        )
        if self.is_whole:
            self._committer.become(state_of_written(snapshot, self.options.purged).metadata)
        self._description = _describe_commits(snapshot, plan, self.options, context)
        self.num_bins += len(bins)
        self.rounds += 1
        self.forget_lost()

    @property
    def is_whole(self) -> bool:
        """Return whether all bins are committed at once, or none."""
        return self.options.purged == "other names"

    @property
    def state(self) -> CommitBase:
        """Return the latest state of the table that is known."""
        return self._committer.state

    @property
    def has_failures(self) -> bool:
        """Return whether files could not be rewritten."""
        return bool(self._failures or self._readable)

    @property
    def lost_names(self) -> pa.ChunkedArray | None:
        """Return the names of the files to plan again; ``None`` if there are none.

        These are the files of dropped bins, and the readable files of failed bins.
        """
        lost = [*self._lost, *(files for files, _ in self._readable)]
        return pa.concat_tables(lost)["path"] if lost else None

    def forget_lost(self) -> None:
        """Count the lost files as planned again, or as without work."""
        self._lost, self._left, self._conflict = [], [], None
        self._readable = []

    def collect(self, outcomes: Outcomes, folders: Iterable[str]) -> None:
        """Commit the bins of a round that the engine finishes; ``folders`` contain their outputs.

        Raises:
            CommitOutcomeUnknownError, CommitDamagedError: all outputs are kept.
            NotATableError, ConflictError, StorageError: see ``fail``.
        """
        waiting = set(range(len(self._bins)))
        try:
            with ended(outcomes):
                for outcome in outcomes:
                    self._receive(outcome, waiting)
            if self.is_whole and (waiting or self._failures):
                self._discard(self._batch)
            else:
                self._commit_batch()
        except KEEPS_FILES as error:  # all outputs may be in the log
            if self._report.versions:
                name_commits(error, self._report.versions)
            raise
        except BaseException as error:
            self._remove(sorted(self._written))
            if isinstance(error, DeltactlError) and self._report.versions:
                name_commits(error, self._report.versions)
            raise
        finally:
            self._orphans += self._committer.orphans
        self._unfinished += [self._bins[number] for number in sorted(waiting)]
        if self._context.engine.leaves_orphans:
            self._delete_orphans(folders)

    def _receive(self, outcome: Done[RewriteResult] | Failed, waiting: set[int]) -> None:
        """Add the outcome of a bin; commit the batch if it is due."""
        if isinstance(outcome, Failed) and isinstance(outcome.error, InterruptedRunError):
            return  # dropped, because the time is up
        waiting.remove(outcome.task_id)
        if isinstance(outcome, Failed):
            self.fail(self._bins[outcome.task_id], outcome.error)
            return
        self._take(self._bins[outcome.task_id], outcome)
        if self._batch_is_due():
            self._commit_batch()

    def _take(self, removed: pa.Table, done: Done[RewriteResult]) -> None:
        """Add a rewritten bin to the batch."""
        _log.debug("bin %d: %s done", done.task_id, format_count(removed.num_rows, "file"))
        result = done.result
        self.note_written(result)
        bin_ = Bin(removed, result.outputs, result.inputs, result.digest)
        self._rewritten.add(result.groups)
        self._batch.append(bin_)
        self._batch_bytes += input_bytes(bin_)

    def note_written(self, result: RewriteResult) -> None:
        """Note the outputs of a task, to delete them if the run is stopped before their commit."""
        self._written.update(file.path for file in result.outputs)

    def finish(self) -> OptimizeReport:
        """Return the report of all rounds, with the error if nothing was committed."""
        error = None if self._report.versions else self._failure or self._conflict
        if isinstance(error, ConflictError) and error.reasons:
            error = explain_conflict([left.reason for left in self._left])
        return replace(
            self._report,
            rewritten=self._rewritten,
            failures=(*self._failures, *starmap(self._describe, self._readable)),
            conflicts=tuple(self._left),
            dropped=tuple(self._dropped),
            rounds=self.rounds,
            strays=tuple(self._orphans),
            strays_removed=tuple(self._orphans_removed),
            interrupted=self._context.is_cancelled,
            unfinished=self._sum_unfinished(),
            error=error,
        )

    def _sum_unfinished(self) -> Unfinished:
        if not self._unfinished:
            return Unfinished()
        files = pa.concat_tables(self._unfinished)
        groups = group_partitions(files["partition_values"], self._partition_fields)
        largest = max(map(sum_sizes, self._unfinished))
        return Unfinished(
            len(self._unfinished),
            files.num_rows,
            sum_sizes(files),
            largest,
            frozenset(groups.labels()),
        )

    def _batch_is_due(self) -> bool:
        if self.is_whole:
            return False
        elapsed_ms = (self._context.clock.monotonic() - self._batch_started) * 1000
        return (
            elapsed_ms >= self.options.commit_every_ms
            or self._batch_bytes >= self.options.commit_every_bytes
        )

    def _commit_batch(self) -> None:
        # From now on only `commit` knows whether the outputs of the batch are in the log: if the
        # run ends for another reason, even an interrupt, they must not be deleted.
        batch, self._batch = self._batch, []
        self._written.difference_update(file.path for bin_ in batch for file in bin_.added)
        self._batch_bytes = 0
        self._batch_started = self._context.clock.monotonic()
        self._commit(batch)

    def _commit(self, batch: Sequence[Bin]) -> None:
        if not batch:
            return
        try:
            self._store.sync_directories([file.path for bin_ in batch for file in bin_.added])
            committed = self._committer.commit(batch, self._description)
        except KEEPS_FILES:
            raise
        except DeltactlError as error:
            names = error.changed if isinstance(error, FilesGoneError) else ()
            changed = pa.array(names, pa.string())
            is_lost = [pc.any(pc.is_in(it.removed["path"], changed)).as_py() for it in batch]
            if self.is_whole or not any(is_lost):
                is_lost = [True] * len(batch)
            reasons = error.reasons if isinstance(error, ConflictError) else ()
            for bin_, reason, lost in zip_longest(batch, reasons, is_lost):
                if lost:
                    self._lose(bin_, error, reason)
            self._commit([it for it, lost in zip(batch, is_lost, strict=True) if not lost])
            return
        bins = format_count(len(batch), "bin")
        _log.info("%s: committed version %d, %s", self._store.uri, committed.version, bins)
        kept = [verdict.bin for verdict in committed.verdicts if verdict.bin is not None]
        self._report = _add_commit(self._report, committed)
        self._committed.update(file.path for bin_ in kept for file in bin_.added)
        for bin_, verdict in zip(batch, committed.verdicts, strict=True):
            if verdict.bin is None:
                self._lose(bin_, explain_conflict([verdict.reason]), verdict.reason)
            else:
                self._discard([bin_])  # an output without a live row

    def _lose(self, bin_: Bin, error: DeltactlError, reason: str | None) -> None:
        """Record a bin that was rewritten but is known not to be in the log; delete its outputs."""
        if isinstance(error, ConflictError) and not isinstance(error, FilesGoneError):
            failure = self._describe(bin_.removed, error, reason)
            self._conflict = self._conflict or error
            self._lost.append(bin_.removed)
            self._left.append(failure)
            self._dropped.append(failure)
        else:
            self._note(bin_.removed, error, reason)
        self._discard([bin_])

    def fail(self, files: pa.Table, raised: Exception) -> None:
        """Record the files of a bin that cannot be rewritten, with the reason.

        If only some of them cannot be read, the others are planned again.

        Raises:
            NotATableError, ConflictError, StorageError: the table was deleted, replaced or moved.
        """
        error = explain_foreign(f"rewriting {files.num_rows} files", raised)
        if isinstance(error, TableError | StorageError):
            self._committer.ensure_same_table()
        if isinstance(error, DataFileError | StorageError) and not self.is_whole:
            unreadable = unreadable_mask(self._store, files, error)
            if unreadable.any() and not unreadable.all():
                self._readable.append((files.filter(pa.array(~unreadable)), error))
                files = files.filter(pa.array(unreadable))
        self._note(files, error)

    def _note(self, files: pa.Table, error: DeltactlError, reason: str | None = None) -> None:
        self._failures.append(self._describe(files, error, reason))
        known = [] if self._failure is None else [self._failure]
        self._failure = find_worst_error([*known, error])

    def _describe(
        self, files: pa.Table, error: DeltactlError, reason: str | None = None
    ) -> BinFailure:
        values = files["partition_values"].slice(0, 1)
        partition = group_partitions(values, self._partition_fields).label(0)
        return BinFailure(
            files.num_rows, sum_sizes(files), reason or error.message, partition, error
        )

    def _discard(self, bins: Sequence[Bin]) -> None:
        """Delete the outputs that are in no commit, and cannot be in one."""
        outputs = (file.path for bin_ in bins for file in bin_.added)
        self._remove([path for path in outputs if path not in self._committed])

    def _remove(self, names: Sequence[str]) -> None:
        if not names:
            return
        try:
            self._orphans += self._store.delete_many(names)
        except DeltactlError:
            self._orphans += names  # continue: they are harmless, and are reported

    def _delete_orphans(self, folders: Iterable[str]) -> None:
        """Delete outputs of failed or repeated attempts; all commit outcomes are known here."""
        known = self._committed.union(self._orphans)
        orphans = find_orphaned_outputs(self._store, folders, self.run_id, known)
        self._remove(orphans)
        self._orphans_removed += sorted(set(orphans).difference(self._orphans))


def _add_commit(report: OptimizeReport, committed: Committed) -> OptimizeReport:
    kept = [(v.bin, v.carried_rows) for v in committed.verdicts if v.bin is not None]
    bins = [bin_ for bin_, _ in kept]
    added = [file for bin_ in bins for file in bin_.added]
    return replace(
        report,
        versions=(*report.versions, committed.version),
        files_added=report.files_added + len(added),
        files_removed=report.files_removed + sum(bin_.removed.num_rows for bin_ in bins),
        bytes_added=report.bytes_added + sum(file.size_bytes for file in added),
        bytes_removed=report.bytes_removed + sum(map(input_bytes, bins)),
        rows_rewritten=report.rows_rewritten + sum(file.num_records for file in added),
        deletion_vectors_removed=report.deletion_vectors_removed + count_vectors(bins),
        carried_bins=report.carried_bins + sum(rows > 0 for _, rows in kept),
        carried_rows=report.carried_rows + sum(rows for _, rows in kept),
        sizes_after=_count_after(report, bins),
    )


def _count_after(report: OptimizeReport, bins: Sequence[Bin]) -> FileSizes:
    before = report.sizes_after or report.plan.sizes_before
    removed = [pc.fill_null(bin_.removed["size_bytes"], 0).to_numpy() for bin_ in bins]
    added = np.array([file.size_bytes for bin_ in bins for file in bin_.added], np.int64)
    return before.replaced(
        count_sizes(np.concatenate([np.empty(0, np.int64), *removed]), before.small),
        count_sizes(added, before.small),
    )


def _describe_commits(
    snapshot: Snapshot, plan: OptimizePlan, options: OptimizeOptions, context: RunContext
) -> Description:
    """Source: Delta's OPTIMIZE and REORG operations; parameters are JSON strings, flags raw."""
    operation = "REORG" if options.purge else "OPTIMIZE"
    parameters: dict[str, object] = {
        "predicate": json.dumps([plan.predicate] if plan.predicate else [], ensure_ascii=False)
    }
    if options.purged == "other names":
        operation, parameters = REMOVE_MAPPING, {}
    elif options.purge:
        parameters["applyPurge"] = True
    else:
        request = None if plan.layout is None else plan.layout.request
        kind = None if request is None else request.kind
        names = "[]" if request is None else encode_names(request.names)
        parameters["zOrderBy"] = names if kind == "zorder" else "[]"
        parameters["clusterBy"] = names if kind == "liquid" else "[]"
        parameters["auto"] = False
        if kind == "liquid":
            parameters["isFull"] = options.full
    tracks_rows = (
        has_feature(snapshot.protocol, ROW_TRACKING) and snapshot.properties.row_tracking_enabled
    )
    preserved = {"delta.rowTracking.preserved": "true"} if tracks_rows else {}
    return Description(
        operation=operation,
        parameters=parameters,
        engine_info=engine_info(context.engine.name, context.engine.reason),
        tags={**preserved, **run_tags(context.run_id)},
        isolation_level="Serializable" if operation == REMOVE_MAPPING else "SnapshotIsolation",
    )


def find_orphaned_outputs(
    store: Store, folders: Iterable[str], run_id: str, committed: Set[str]
) -> list[str]:
    """Return the sorted names of the files of a run that no commit references.

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
