"""``vacuum --purge-quarantine``: delete quarantined files, unless something needs them again.

Another engine may have restored a version whose files are in quarantine.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, FileMissingError, SafetyError, StorageError
from deltactl.log.audit.audited_snapshot import audit_snapshot
from deltactl.log.commits.events import EventCollector
from deltactl.log.committers.committer import Permission
from deltactl.log.delta_log import DeltaLog
from deltactl.log.physical_names import file_names
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase, read_concurrent_commits
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.losses import Losses
from deltactl.operations.run_context import RunContext
from deltactl.operations.short_repr import ShortRepr
from deltactl.operations.trusted_time import ask_store, planning_now
from deltactl.operations.vacuum.journal import (
    RunRecord,
    find_linked,
    list_quarantine,
    list_quarantines,
    quarantine_name,
    read_record,
    remove_directories,
    write_record,
)
from deltactl.operations.vacuum.lost import describe_lost, hint_at_lost
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.planner import Planner
from deltactl.operations.vacuum.retention import resolve_retention
from deltactl.operations.vacuum.spellings import fold_names
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.storage.names import is_local_uri
from deltactl.storage.store import Store
from deltactl.units import format_count, format_timestamp


@dataclass(frozen=True, slots=True)
class NeededRun:
    """A run with quarantined files that something needs, but that are not at their place.

    ``version`` is the latest version, if it is one that needs them; else earlier versions inside
    the retention or other tables do.
    """

    run_id: str
    paths: tuple[str, ...]
    version: int | None


@dataclass(frozen=True, slots=True, repr=False)
class PurgeReport(ShortRepr):
    """The result of a purge: run ids, files and bytes deleted.

    ``waiting`` and ``needed`` are the runs whose files are kept. ``lost``: files that another
    writer added again during their deletion.
    """

    dry_run: bool
    runs: tuple[str, ...]
    files: int
    bytes: int
    waiting: tuple[tuple[str, int], ...]
    needed: tuple[NeededRun, ...] = ()
    lost: tuple[str, ...] = ()
    failures: dict[str, str] = field(default_factory=dict)

    def find_error(self, table: str) -> DeltactlError | None:
        """Return the error of files that are lost, kept or not deleted; ``table``: its address."""
        if self.lost:
            return FileMissingError(describe_lost(self.lost), hint=hint_at_lost(table))
        if self.needed:
            return _explain_needed(self.needed[0], table)
        if not self.failures:
            return None
        path, reason = next(iter(self.failures.items()))
        files = format_count(len(self.failures), "file was", "files were")
        return StorageError(
            f"{files} not deleted, such as {path}: {reason}", hint="Fix the cause, then rerun."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes, times RFC 3339."""
        return {
            "runs": list(self.runs),
            "files_removed": self.files,
            "bytes_removed": self.bytes,
            "waiting": [
                {"run_id": run_id, "until": format_timestamp(until)}
                for run_id, until in self.waiting
            ],
            "needed": [
                {"run_id": it.run_id, "paths": list(it.paths), "version": it.version}
                for it in self.needed
            ],
            "lost": list(self.lost),
            "failures": [{"path": p, "reason": r} for p, r in self.failures.items()],
        }


def _explain_needed(run: NeededRun, table: str) -> SafetyError:
    who = "an earlier version inside the retention of the table, or another table,"
    wait = " Or wait until the retention of the table has passed."
    if run.version is not None:
        who, wait = f"the latest version ({run.version})", ""
    files = format_count(len(run.paths), "file that is", "files that are")
    return SafetyError(
        f"the quarantined files of run {run.run_id} are kept: {who} needs {files} only "
        f"there, such as {run.paths[0]!r}",
        hint=f"Run `deltactl vacuum {shlex.quote(table)} --undo {run.run_id}`, which moves the "
        f"files back.{wait}",
    )


