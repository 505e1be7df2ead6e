"""``Table``: the Python interface to one Delta table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from deltactl.errors import UsageError, Warn
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.scan import scan_snapshot
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from deltactl.units import parse_timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from deltactl.engine.base import CancelToken, Engine, OnProgress
    from deltactl.operations.check.fix import Confirm, PathRepairReport
    from deltactl.operations.check.options import CheckOptions
    from deltactl.operations.check.report import CheckReport
    from deltactl.operations.checkpoint.repair import RepairReport
    from deltactl.operations.checkpoint.run import CheckpointOptions, CheckpointReport
    from deltactl.operations.clone.options import CloneOptions
    from deltactl.operations.clone.report import CloneReport
    from deltactl.operations.detail import DetailReport
    from deltactl.operations.manifest.run import ManifestOptions, ManifestReport
    from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport
    from deltactl.operations.restore.run import RestoreOptions, RestoreReport
    from deltactl.operations.run_context import RunContext
    from deltactl.operations.vacuum.run import VacuumOptions, VacuumReport
    from deltactl.storage.log_store import DynamoDbLogStore


Timestamp: TypeAlias = int | str | datetime
"""Milliseconds since 1970 UTC, an RFC 3339 string, or a datetime (UTC if it has no zone)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _to_ms(timestamp: Timestamp) -> int:
    match timestamp:
        case datetime():
            zoned = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
            return (zoned - _EPOCH) // timedelta(milliseconds=1)
        case str():
            return parse_timestamp(timestamp)
        case _:
            return timestamp


class TableWarning(UserWarning):
    """A problem of a table that does not stop a run, such as an invalid _last_checkpoint."""


def _warn(message: str) -> None:
    warnings.warn(message, TableWarning, stacklevel=3)


