"""Run a vacuum: journal, START commit, batches after reading new commits, END commit.

Order of effects: the journal is durable before anything else; files are removed only between the
two commits; directories after files; ``_last_vacuum_info`` last. After a crash at any point, reads
of the table give the same result, and only files of the plan are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.engine.base import Failed, Progress, Task
from deltactl.errors import (
    KEEPS_FILES,
    ConflictError,
    DeltactlError,
    NotATableError,
    SafetyError,
    StorageError,
    TableError,
    Warn,
    explain_foreign,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.physical_names import file_names, misread_names
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.upkeep.last_vacuum_info import write_last_vacuum_info
from deltactl.log.writing.actions import Actions
from deltactl.log.writing.commit_base import CommitBase, read_concurrent_commits
from deltactl.log.writing.commit_info import Description, engine_info, run_tags
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.journal import (
    RunRecord,
    move_back,
    new_run_id,
    remove_journal,
    write_journal,
    write_record,
)
from deltactl.operations.vacuum.kept_files import live_names
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.report import FileFailure, VacuumReport
from deltactl.operations.vacuum.spellings import find_alike, fold_names
from deltactl.operations.vacuum.tasks import DeleteResult, DeleteSpec, delete_files
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.vacuum_names import writer_mask
from deltactl.storage.store import Store
from deltactl.units import format_duration

BATCH_FILES = 1000  # the most names of one delete request of S3
_BATCHES_PER_ROUND = 4
_LEAST_SKEW_MS = 60_000
_MOST_SKEW_MS = 3_600_000
# Smaller differences are the duration of a commit and the resolution of file timestamps.
_NO_SKEW_MS = 1000

Replan = Callable[[int], VacuumPlan]
"""``replan(cutoff_ms) -> plan``: the plan for another cutoff, of the same version."""


@dataclass(slots=True)
class _Totals:
    """The progress of the run."""

    versions: list[int] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    bytes: int = 0
    folders: int = 0
    vanished: int = 0
    changed: list[str] = field(default_factory=list)
    came_back: set[str] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)
    was_replaced: bool = False
    interrupted: bool = False
    failures: list[FileFailure] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _InfoCommit:
    """A commit with only a ``commitInfo``. It changes no file, so it never conflicts."""

    description: Description

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        ensure_supported(base.protocol, base.metadata, Operation.VACUUM)
        return Actions(description=self.description, read_version=base.version)

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """Do nothing: ``VacuumRun`` reads the commits of other writers."""


class VacuumRun:
    """The state of one run; ``state`` is that of the table after its last commit."""

    def __init__(
        self,
        log: DeltaLog,
        snapshot: Snapshot,
        plan: VacuumPlan,
        options: VacuumOptions,
        context: RunContext,
        *,
        replan: Replan,
    ) -> None:
        self._log, self._store = log, log.store
        self._plan, self._options = plan, options
        self._context, self._replan = context, replan
        self.state = self._base = CommitBase.of(snapshot)
        self._origin = snapshot.metadata
        self._totals = _Totals()
        self._skew_ms = 0
        started = context.clock.now_ms()
        # This machine's clock may be behind; see also `_date_quarantine`.
        not_before = max(started, self._base.dated_ms)
        until = not_before + options.quarantine_for_ms if options.quarantine else None
        self._record = RunRecord(
            run_id=new_run_id(started, context.run_id or context.clock.new_id()),
            table_id=snapshot.metadata.id,
            version=plan.version,
            mode=plan.mode,
            started_ms=started,
            cutoff_ms=plan.retention.cutoff_ms,
            retain_ms=plan.retention.retain_ms,
            files=plan.files.num_rows,
            bytes=plan.size_bytes,
            quarantined_until_ms=until,
        )

    def execute(self) -> VacuumReport:
        """Remove the files of the plan that are still unneeded.

        Raises:
            SafetyError: the clocks of this machine and of the store are too far apart.
            DeltactlError: nothing could be removed; the first failure.
        """
        write_journal(self._store, self._record, self._plan.files)
        put_at = self._context.clock.now_ms()
        try:
            self._commit("VACUUM START", self._start_parameters(), self._start_metrics())
        except DeltactlError as error:
            if not isinstance(error, KEEPS_FILES):  # else the log may have this run
                remove_journal(self._store, self._record.run_id)
            raise
        try:
            stopped = self._remove(self._correct_cutoff(put_at))
        except (Exception, KeyboardInterrupt):  # of the clocks, or of the caller's ``on_progress``
            self._end(completed=False)
            raise
        is_whole = not (stopped or self._totals.failures or self._totals.interrupted)
        try:
            self._date_quarantine()
            self._end(completed=is_whole)
            self._finish(is_whole)
        except DeltactlError as error:
            stopped = stopped or self._look_for_another_table(error)
        if stopped is not None:
            if not (self._totals.removed or self._totals.lost):
                raise stopped
            self._totals.failures.append(FileFailure("", stopped))
        return self._report(stopped)

    def _commit(
        self, operation: str, parameters: Mapping[str, object], metrics: Mapping[str, str]
    ) -> None:
        info = Description(
            operation=operation,
            parameters=parameters,
            metrics=metrics,
            engine_info=engine_info(self._context.engine.name),
            tags=run_tags(self._context.run_id),
            isolation_level="SnapshotIsolation",
            is_blind_append=True,
        )
        # Commits of other writers are not applied here: `_read_new_commits` reads them.
        self.state = self._context.transaction(self._log, self._base).commit(_InfoCommit(info))
        self._totals.versions.append(self.state.version)

    def _start_parameters(self) -> dict[str, object]:
        """Source: Delta's VACUUM START, its parameters and metrics."""
        retention = self._plan.retention
        parameters: dict[str, object] = {
            "retentionCheckEnabled": not self._options.force_retention,
            "defaultRetentionMillis": retention.table_ms,
        }
        if retention.requested_ms is not None:
            parameters["specifiedRetentionMillis"] = retention.requested_ms
        return parameters

    def _start_metrics(self) -> dict[str, str]:
        plan = self._plan
        count = plan.files.num_rows + len(plan.folders) + len(plan.old_folders)
        return {"numFilesToDelete": str(count), "sizeOfDataToDelete": str(plan.size_bytes)}

    def _correct_cutoff(self, put_at_ms: int) -> int:
        """Return the cutoff by the slower of two clocks: this machine's and the store's."""
        assert self.state.commit_file is not None
        (info,) = self._store.stat_many([self.state.commit_file.name])
        self._skew_ms = 0 if info is None else put_at_ms - info.modified_ms
        behind = max(0, self._skew_ms)
        retain = self._plan.retention.retain_ms
        if behind > max(_LEAST_SKEW_MS, min(_MOST_SKEW_MS, retain // 10)):
            raise SafetyError(
                f"the clock of the store is {format_duration(behind)} behind the "
                "clock of this machine: files look older than they are",
                hint="Correct the clocks, then rerun; nothing was removed.",
            )
        return self._plan.retention.cutoff_ms - behind

    def _date_quarantine(self) -> None:
        """Count the time in quarantine from now, by the store if this machine's clock is behind."""
        until = self._record.quarantined_until_ms
        now_ms = self._context.clock.now_ms() - min(self._skew_ms, 0)
        later = now_ms + self._options.quarantine_for_ms
        if until is not None and later > until + _NO_SKEW_MS:
            self._record = replace(self._record, quarantined_until_ms=later)
            write_record(self._store, self._record)

    def _remove(self, cutoff_ms: int) -> DeltactlError | None:
        """Remove files, then directories; return the error that stopped the run, for the report."""
        try:
            self._remove_files(cutoff_ms)
            if not self._totals.interrupted:
                self._remove_directories(cutoff_ms)
        except DeltactlError as error:
            self._totals.interrupted |= self._context.is_cancelled
            return self._look_for_another_table(error)
        return None

    def _look_for_another_table(self, stopped: DeltactlError) -> DeltactlError:
        """If another table has replaced this one, note the removed files that it needs.

        Files are removed by name, so this run may have removed files of that table.

        Returns:
            The error that stopped the run, or one that says that the other table cannot be read.
        """
        try:
            self._base.ensure_table_is_there(self._log)
        except (StorageError, NotATableError):  # there is no table, or this is not known
            return stopped
        except DeltactlError:
            self._totals.was_replaced = bool(self._totals.tried)
        if not self._totals.was_replaced:
            return stopped
        self._totals.failures.clear()  # a file that was put back is there although it was removed
        planned = fold_names(self._plan.files["path"])
        try:
            used = [
                names.filter(pc.is_in(fold_names(names), value_set=planned))
                for names, _ in live_names(self._log.unread().snapshot())
            ]
            self._keep(pa.chunked_array([part for it in used for part in it.chunks], pa.string()))
        except DeltactlError as error:
            return TableError(
                f"{stopped.message}. The table that is there now cannot be read: {error.message}. "
                "Files that this run removed may belong to it",
                hint="Run `deltactl check TABLE` when the table can be read. If files are missing, "
                "restore the table from the backup again.",
            )
        return stopped

    def _remove_files(self, cutoff_ms: int) -> None:
        """Remove files in rounds; before and after each, read the commits of other writers."""
        files = self._plan.files
        young = pc.greater_equal(files["modified_ms"], cutoff_ms)
        if cutoff_ms <= self._plan.retention.cutoff_ms - _NO_SKEW_MS:
            # Timestamps of commits and tombstones may come from the slow clock too.
            still = self._replan(cutoff_ms).files["path"]
            young = pc.or_(young, pc.invert(pc.is_in(files["path"], value_set=still)))
        self._totals.changed += files.filter(young)["path"].to_pylist()
        files = files.filter(pc.invert(young))
        spec = DeleteSpec(
            self._store.uri,
            self._context.storage_options,
            self._record.run_id,
            cutoff_ms,
            self._options.quarantine,
        )
        done = 0
        for names in _rounds(files):
            self._read_new_commits()
            if self._context.is_cancelled:
                self._totals.interrupted = True
                return
            self._date_quarantine()  # another run may purge what this one still moves
            batches = _batches([n for n in names if n not in self._totals.came_back])
            self._totals.tried.update(*batches)
            tasks = [Task(number, batch) for number, batch in enumerate(batches)]
            # Progress is shown by rounds, not by tasks.
            running = self._context.engine.run(
                partial(delete_files, spec), tasks, cancel=self._context.cancel
            )
            num_done = 0
            for num_done, outcome in enumerate(running, 1):  # noqa: B007 - fewer if cancelled
                if isinstance(outcome, Failed):
                    self._fail(batches[outcome.task_id], outcome.error)
                else:
                    self._take(outcome.result)
            self._totals.interrupted |= num_done < len(batches)
            self._date_quarantine()  # the machine may have been suspended
            done += len(names)
            if self._context.on_progress is not None:
                self._context.on_progress(
                    Progress(done, files.num_rows, self._totals.bytes, self._plan.size_bytes)
                )
        self._read_new_commits()

    def _read_new_commits(self) -> None:
        """Read commits since the last call, and drop the files in them from the plan."""
        self._base, tail = read_concurrent_commits(self._log, self._base)
        # Removes too: versions between a restore of a file and its second removal need it.
        for part in (tail.adds, tail.removes):
            names = file_names(self._store, part)
            self._ensure_no_new_names(names)
            self._keep(names)
        ensure_supported(self._base.protocol, self._base.metadata, Operation.VACUUM)
        self._log.ensure_decides(self._base.protocol, self._base.metadata)
        before, after = self._origin, self._base.metadata
        if before.id != after.id or _retention_text(before.configuration) != _retention_text(
            after.configuration
        ):
            raise ConflictError(
                "the table was replaced, or its retention changed, during the vacuum",
                hint="Rerun the command.",
            )
        self._ensure_no_new_clone()

    def _keep(self, names: pa.ChunkedArray) -> None:
        """Drop files that others use from the plan, and restore those that were removed."""
        alike = find_alike(self._plan.files["path"], names)
        texts = (names, misread_names(self._store, names), alike)
        back = {text for column in texts for text in column.to_pylist()}
        self._totals.came_back |= back
        self._restore(sorted(back & self._totals.tried))

    def _ensure_no_new_names(self, names: pa.ChunkedArray) -> None:
        """Refuse orphans if other programs write to the directory: see ``was_converted``."""
        strange = names.filter(pc.invert(writer_mask(names)))
        if self._plan.orphans and not self._plan.covers_unknown and len(strange):
            raise ConflictError(
                f"a commit during the vacuum has the file {strange[0].as_py()!r}, whose name no "
                "Delta writer gives: other programs may write to the directory, and files that no "
                "commit references may be theirs",
                hint="Rerun the command.",
            )

    def _ensure_no_new_clone(self) -> None:
        new = [note for note in read_notes(self._store) if note not in self._plan.clones]
        if new:
            raise ConflictError(
                "a shallow clone of this table was created during the vacuum: "
                f"{new[0].clone_uri!r}. The clone may use files that this vacuum would remove",
                hint="Rerun the command.",
            )

    def _restore(self, names: Sequence[str]) -> None:
        """Move files back from quarantine if other writers started to use them.

        A failed task may have removed files, so the store is checked for missing files.
        """
        there = self._store.stat_many(names) if names else []
        names = [name for name, info in zip(names, there, strict=True) if info is None]
        if not names:
            return
        failed: Mapping[str, object] = dict.fromkeys(names)
        if self._options.quarantine:
            with suppress(DeltactlError):
                failed = move_back(self._store, self._record.run_id, names)
        self._totals.removed -= set(names) - set(failed)
        self._totals.lost += [name for name in names if name in failed]

    def _take(self, result: DeleteResult) -> None:
        self._totals.removed |= set(result.removed)
        self._totals.bytes += result.size_bytes
        self._totals.vanished += len(result.vanished)
        self._totals.changed += result.changed
        self._totals.failures += [FileFailure(n, error) for n, error in result.failed.items()]

    def _fail(self, names: Sequence[str], raised: Exception) -> None:
        error = explain_foreign(f"removing {len(names)} files", raised)
        self._totals.failures += [FileFailure(name, error) for name in names]

    def _remove_directories(self, cutoff_ms: int) -> None:
        directories = self._store.directories
        if directories is None:
            return
        old = directories.old_directories(self._plan.old_folders, cutoff_ms)
        removed = directories.remove_directories(old)
        removed += directories.remove_directories(self._plan.folders)
        self._totals.folders = len(removed)

    def _end(self, *, completed: bool) -> None:
        metrics: dict[str, str] = {}
        if completed:
            metrics["numDeletedFiles"] = str(len(self._totals.removed) + self._totals.folders)
            metrics["numVacuumedDirectories"] = str(self._plan.listed_folders + 1)
        self._commit("VACUUM END", {"status": "COMPLETED" if completed else "FAILED"}, metrics)

    def _finish(self, is_whole: bool) -> None:
        totals, plan = self._totals, self._plan
        status, removed = "completed" if is_whole else "partial", len(totals.removed)
        is_clean = is_whole and not (totals.changed or totals.came_back or totals.lost)
        with warned_of_no_record(self._context.warn):
            write_record(self._store, replace(self._record, status=status, files_removed=removed))
            record_vacuumed(self._store, plan, is_clean=is_clean)

    def _report(self, stopped: DeltactlError | None) -> VacuumReport:
        totals = self._totals
        planned = set(self._plan.files["path"].to_pylist())
        return VacuumReport(
            plan=self._plan,
            engine=self._context.engine.name,
            run_id=self._record.run_id,
            versions=tuple(totals.versions),
            files_removed=len(totals.removed),
            bytes_removed=totals.bytes,
            folders_removed=totals.folders,
            came_back=tuple(sorted(totals.came_back & planned - set(totals.lost))),
            lost=tuple(totals.lost),
            was_replaced=totals.was_replaced,
            changed=tuple(totals.changed),
            vanished=totals.vanished,
            failures=tuple(totals.failures),
            stopped=stopped,
            quarantined_until_ms=self._record.quarantined_until_ms,
            clock_skew_ms=self._skew_ms,
            interrupted=totals.interrupted,
        )


def record_vacuumed(store: Store, plan: VacuumPlan, *, is_clean: bool) -> None:
    """Write the version up to which all removed files are deleted, if it is another one now.

    ``is_clean``: whether the run did all that was planned.
    """
    version = plan.vacuumed_version if is_clean else plan.vacuumed_before
    if plan.drops_record or version != plan.vacuumed_before:
        write_last_vacuum_info(store, version)


@contextmanager
def warned_of_no_record(warn: Warn) -> Iterator[None]:
    """Warn if a vacuum that has ended cannot be recorded: later vacuums only do more work."""
    try:
        yield
    except StorageError as error:
        warn(
            f"the vacuum has ended, but this was not recorded: {error.message}. The next vacuum "
            "considers the same commits again, or lists all files"
        )


def _retention_text(configuration: Mapping[str, str]) -> str | None:
    return TableProperties(configuration).text("delta.deletedFileRetentionDuration")


def _rounds(files: pa.Table) -> Iterator[list[str]]:
    size = BATCH_FILES * _BATCHES_PER_ROUND
    for start in range(0, files.num_rows, size):
        yield files["path"].slice(start, size).to_pylist()


def _batches(names: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(names[i : i + BATCH_FILES]) for i in range(0, len(names), BATCH_FILES)]