def purge_quarantine(
    log: DeltaLog, context: RunContext, *, force_retention: bool = False, dry_run: bool = False
) -> PurgeReport:
    """Delete files in quarantines of earlier runs that have expired.

    If a version or another table needs a file of a run, and the file is not at its place, all files
    of that run are kept. New commits are read before and after each run. ``force_retention``: trust
    this machine's clock, also if nothing proves its time.

    Raises:
        TableError: there is no table, or it is damaged.
        SafetyError: it is not known which files are needed, or a live file is lost.
        UnsupportedFeatureError: a table feature forbids a vacuum.
        StorageError: the store cannot be listed.
    """
    log.ensure_allowed(Permission.CLEAN_DATA)
    store = log.store
    clock_ms = now_ms = context.clock.now_ms()
    log.update()
    snapshot = log.snapshot()
    if not force_retention:
        now_ms = planning_now(log, snapshot, context, clock_ms)
        if not (dry_run or is_local_uri(store.uri)):
            now_ms = min(now_ms, ask_store(store))
    due, waiting = _find_due(store, context, now_ms, clock_ms)
    runs, needed, deleted = [], [], []
    num_bytes = 0
    failures: dict[str, str] = {}
    uses = _Uses(log, context, now_ms, [name for _, names in due for name in names])
    if uses.refusal is not None and not dry_run:
        raise uses.refusal
    for record, names in due:
        stored = [quarantine_name(record.run_id, name) for name in names]
        sizes = {i.name: i.size_bytes for i in store.stat_many(stored) if i is not None}
        uses.read_new_commits()  # directly before the deletion
        used = uses.find(record.run_id, names)
        if used is not None:
            needed.append(used)
            continue
        if not dry_run:
            uses.ensure_same_table(snapshot)
        runs.append(record.run_id)
        failed = {} if dry_run else store.delete_many(stored)
        failures |= {name: error.message for name, error in failed.items()}
        deleted += [n for n, place in zip(names, stored, strict=True) if place not in failed]
        num_bytes += sum(size for name, size in sizes.items() if name not in failed)
        if not dry_run:
            remove_directories(store, record.run_id, names)
            if not failed:
                write_record(store, replace(record, status="purged"))
    lost: tuple[str, ...] = ()
    if deleted and not dry_run:
        uses.read_new_commits()
        lost = uses.find_lost(deleted)
    context.warn_of_refusal(log.refusal or uses.refusal)
    kept = tuple(waiting), tuple(needed)
    return PurgeReport(dry_run, tuple(runs), len(deleted), num_bytes, *kept, lost, failures)


def _find_due(
    store: Store, context: RunContext, now_ms: int, clock_ms: int
) -> tuple[list[tuple[RunRecord, list[str]]], list[tuple[str, int]]]:
    """Return the expired runs with their quarantined files, and the ids and ends of the others."""
    due, waiting = [], []
    for run_id in list_quarantines(store):
        names = list_quarantine(store, run_id)
        record = _read_record(store, run_id, context) if names else None
        if record is None or record.quarantined_until_ms is None:
            continue
        until = record.quarantined_until_ms
        if now_ms < until <= clock_ms:
            context.warn(
                f"the files of run {record.run_id} are kept: only this machine's clock "
                f"({format_timestamp(clock_ms)}) shows that their time in quarantine has ended. "
                f"If it is right, rerun with {option('force_retention', True)}"
            )
        if until > now_ms:
            waiting.append((record.run_id, until))
        else:
            due.append((record, names))
    return due, waiting


def _read_record(store: Store, run_id: str, context: RunContext) -> RunRecord | None:
    """Return the state of a run; None, with a warning, if its journal is absent or damaged."""
    try:
        return read_record(store, run_id)
    except StorageError:
        raise
    except DeltactlError as error:
        context.warn(
            f"the files in quarantine of run {run_id} are kept: {error.message}. To move them "
            f"back, run `deltactl vacuum {shlex.quote(store.uri)} --undo {run_id}`. If nobody "
            f"needs them, delete {quarantine_name(run_id, '')}"
        )
        return None