class Table:
    """A Delta table at a URI. The constructor reads no files; each method reads the log again."""

    def __init__(
        self,
        uri: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        store: Store | None = None,
        log_store: DynamoDbLogStore | None = None,
        warn: Warn = _warn,
    ) -> None:
        """Set the address of a table and how to access it.

        Args:
            uri: a local path, ``file:`` URI or object store URI.
            storage_options: settings for the file system; never shown or logged.
            store: use this store instead of opening ``uri``.
            log_store: the DynamoDB table in which all writers of a table on S3 agree on commits;
                ``None``: conditional puts on S3.
            warn: receives warnings, which do not stop a run.
        """
        address = os.fspath(uri)
        if store is None:
            self._log = DeltaLog.open(address, storage_options, log_store, warn=warn)
        else:
            self._log = DeltaLog(store, warn)
        self._read_only_log = self._log.read_only()
        self._warn = warn
        self._storage_options = dict(storage_options or {})

    def _log_for(self, dry_run: bool) -> DeltaLog:
        """Return the newest log, for a run.

        For a dry run it is read-only and finishes no incomplete commit.
        """
        log = self._read_only_log if dry_run else self._log
        log.update()
        return log

    def _context(
        self,
        engine: Engine | None = None,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> RunContext:
        from deltactl.operations.run_context import RunContext

        return RunContext.of(self._warn, engine, self._storage_options, cancel, on_progress)

    @property
    def uri(self) -> str:
        """Return the table's root as an absolute URI."""
        return self._log.uri

    def snapshot(self, version: int | None = None, timestamp: Timestamp | None = None) -> Snapshot:
        """Return the table at a version, at a timestamp, or the latest.

        Raises:
            DeltactlError: the table or version does not exist, or the log is not valid.
        """
        if version is not None and timestamp is not None:
            raise UsageError("give a version or a timestamp, not both")
        log = self._log_for(dry_run=False)
        if timestamp is not None:
            log.ensure_exists()
            version = log.version_at(log.snapshot().metadata, _to_ms(timestamp))
        return log.snapshot(version)

    def history(
        self,
        limit: int | None = None,
        *,
        since: int | None = None,
        until: int | None = None,
        operations: Sequence[str] = (),
    ) -> pa.Table:
        """Return commits, newest first: Delta's columns, ``reconstructible`` and ``problem``.

        Also reads invalid logs: a missing or invalid commit is a row with a ``problem``.

        Args:
            limit: the maximum number of commits to return; older ones are not read.
            since: only commits at or after this time, ms since 1970 UTC.
            until: only commits at or before this time.
            operations: only commits of these operations.

        Raises:
            DeltactlError: the table does not exist, or the store failed.
        """
        from deltactl.operations.history.run import HistoryOptions, load_history

        options = HistoryOptions(
            limit=limit, since_ms=since, until_ms=until, operations=tuple(operations)
        )
        return load_history(self._log_for(dry_run=False), options).table()

    def detail(
        self, version: int | None = None, *, layout: bool = False, columns: str | None = None
    ) -> DetailReport:
        """Describe the table; ``row`` of the report has the columns of ``DESCRIBE DETAIL``.

        Args:
            version: the version to describe; ``None``: the latest.
            layout: also estimate the share of files that a lookup by a clustering column skips.
            columns: use these columns instead of the clustering columns, such as ``a, b.c``.

        Raises:
            DeltactlError: the table or version does not exist, the log is not valid, or the
                table has no such columns.
        """
        from deltactl.operations.detail import load_detail

        if not layout and columns is None:
            return load_detail(self._log_for(dry_run=False), version)
        from deltactl.operations.optimize.layout.survey import survey_layout

        return load_detail(
            self._log_for(dry_run=False),
            version,
            survey=lambda snapshot: survey_layout(snapshot, columns),
        )

    def scan(
        self,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Stream the live logical rows, partition columns included, in schema order.

        Raises:
            UnsupportedFeatureError: the table has a reader feature that deltactl does not support.
            DataFileError: while reading: a data file or deletion vector is missing or not valid.
        """
        return scan_snapshot(self.snapshot(version, timestamp), columns)

    def optimize(
        self,
        options: OptimizeOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> OptimizeReport:
        """Merge small files and rewrite files with many deleted rows; see ``optimize_table``.

        ``engine`` is ``LocalEngine()``, the default, or ``SparkEngine(session)`` with your classic
        or Spark Connect session, which is neither changed nor stopped.

        Raises:
            DeltactlError: a safety rule refused the run, other writers committed conflicting
                changes, or every bin failed.
        """
        from deltactl.operations.optimize.run import OptimizeOptions, optimize_table

        return optimize_table(
            self._log_for(dry_run),
            options or OptimizeOptions(),
            self._context(engine, cancel, on_progress),
            dry_run=dry_run,
        )

    def vacuum(
        self,
        options: VacuumOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> VacuumReport:
        """Remove files that no version inside the retention needs; see ``vacuum_table``.

        Does not ask for confirmation.

        Raises:
            DeltactlError: a safety rule refused the run, or no file could be removed.
        """
        from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table

        return vacuum_table(
            self._log_for(dry_run),
            options or VacuumOptions(),
            self._context(engine, cancel, on_progress),
            dry_run=dry_run,
        )

    def checkpoint(
        self,
        options: CheckpointOptions | None = None,
        *,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> CheckpointReport:
        """Write a checkpoint, verify it, and update ``_last_checkpoint``; see ``checkpoint_table``.

        Raises:
            DeltactlError: a safety rule refused the run, or the checkpoint that was written
                differs from the snapshot.
        """
        from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table

        return checkpoint_table(
            self._log_for(dry_run),
            options or CheckpointOptions(),
            self._context(engine, cancel, on_progress),
            dry_run=dry_run,
        )

    def repair_checkpoints(
        self, *, engine: Engine | None = None, dry_run: bool = False
    ) -> RepairReport:
        """Check all checkpoints and ``_last_checkpoint``; rewrite those with wrong content.

        Raises:
            DeltactlError: the latest version cannot be rebuilt, or the store failed.
        """
        from deltactl.operations.checkpoint.repair import repair_checkpoints

        return repair_checkpoints(
            self._log_for(dry_run),
            self._context(engine),
            dry_run=dry_run,
        )

    def check(
        self,
        options: CheckOptions | None = None,
        *,
        engine: Engine | None = None,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> CheckReport:
        """Check whether log, files and statistics agree; see ``check_table``. Writes nothing.

        ``report.findings`` has a row for each problem; a problem raises no error.

        Raises:
            DeltactlError: the table or version does not exist, or the store failed.
        """
        from deltactl.operations.check.options import CheckOptions
        from deltactl.operations.check.run import check_table

        return check_table(
            self._log_for(dry_run=False),
            options or CheckOptions(),
            self._context(engine, cancel, on_progress),
        )

    def restore(
        self,
        version: int | None = None,
        timestamp: Timestamp | None = None,
        *,
        options: RestoreOptions | None = None,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> RestoreReport:
        """Restore an earlier version as a new version; see ``restore_table``.

        Does not ask for confirmation.

        Args:
            version: the version to restore.
            timestamp: restore the version that was the latest at this time.
            options: all options, instead of ``version`` or ``timestamp``.
            engine: where the files of the version are checked.
            dry_run: return the plan as a report; write nothing.
            cancel: stops the run, if its commit was not written yet.
            on_progress: called whenever a task ends.

        Raises:
            DeltactlError: a safety rule refused the run, another writer changed the table, or the
                store failed.
        """
        from deltactl.operations.restore.run import RestoreOptions, restore_table

        if options is not None and not (version is None and timestamp is None):
            raise UsageError("give the version to restore, or options, not both")
        when = None if timestamp is None else _to_ms(timestamp)
        return restore_table(
            self._log_for(dry_run),
            options or RestoreOptions(version, when),
            self._context(engine, cancel, on_progress),
            dry_run=dry_run,
        )

    def clone(
        self,
        target: str | os.PathLike[str] | Table,
        options: CloneOptions,
        *,
        storage_options: Mapping[str, str] | None = None,
        engine: Engine | None = None,
        dry_run: bool = False,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> CloneReport:
        """Create a deep or shallow clone of this table; see ``clone_table``.

        Args:
            target: the address of the new table; a ``Table`` has its own storage options.
            options: the options of the clone, such as ``CloneOptions(deep=True)``.
            storage_options: settings for the target's file system; ``None``: those of this table.
            engine: where the files are copied.
            dry_run: return the plan as a report; write nothing.
            cancel: stops the run, if its commit was not written yet.
            on_progress: called whenever a task ends.

        Raises:
            DeltactlError: a safety rule refused the run, a file is missing, or a store failed.
        """
        from deltactl.operations.clone.run import clone_table

        if not isinstance(target, Table):
            chosen = self._storage_options if storage_options is None else storage_options
            target = Table(target, chosen, warn=self._warn)
        source = self._log_for(dry_run=options.deep or not options.note)
        return clone_table(
            source,
            target._log_for(dry_run),
            options,
            target._context(engine, cancel, on_progress),
            source_options=self._storage_options,
            dry_run=dry_run,
        )

    def fix_paths(
        self,
        texts: Sequence[str] = (),
        *,
        confirm: Confirm | None = None,
        dry_run: bool = False,
    ) -> PathRepairReport:
        """Remove live files whose ``remove`` has another path encoding; see ``repair_paths``.

        Args:
            texts: the live paths to remove, written as in the log; if empty, all paths whose
                files were certainly meant to be removed.
            confirm: called before the commit, to allow or refuse it.
            dry_run: return the plan as a report; write nothing.

        Raises:
            DeltactlError: a safety rule refused the run, another writer changed the files, or the
                store failed.
        """
        from deltactl.operations.check.fix import repair_paths

        return repair_paths(
            self._log_for(dry_run),
            texts,
            self._context(),
            confirm=confirm,
            dry_run=dry_run,
        )

    def generate_manifest(
        self,
        options: ManifestOptions | None = None,
        *,
        output_root: str | None = None,
        dry_run: bool = False,
    ) -> ManifestReport:
        """Update the symlink manifests to match the table; see ``generate_manifests``.

        Args:
            options: the partitions to include, and the form of file addresses.
            output_root: the directory for ``_symlink_format_manifest``; ``None``: the table
                directory.
            dry_run: compare the manifests with the table; write nothing.

        Raises:
            DeltactlError: the table cannot have manifests (deletion vectors, column mapping), or
                the store failed.
        """
        from deltactl.operations.manifest.run import ManifestOptions
        from deltactl.operations.purge_first import generate_after_purge

        elsewhere = None if output_root is None else open_store(output_root, self._storage_options)
        return generate_after_purge(
            self._log_for(dry_run),
            options or ManifestOptions(),
            self._context(),
            output=elsewhere,
            dry_run=dry_run,
        )
