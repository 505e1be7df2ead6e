"""``Table``: the Python interface to one Delta table."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from deltactl.errors import (
    DeltactlError,
    PartialSuccessError,
    UsageError,
    Warn,
    name_table,
    naming_table,
)
from deltactl.keywords import build_options
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.scan import scan_snapshot
from deltactl.protocol.column_names import Columns
from deltactl.storage.names import is_local_uri, is_table_name
from deltactl.storage.open import canonical_uri, open_store
from deltactl.storage.store import Store
from deltactl.units import to_timestamp_ms
from deltactl.value_types import ensure_type, to_int

if TYPE_CHECKING:
    from types import FrameType
    from typing import Unpack

    import pyarrow as pa

    from deltactl.commit_options import CommitOptions
    from deltactl.engine.base import CancelToken, Engine, OnProgress
    from deltactl.keyword_types import (
        AlterKeywords,
        CheckKeywords,
        CheckpointKeywords,
        CloneKeywords,
        FixKeywords,
        HistoryKeywords,
        ManifestKeywords,
        OptimizeKeywords,
        RestoreKeywords,
        StorageKeywords,
        VacuumKeywords,
    )
    from deltactl.operations.alter.options import AlterOptions
    from deltactl.operations.alter.report import AlterReport
    from deltactl.operations.check.fixes.options import FixOptions
    from deltactl.operations.check.fixes.report import Confirm, FixReport
    from deltactl.operations.check.options import CheckOptions
    from deltactl.operations.check.report import CheckReport
    from deltactl.operations.checkpoint.options import CheckpointOptions
    from deltactl.operations.checkpoint.repair import RepairReport
    from deltactl.operations.checkpoint.report import CheckpointReport
    from deltactl.operations.clone.options import CloneOptions
    from deltactl.operations.clone.report import CloneReport
    from deltactl.operations.detail import DetailReport
    from deltactl.operations.erased.report import ErasedReport
    from deltactl.operations.history.diff import VersionDiff
    from deltactl.operations.history.restorable import Restorable
    from deltactl.operations.manifest.options import ManifestOptions
    from deltactl.operations.manifest.report import ManifestReport
    from deltactl.operations.optimize.options import OptimizeOptions
    from deltactl.operations.optimize.report import OptimizeReport
    from deltactl.operations.restore.options import RestoreOptions
    from deltactl.operations.restore.report import RestoreReport
    from deltactl.operations.run_context import RunContext
    from deltactl.operations.storage.options import StorageOptions
    from deltactl.operations.storage.report import StorageReport
    from deltactl.operations.vacuum.options import VacuumOptions
    from deltactl.operations.vacuum.purge import PurgeReport
    from deltactl.operations.vacuum.report import VacuumReport
    from deltactl.operations.vacuum.undo import UndoReport
    from deltactl.storage.log_store import DynamoDbLogStore

R = TypeVar("R")


class TableWarning(UserWarning):
    """A problem of a table that does not stop a run, such as an invalid _last_checkpoint."""


def issue_warning(message: str) -> None:
    """Warn as Python does, with ``TableWarning``, at the line that called deltactl."""
    level, frame = 1, sys._getframe()
    while frame.f_back and _is_inside(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, TableWarning, stacklevel=level)


def _is_inside(frame: FrameType) -> bool:
    """Return whether a frame is of deltactl, or of a context manager that deltactl enters."""
    name = str(frame.f_globals.get("__name__"))
    if name == "contextlib" and frame.f_back is not None:
        return _is_inside(frame.f_back)
    return name.startswith("deltactl.")


def _finish(uri: str, report: R, error: DeltactlError | None) -> R:
    """Return the report of a run; raise its error, unless all that is left needs only a rerun."""
    if error is None or isinstance(error, PartialSuccessError):
        return report
    error.report = report
    error.hint = error.hint and name_table(error.hint, uri)
    raise error


class Table:
    """A Delta table at a URI. The constructor reads no files; each method reads the log again."""

    def __init__(
        self,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        store: Store | None = None,
        log_store: DynamoDbLogStore | None = None,
        commit: CommitOptions | None = None,
        warn: Warn | None = None,
    ) -> None:
        """Set the address of a table and how to access it.

        Args:
            uri: a local path, ``file:`` URI or object store URI.
            storage_options: settings for the file system; never shown or logged.
            store: use this store instead of opening ``uri``.
            log_store: the DynamoDB table in which all writers of a table on S3 agree on commits;
                ``None``: conditional puts on S3.
            commit: what to add to the commitInfo of each commit.
            warn: receives warnings, which do not stop a run; ``None``: a ``TableWarning`` each.
        """
        ensure_type("uri", uri, str | os.PathLike)
        ensure_type("storage_options", storage_options, Mapping[str, str] | None)
        address = os.fspath(uri)
        self._name = address if store is None and is_table_name(address) else None
        shown = self._name or (canonical_uri(address) if store is None else store.uri)
        self._warn = warn or naming_table(issue_warning, shown)
        self._storage_options = dict(storage_options or {})
        self._commit = commit
        self._open = partial(DeltaLog.open, address, storage_options, log_store, warn=self._warn)
        self._given = partial(
            type(self), store=store, log_store=log_store, commit=commit, warn=warn
        )
        if self._name is None:
            self._log = self._open() if store is None else DeltaLog(store, self._warn)
            self._log.storage_options = self._storage_options
            self._process = os.getpid()

    def _log_for(self, dry_run: bool, *, published_only: bool = False) -> DeltaLog:
        """Return a log of its own for a call: threads may share a table.

        For a dry run, and for reading, it is read-only and finishes no incomplete commit. A name is
        looked up for each call.
        """
        ensure_type("dry_run", dry_run, bool)
        if self._name is not None:
            log = self._open(read_only=dry_run, published_only=published_only)
        else:
            if self._process != os.getpid():
                # A forked process must not share its parent's connections. A copy has its own.
                self._log, self._process = copy(self)._log, os.getpid()
            # A local store notes whether its directory was there: for one call, not for all.
            opened = copy(self)._log if is_local_uri(self._log.uri) else self._log
            log = opened.read_only() if dry_run else opened.unread()
            log.published_only = published_only
        log.commit_options = self._commit or log.commit_options
        return log

    def _begin(
        self,
        dry_run: bool,
        engine: Engine | None = None,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        *,
        published_only: bool = False,
    ) -> tuple[DeltaLog, RunContext]:
        """Return log and context of a run."""
        from deltactl.operations.run_context import RunContext

        log = self._log_for(dry_run, published_only=published_only)
        return log, RunContext.of(self._warn, engine, log.storage_options, cancel, on_progress)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the address and the storage options, which may be secret."""
        return self._given, (self._name or self._log.uri, self._storage_options)

    def __repr__(self) -> str:
        """Return the address; the storage options may be secret."""
        return f"Table({self._name or self.uri!r})"

    @property
    def uri(self) -> str:
        """Return the table's root as an absolute URI; a name is looked up."""
        return self._log_for(dry_run=True, published_only=True).uri

    def snapshot(
        self,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        *,
        published_only: bool = False,
    ) -> Snapshot:
        """Return the table at a version, at a timestamp (UTC, without a zone), or the latest.

        As in Spark, a timestamp after the latest commit is an error.

        With ``published_only``, a catalogManaged table can be read without its catalog.

        Raises:
            DeltactlError: the table or version does not exist, or the log is not valid.
        """
        version = to_int(version, int | None)
        ensure_type("version", version, int | None)
        ensure_type("timestamp", timestamp, datetime | str | None)
        if version is not None and timestamp is not None:
            raise UsageError("give a version or a timestamp, not both")
        log = self._log_for(dry_run=True, published_only=published_only)
        if timestamp is not None:
            log.ensure_exists()
            version = log.version_at(log.snapshot().metadata, to_timestamp_ms(timestamp))
        return log.snapshot(version)

    def history(self, **keywords: Unpack[HistoryKeywords]) -> pa.Table:
        """Return commits, newest first: Delta's columns, then three more.

        The three are the other keys of commitInfo, ``reconstructible`` and ``problem``. Also reads
        invalid logs: a missing or invalid commit is a row with a ``problem``.

        Args:
            keywords: the commits: ``limit`` (older ones are not read), ``since`` and ``until``
                (times), ``first_version`` and ``last_version``, and ``operations`` (names).

        Raises:
            DeltactlError: the table does not exist, or the store failed.
        """
        from dataclasses import asdict

        from deltactl.log.history.read import Selection
        from deltactl.operations.history.run import HistoryOptions, load_history

        options = HistoryOptions(**asdict(build_options(Selection, None, keywords)))
        log = self._log_for(dry_run=True, published_only=True)
        return load_history(log, options).table()

    def blame(self, partition: str, **keywords: Unpack[HistoryKeywords]) -> pa.Table:
        """Return the commits that changed files of a partition, with the columns of `history`.

        Args:
            partition: ``"day=2024-01-31"``, or a condition on partition columns.
            keywords: the commits to search, as for `history`.

        Raises:
            DeltactlError: the table does not exist, has no such partition column, or the store
                failed.
        """
        from deltactl.log.history.columns import history_table
        from deltactl.log.history.read import Selection
        from deltactl.operations.history.blame import blame_partition

        ensure_type("partition", partition, str)
        log, context = self._begin(dry_run=True, published_only=True)
        selection = build_options(Selection, None, keywords)
        return history_table(
            blame_partition(log, partition, selection, context.clock.now_ms()).rows
        )

    def restorable(self) -> Mapping[int, Restorable]:
        """Return for each version in the log whether its files still exist.

        Lists all files of the table. Versions of which this is unknown are left out, with a
        warning.

        Raises:
            DeltactlError: the table does not exist, or the store failed.
        """
        from deltactl.operations.history.restorable import find_restorable

        log = self._log_for(dry_run=True, published_only=True)
        log.ensure_newest(or_warn=True)
        return find_restorable(log)

    def diff(self, first: int, last: int | None = None) -> VersionDiff:
        """Compare two versions: files, columns, properties and features.

        Args:
            first: the version before.
            last: the version after; ``None``: the latest.

        Raises:
            DeltactlError: a version does not exist, or the log is not valid.
        """
        from deltactl.operations.history.diff import diff_versions

        first, last = to_int(first, int), to_int(last, int | None)
        ensure_type("first", first, int)
        ensure_type("last", last, int | None)
        return diff_versions(self._log_for(dry_run=True), first, last)

    def detail(
        self, version: int | None = None, *, layout: bool = False, readers: bool = False
    ) -> DetailReport:
        """Describe the table; ``row`` of the report has the columns of ``DESCRIBE DETAIL``.

        Args:
            version: the version to describe; ``None``: the latest.
            layout: also estimate the share of files that a lookup by a clustering column skips.
            readers: also judge which engines can read the table.

        Raises:
            DeltactlError: the table or version does not exist, the log is not valid, or the
                table has no clustering columns.
        """
        from deltactl.operations.detail import load_detail

        version = to_int(version, int | None)
        ensure_type("version", version, int | None)
        log = self._log_for(dry_run=True, published_only=True)
        if not layout:
            return load_detail(log, version, readers=readers)
        from deltactl.operations.optimize.layout.expect import survey_layout

        return load_detail(log, version, survey=survey_layout, readers=readers)

    def storage(
        self,
        options: StorageOptions | None = None,
        **keywords: Unpack[StorageKeywords],
    ) -> StorageReport:
        """Report what all files in the table's directory are for, and what they cost.

        What is removable is what a dry run of a full vacuum finds.

        Args:
            options: the price, and an inventory instead of a listing.
            keywords: those of ``StorageKeywords``, instead of those of ``options``.

        Raises:
            DeltactlError: the table does not exist, a vacuum would be refused, or the store
                failed.
        """
        from deltactl.operations.storage.options import StorageOptions
        from deltactl.operations.storage.run import survey_storage

        log, context = self._begin(dry_run=True)
        return survey_storage(log, build_options(StorageOptions, options, keywords), context)

    def scan(
        self,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        columns: str | Sequence[str] | None = None,
        *,
        published_only: bool = False,
    ) -> pa.RecordBatchReader:
        """Stream the live logical rows, partition columns included.

        Args:
            version: the version to read; ``None``: the latest, or that of ``timestamp``.
            timestamp: read the version that was the latest at this time (UTC, without a zone); as
                in Spark, a time after the latest commit is an error.
            columns: top-level columns to read, in this order; ``None``: all, in schema order.
            published_only: read a catalogManaged table without its catalog, as far as its commits
                are published.

        Raises:
            UnsupportedFeatureError: the table has a reader feature that deltactl does not support.
            DataFileError: while reading: a data file or deletion vector is missing or not valid.
        """
        ensure_type("columns", columns, Columns | None)
        snapshot = self.snapshot(version, timestamp, published_only=published_only)
        return scan_snapshot(snapshot, columns)

    def optimize(
        self,
        options: OptimizeOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[OptimizeKeywords],
    ) -> OptimizeReport:
        """Merge small files and rewrite files with many deleted rows.

        ``engine`` is ``LocalEngine()``, the default, or ``SparkEngine(session)`` with your classic
        or Spark Connect session, which is neither changed nor stopped.

        Once ``cancel`` is set, no bin starts, and ``report.interrupted`` is true.

        The keywords are those of ``OptimizeKeywords``; they replace fields of ``options``.

        Raises:
            DeltactlError: a safety rule refused the run, other writers took all bins, or files
                could not be rewritten. If others were, the error has the report.
        """
        from deltactl.operations.optimize.options import OptimizeOptions
        from deltactl.operations.optimize.run import optimize_table

        log, context = self._begin(dry_run, engine, cancel, on_progress)
        report = optimize_table(
            log, build_options(OptimizeOptions, options, keywords), context, dry_run=dry_run
        )
        return _finish(log.uri, report, report.find_error())

    def vacuum(
        self,
        options: VacuumOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[VacuumKeywords],
    ) -> VacuumReport:
        """Remove files that no version inside the retention needs.

        Does not ask for confirmation.

        The keywords are those of ``VacuumKeywords``; they replace fields of ``options``.

        Raises:
            InterruptedRunError: ``cancel`` was set before a file was removed. Later,
                ``report.interrupted`` is true.
            DeltactlError: a safety rule refused the run, or files could not be removed, or are
                lost. If it began, the error has the report.
        """
        from deltactl.operations.vacuum.lost import find_vacuum_error
        from deltactl.operations.vacuum.options import VacuumOptions
        from deltactl.operations.vacuum.run import vacuum_table

        log, context = self._begin(dry_run, engine, cancel, on_progress)
        report = vacuum_table(
            log, build_options(VacuumOptions, options, keywords), context, dry_run=dry_run
        )
        return _finish(log.uri, report, find_vacuum_error(report, log.uri))

    def undo_vacuum(self, run_id: str = "last", *, dry_run: bool = False) -> UndoReport:
        """Restore the files that a vacuum removed; an existing file is never replaced.

        Files come from the quarantine, or from older versions that the object store has. Later
        vacuums keep them until the retention has passed again.

        Args:
            run_id: the id of the vacuum in its report; ``last``: the newest with files to restore.
            dry_run: return the files that can be restored; write nothing.

        Raises:
            DeltactlError: there is no such vacuum, or the store failed. If files cannot be
                restored, the error has the report.
        """
        from deltactl.operations.vacuum.undo import undo_vacuum

        ensure_type("run_id", run_id, str)
        log = self._log_for(dry_run)
        report = undo_vacuum(log.store, run_id, dry_run=dry_run)
        return _finish(log.uri, report, None if dry_run else report.find_error())

    def purge_quarantine(
        self, *, force_retention: bool = False, dry_run: bool = False
    ) -> PurgeReport:
        """Delete the files whose time in quarantine has ended.

        Does not ask for confirmation.

        Args:
            force_retention: trust the clock of this machine, also if nothing proves its time.
            dry_run: return what would be deleted; delete nothing.

        Raises:
            DeltactlError: the table does not exist, or the store failed. If files are kept because
                something needs them, or were not deleted, the error has the report.
        """
        from deltactl.operations.vacuum.purge import purge_quarantine

        ensure_type("force_retention", force_retention, bool)
        log, context = self._begin(dry_run)
        report = purge_quarantine(log, context, force_retention=force_retention, dry_run=dry_run)
        return _finish(log.uri, report, None if dry_run else report.find_error(log.uri))

    def checkpoint(
        self,
        options: CheckpointOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[CheckpointKeywords],
    ) -> CheckpointReport:
        """Write a checkpoint, verify it, and update ``_last_checkpoint``.

        The keywords are those of ``CheckpointKeywords``; they replace fields of ``options``.

        Raises:
            InterruptedRunError: ``cancel`` was set before the checkpoint was written. Later,
                ``report.interrupted`` is true.
            DeltactlError: a safety rule refused the run, the checkpoint that was written
                differs from the snapshot, or log files were not deleted.
        """
        from deltactl.operations.checkpoint.options import CheckpointOptions
        from deltactl.operations.checkpoint.run import checkpoint_table

        log, context = self._begin(dry_run, engine, cancel, on_progress)
        report = checkpoint_table(
            log, build_options(CheckpointOptions, options, keywords), context, dry_run=dry_run
        )
        return _finish(log.uri, report, report.find_error())

    def repair_checkpoints(
        self,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> RepairReport:
        """Check all checkpoints and ``_last_checkpoint``; rewrite those with wrong content.

        Raises:
            InterruptedRunError: ``cancel`` was set before a checkpoint was written.
            DeltactlError: the latest version cannot be rebuilt, the store failed, or problems are
                left. In the last case, the error has the report.
        """
        from deltactl.operations.checkpoint.repair import repair_checkpoints

        log, context = self._begin(dry_run, engine, cancel, on_progress)
        report = repair_checkpoints(log, context, dry_run=dry_run)
        return _finish(log.uri, report, report.find_error())

    def check(
        self,
        options: CheckOptions | None = None,
        *,
        engine: Engine | None = None,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[CheckKeywords],
    ) -> CheckReport:
        """Check whether log, files and statistics agree. Writes nothing.

        ``report.findings`` has a row for each problem; a problem raises no error.

        The keywords are those of ``CheckKeywords``; they replace fields of ``options``.

        Raises:
            InterruptedRunError: ``cancel`` was set.
            DeltactlError: the table or version does not exist, or the store failed.
        """
        from deltactl.operations.check.options import CheckOptions
        from deltactl.operations.check.run import check_table

        log, context = self._begin(True, engine, cancel, on_progress, published_only=True)
        return check_table(log, build_options(CheckOptions, options, keywords), context)

    def check_erased(
        self,
        predicate: str,
        *,
        versions: bool = False,
        redact: bool = False,
        engine: Engine | None = None,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> ErasedReport:
        """Search everything that is still stored for values that match a predicate.

        ``report.places`` has each place with such values; none raises an error. Writes nothing.

        Args:
            predicate: a condition on columns of any schema in the log.
            versions: also search old object versions.
            redact: leave the predicate out of the report.
            engine: where the data files are read.
            cancel: stops the search.
            on_progress: is called when tasks end.

        Raises:
            InterruptedRunError: ``cancel`` was set.
            DeltactlError: the table does not exist or cannot be read, or the predicate is invalid.
        """
        from deltactl.operations.erased.run import search_erased

        ensure_type("predicate", predicate, str)
        ensure_type("versions", versions, bool)
        ensure_type("redact", redact, bool)
        log, context = self._begin(True, engine, cancel, on_progress)
        return search_erased(log, predicate, context, versions=versions, redact=redact)

    def restore(
        self,
        options: RestoreOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[RestoreKeywords],
    ) -> RestoreReport:
        """Restore the table to an earlier ``version`` or ``timestamp``, as a new version.

        Does not ask for confirmation. The keywords are those of ``RestoreKeywords``; they
        replace fields of ``options``.

        Raises:
            InterruptedRunError: ``cancel`` was set before the commit.
            CommitDamagedError: a vacuum deleted files during the run; the error has the report.
            DeltactlError: a safety rule refused the run, another writer changed the table, or the
                store failed.
        """
        from deltactl.operations.restore.options import RestoreOptions
        from deltactl.operations.restore.run import restore_table

        log, context = self._begin(dry_run, engine, cancel, on_progress)
        report = restore_table(
            log, build_options(RestoreOptions, options, keywords), context, dry_run=dry_run
        )
        return _finish(log.uri, report, report.find_error(log.uri))

    def alter(
        self,
        options: AlterOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[AlterKeywords],
    ) -> AlterReport:
        """Set and remove properties of the table, add and drop features of its protocol.

        Does not ask for confirmation. The keywords are those of ``AlterKeywords``; they replace
        fields of ``options``.

        Raises:
            InterruptedRunError: ``cancel`` was set before the last commit.
            DeltactlError: a property or feature is not possible, another writer changed the table,
                or the store failed.
        """
        from deltactl.operations.alter.options import AlterOptions
        from deltactl.operations.alter.run import alter_table

        log, context = self._begin(dry_run, engine, cancel, on_progress)
        report = alter_table(
            log, build_options(AlterOptions, options, keywords), context, dry_run=dry_run
        )
        return _finish(log.uri, report, report.error)

    def clone(
        self,
        target: str | os.PathLike[str] | Table,
        options: CloneOptions | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[CloneKeywords],
    ) -> CloneReport:
        """Create a clone of this table: with copies of its files, or with ``deep=False`` without.

        Args:
            target: the address of the new table; a ``Table`` has its own storage options.
            options: the options of the clone; ``None``: those of a deep clone.
            storage_options: settings for the target's file system; ``None``: those of this table.
            engine: where the files are copied.
            dry_run: return the plan as a report; write nothing.
            cancel: stops the run, if its commit was not written yet.
            on_progress: called whenever a task ends.
            keywords: those of ``CloneKeywords``, instead of those of ``options``. ``deep=False``
                makes a shallow clone.

        Raises:
            InterruptedRunError: ``cancel`` was set before the commit.
            CommitDamagedError: a vacuum deleted files during the run; the error has the report.
            DeltactlError: a safety rule refused the run, a file is missing, or a store failed.
        """
        from deltactl.operations.clone.options import CloneOptions
        from deltactl.operations.clone.run import clone_table

        if "shallow" in keywords:
            raise TypeError("unexpected keyword argument 'shallow'. Did you mean deep=False?")
        by_default = CloneOptions(deep=True) if options is None else options
        options = build_options(CloneOptions, by_default, keywords)
        if not isinstance(target, Table):
            chosen = self._storage_options if storage_options is None else storage_options
            target = Table(target, chosen, warn=self._warn)
        source = self._log_for(
            dry_run=dry_run or options.deep or not options.note,
            published_only=options.published_only,
        )
        log, context = target._begin(dry_run, engine, cancel, on_progress)
        report = clone_table(source, log, options, context, dry_run=dry_run)
        return _finish(log.uri, report, report.find_error())

    def fix(
        self,
        options: FixOptions | None = None,
        *,
        confirm: Confirm | None = None,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[FixKeywords],
    ) -> FixReport:
        """Repair findings of :meth:`check` of one kind.

        Args:
            options: what to repair, and how.
            confirm: called before the first change, to allow or refuse it.
            engine: where files are looked up, and where a checkpoint is written.
            dry_run: return the plan as a report; write nothing.
            cancel: stops the run, if its commit was not written yet.
            on_progress: called whenever a task ends.
            keywords: those of ``FixKeywords``, instead of those of ``options``.

        Raises:
            InterruptedRunError: ``cancel`` was set before the last commit.
            DeltactlError: a safety rule refused the run, another writer changed the files, or the
                store failed.
        """
        from deltactl.operations.check.fixes.options import FixOptions
        from deltactl.operations.check.fixes.run import fix_table

        chosen = build_options(FixOptions, options, keywords)
        log, context = self._begin(dry_run, engine, cancel, on_progress)
        report = fix_table(log, chosen, context, confirm=confirm, dry_run=dry_run)
        return _finish(log.uri, report, report.error)

    def generate_manifest(
        self,
        options: ManifestOptions | None = None,
        *,
        output_root: str | None = None,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
        **keywords: Unpack[ManifestKeywords],
    ) -> ManifestReport:
        """Update the symlink manifests to match the table.

        Args:
            options: the partitions to include, and the form of file addresses.
            output_root: the directory for ``_symlink_format_manifest``; ``None``: the table
                directory.
            engine: where files with deleted rows are rewritten (``purge_first``).
            dry_run: compare the manifests with the table; write nothing.
            cancel: stops the run.
            on_progress: called whenever a task ends.
            keywords: those of ``ManifestKeywords``, instead of those of ``options``.

        Raises:
            InterruptedRunError: ``cancel`` was set; each manifest is old or new.
            DeltactlError: the table cannot have manifests (deletion vectors, column mapping), or
                the store failed.
        """
        from deltactl.operations.manifest.options import ManifestOptions
        from deltactl.operations.purge_first import generate_after_purge

        ensure_type("output_root", output_root, str | None)
        log, context = self._begin(dry_run, engine, cancel, on_progress)
        elsewhere = None if output_root is None else open_store(output_root, log.storage_options)
        return generate_after_purge(
            log,
            build_options(ManifestOptions, options, keywords),
            context,
            output=elsewhere,
            dry_run=dry_run,
        )