class _Uses:
    """What needs the quarantined ``names``: what a vacuum would keep, and what commits add since.

    The log is not read if there are no names. Names that differ only in case or in their Unicode
    form count as equal: some file systems list a file in another spelling than that of the log.
    """

    def __init__(
        self, log: DeltaLog, context: RunContext, now_ms: int, names: Sequence[str]
    ) -> None:
        self._log, self._context, self._now_ms = log, context, now_ms
        self._spellings = dict(
            zip(names, fold_names(pa.array(names, pa.string())).to_pylist(), strict=True)
        )
        self._quarantined = pa.array(self._spellings.values(), pa.string())
        self._live: set[str] = set()
        self._needed: set[str] = set()
        self._new: set[str] = set()
        self.refusal: SafetyError | None = None
        if names:
            self._base = self._planned = log.retry_after_cleanup(self._read)

    def read_new_commits(self) -> None:
        """Read the commits since the last call."""
        self._base, tail = read_concurrent_commits(self._log, self._base)
        for part in (tail.adds, tail.removes):
            self._new |= self._hits(file_names(self._log.store, part))
        self._needed |= self._new
        self._live |= self._hits(file_names(self._log.store, tail.adds))

    def ensure_same_table(self, first: Snapshot) -> None:
        """Look whether the table is still that of the first snapshot, and of the newest commit.

        Raises:
            DeltactlError: see ``CommitBase.ensure_same_table``.
        """
        for base in (CommitBase.of(first), self._base):
            base.ensure_same_table(self._log)

    def find(self, run_id: str, names: Sequence[str]) -> NeededRun | None:
        """Return the needed files of a run that are not at their place.

        Plan again if new commits changed the retention or the protocol.

        Raises:
            DeltactlError: the table must not be vacuumed any more.
        """
        before, after = self._planned, self._base
        if (before.protocol, before.metadata) != (after.protocol, after.metadata):
            self._planned = self._log.retry_after_cleanup(self._read)
        lost = self._missing(names, self._needed)
        if not lost:
            return None
        is_live = any(self._spellings[name] in self._live for name in lost)
        version = self._base.version if is_live else None
        return NeededRun(run_id, lost, version)

    def find_lost(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the deleted files that new commits need, and that are not at their place.

        Commits before their deletion do not: a run with such files is kept.
        """
        return self._missing(names, self._new)

    def _missing(self, names: Sequence[str], needed: set[str]) -> tuple[str, ...]:
        used = [name for name in names if self._spellings[name] in needed]
        store = self._log.store
        there = {info.name for info in store.stat_many(used) if info is not None}
        there -= find_linked(store, sorted(there))
        return tuple(name for name in used if name not in there)

    def _read(self) -> CommitBase:
        log, context = self._log, self._context
        log.update()
        events = EventCollector()
        snapshot = audit_snapshot(log, log.snapshot(visitors=[events]), strict=True)
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.VACUUM)
        options = VacuumOptions()
        retention = resolve_retention(snapshot.properties, options, self._now_ms)
        clones = read_notes(log.store)
        planner = Planner(log, snapshot, options, retention, context, clones, events)
        for names, role in planner.kept_names():
            hits = self._hits(names)
            self._needed |= hits
            if role == "live":
                self._live |= hits
        removed = pa.chunked_array([pa.array(self._spellings.keys(), pa.string())])
        self.refusal = self._find_refusal(planner.find_lost_adds(removed))
        return CommitBase.of(snapshot)

    def _find_refusal(self, losses: Losses) -> SafetyError | None:
        """Return an error if a live file is lost that is not in quarantine itself."""
        is_kept = pc.is_in(fold_names(losses.missing), value_set=self._quarantined)
        losses = replace(losses, missing=losses.missing.filter(pc.invert(is_kept)))
        loss = losses.describe()
        if loss is None:
            return None
        return SafetyError(
            f"{loss}. Files in quarantine may have its rows: nothing was removed",
            hint="Run `deltactl check TABLE` for details. Copy the file back from a backup. Or run "
            "`deltactl vacuum TABLE --undo RUN`, then restore a version that needs the files of "
            "this run. To go on without what is lost, run "
            f"{losses.fix}, then rerun.",
        )

    def _hits(self, names: pa.ChunkedArray) -> set[str]:
        folded = fold_names(names)
        return {*folded.filter(pc.is_in(folded, value_set=self._quarantined)).to_pylist()}
