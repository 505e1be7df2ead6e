"""``checkpoint``: write the state of a version as a checkpoint, and clean up the log.

Order of effects: files are written and read back, then ``_last_checkpoint``, then optional files;
deletion is last. After a crash at any point the log reads as before.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from deltactl.errors import ObjectNotFoundError, SafetyError, StorageError
from deltactl.lazy import cached_property
from deltactl.log.audit.audited_snapshot import (
    audit_files,
    ensure_matches_commits,
    load_audited,
)
from deltactl.log.audit.checkpoints import find_base_problem, find_hint_problem, hint_of
from deltactl.log.audit.checksum import (
    COUNTS,
    find_contradiction,
    find_disagreements,
    write_checksum,
)
from deltactl.log.audit.commit_doubts import CommitDoubts, restore_commit
from deltactl.log.audit.evidence import find_foreign_id
from deltactl.log.commits.added_names import AddedNames
from deltactl.log.committers.committer import Permission
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import move_hint
from deltactl.log.snapshot import Snapshot
from deltactl.log.upkeep.cleanup import CleanupPlan, execute_cleanup, plan_cleanup
from deltactl.log.upkeep.compaction import Compaction, plan_compaction, write_compaction
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.checkpoint.doubts import ensure_undoubted
from deltactl.operations.checkpoint.losses import ensure_nothing_lost
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.plan import CheckpointPlan, is_due, plan_checkpoint
from deltactl.operations.checkpoint.report import CheckpointReport, DueReport
from deltactl.operations.checkpoint.write import WrittenCheckpoint, write_checkpoint
from deltactl.operations.run_context import RunContext
from deltactl.operations.thresholds import Need
from deltactl.operations.trusted_time import explain_waiting, planning_now, trusted_now
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.units import DAY_MS, format_count, format_timestamp

_logger: Final = logging.getLogger(__name__)

__all__ = [
    "CheckpointOptions",
    "CheckpointPlan",
    "CheckpointReport",
    "Confirm",
    "DueReport",
    "check_due",
    "checkpoint_table",
    "plan_checkpoint",
]


Confirm = Callable[[str], bool]
"""``confirm(question) -> bool``: returns whether this machine's clock, or a commit, is right."""


def check_due(log: DeltaLog, need: Need | None) -> DueReport:
    """Return whether a checkpoint of the latest version is due.

    It is due by ``need``, or else by ``delta.checkpointInterval`` or a wrong ``_last_checkpoint``.

    Raises:
        DeltactlError: there is no table, or the log is damaged.
    """
    log.reader.checks_sidecars = True
    snapshot = log.snapshot()
    last = snapshot.segment.checkpoint_version
    if need is not None and need.commits is not None:
        due = need.find_shortfall(commits=snapshot.version - last) is None
        return DueReport(snapshot.version, last, need.commits, due)
    interval = snapshot.properties.checkpoint_interval
    due = is_due(last, log.published_up_to(snapshot.version), interval)
    problem = find_hint_problem(log, snapshot)
    return DueReport(snapshot.version, last, interval, due or problem is not None, problem)


def checkpoint_table(
    log: DeltaLog,
    options: CheckpointOptions,
    context: RunContext,
    *,
    confirm: Confirm | None = None,
    confirm_doubt: Confirm | None = None,
    dry_run: bool = False,
) -> CheckpointReport:
    """Plan and, unless ``dry_run``, write a checkpoint, and clean up the log if requested.

    Without ``confirm``, log files are kept that have expired only if this machine's clock is right:
    see ``trusted_time``. Without ``confirm_doubt``, a commit that may be damaged is an error.

    Raises:
        UnsupportedFeatureError: the protocol forbids it, or a checkpoint of this kind.
        VersionNotFoundError: there is no such version.
        VerificationError: the written checkpoint differs from the snapshot; it was removed.
        SafetyError: cleanup would make a version inside the retention unreadable, or was not
            confirmed, or would delete the versions before a lost live file was added, or the
            checkpoint to announce, or that would remain as the oldest, differs from older files of
            the log, or the latter from its ``.crc`` file, or a commit may be damaged: nothing was
            written.
        DeltactlError: the log is damaged, or the store failed.
    """
    log.reader.checks_sidecars = True  # a checkpoint that readers cannot use is written again
    # The cleanup of another run may delete the checkpoint that this run reads: then start again.
    job, report = log.retry_after_cleanup(
        lambda: _begin(_Job(log, options, context, confirm_doubt), confirm, dry_run)
    )
    if dry_run or report.skipped is not None:
        context.warn_of_refusal(log.refusal)
        return report
    if report.written is not None:
        report = job.announce(report, report.written)
    elif report.plan.to_announce is not None:
        hint = hint_of(log.store, report.plan.to_announce)
        report = replace(report, hint_moved=move_hint(log.store, hint))
    if context.is_cancelled:
        return replace(report, cleanup=None, compaction_range=None, interrupted=True)
    if job.compaction is not None:
        report = replace(report, compaction=write_compaction(job.snapshot, job.compaction))
    if report.cleanup is not None and not report.cleanup.is_empty:
        report = job.clean(report)
    return report


def _begin(job: _Job, confirm: Confirm | None, dry_run: bool) -> tuple[_Job, CheckpointReport]:
    """Plan, and unless ``dry_run`` write the checkpoint."""
    skipped = job.find_shortfall()
    if skipped is not None:
        idle = CheckpointPlan(job.snapshot.version, None, f"not needed: {skipped}")
        return job, CheckpointReport(
            idle, job.engine_name, job.table_id, dry_run=dry_run, skipped=skipped
        )
    plan = job.plan()
    cleanup = job.plan_cleanup(plan, confirm) if job.cleans else None
    report = CheckpointReport(
        plan,
        job.engine_name,
        job.table_id,
        dry_run=dry_run,
        cleanup=cleanup,
        compaction_range=job.plan_compaction(),
    )
    if cleanup is not None:
        job.ensure_base(cleanup, None if plan.is_empty else job.snapshot)
    if not dry_run and not plan.is_empty:
        report = replace(report, written=job.write(plan))
    return job, report


class _Job:
    """One run: the log as it was read, and the options."""

    def __init__(
        self,
        log: DeltaLog,
        options: CheckpointOptions,
        context: RunContext,
        confirm_doubt: Confirm | None,
    ) -> None:
        self._log, self._options, self._context = log, options, context
        self._doubts, self._confirm_doubt = CommitDoubts(), confirm_doubt
        self._accepted: frozenset[int] = frozenset()
        self.cleans = options.cleanup or options.cleanup_only
        if self.cleans:
            log.ensure_newest()  # lists the whole log
        self.snapshot = load_audited(log, options.version, doubts=self._doubts, strict=True)
        published = log.listed.published_through
        if published is not None and published < self.snapshot.version:
            # Readers without the committer must not see a version before its commit is published.
            if options.version is not None:
                raise SafetyError(
                    f"version {options.version} of {log.uri} cannot have a checkpoint yet: its "
                    f"commit is not published. Commits are published up to version {published}",
                    hint=f"Rerun with {option('version')} {published}.",
                )
            self.snapshot = load_audited(log, published, doubts=self._doubts, strict=True)
        if options.if_enabled and not self._latest.properties.expired_log_cleanup:
            self.cleans = False
        if self.cleans and options.if_enabled:
            self.cleans = log.is_allowed(Permission.CLEAN_LOG)
        elif self.cleans:
            log.ensure_allowed(Permission.CLEAN_LOG)
        self._is_confirmed = False
        self._compared: tuple[object, ...] | None = None
        self.compaction: Compaction | None = None

    @property
    def engine_name(self) -> str:
        """Return the name of the engine."""
        return self._context.engine.name

    @property
    def table_id(self) -> str:
        """Return the table's id."""
        return self.snapshot.metadata.id

    def find_shortfall(self) -> str | None:
        """Return the pending work since the last checkpoint if it is below the threshold."""
        if self._options.need is None:
            return None
        last = self.snapshot.segment.checkpoint_version  # -1 without one
        return self._options.need.find_shortfall(commits=self.snapshot.version - last)

    def plan(self) -> CheckpointPlan:
        """Return the plan of the checkpoint."""
        snapshot, latest = self.snapshot, self._latest
        # With --version: the protocol of today says who may write to the table.
        ensure_supported(latest.protocol, latest.metadata, Operation.CHECKPOINT)
        if self._options.cleanup_only:
            ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CHECKPOINT)
            return CheckpointPlan(snapshot.version, None, "no checkpoint was requested")
        plan = plan_checkpoint(self._log, snapshot, self._options)
        if not plan.is_empty:  # the new one keeps what the log has
            self._ensure_undoubted()
            audit_files(snapshot)
        if plan.to_announce is not None:  # most readers read only what is announced
            ensure_matches_commits(self._log.without_warnings(), plan.to_announce.version)
        return plan

    def plan_compaction(self) -> tuple[int, int] | None:
        """Choose the commits to compact; return the first and the last, if there are any."""
        wanted = self._options.compact_log
        if wanted is False:
            return None
        versions = None if wanted is True else wanted
        found = self.compaction = plan_compaction(self._log, self.snapshot, versions, self._doubts)
        if found is None:
            return None
        self._ensure_undoubted()
        return found.first, found.last

    def _ensure_undoubted(self, *, cleanup: bool = False) -> None:
        """Refuse a commit that was read and may be damaged, unless a person says it is right."""
        doubtful = frozenset(self._doubts.found)
        if doubtful <= self._accepted:
            return
        if self._confirm_doubt is None:
            ensure_undoubted(self._log, self._doubts, cleanup=cleanup)
        elif not self._confirm_doubt(
            f"{self._doubts.describe()}. "
            + ("Is the commit right?" if len(doubtful) == 1 else "Are all these commits right?")
        ):
            raise SafetyError("not confirmed: nothing was written or deleted")
        self._accepted = doubtful

    def write(self, plan: CheckpointPlan) -> WrittenCheckpoint:
        """Write the checkpoint; do not change ``_last_checkpoint``."""
        written = write_checkpoint(self._log, self.snapshot, plan, self._options, self._context)
        _logger.info("%s: checkpoint of version %d written", self._log.uri, plan.version)
        return written

    def announce(self, report: CheckpointReport, written: WrittenCheckpoint) -> CheckpointReport:
        """Write ``_last_checkpoint``, and check or write the version's checksum file."""
        moved = move_hint(self._log.store, written.hint)
        return replace(report, hint_moved=moved, checksum=self._handle_checksum(written))

    def _handle_checksum(self, written: WrittenCheckpoint) -> str | None:
        """Compare with the version's checksum file; write one if the table has such files."""
        facts = written.num_adds, written.add_bytes
        try:
            found = find_disagreements(self._log.store, self.snapshot, *facts)
        except StorageError as error:
            self._context.warn(
                f"the checkpoint was not compared with the checksum file of version "
                f"{self.snapshot.version}: {error.message}"
            )
            return None
        for member, disagreement in (found or {}).items():
            if member not in COUNTS:  # the audit of the snapshot warned of these
                self._context.warn(disagreement)
        if found is not None or not self._log.listed.checksums:
            return None
        try:
            return write_checksum(self._log.store, self.snapshot, *facts)
        except ObjectNotFoundError as error:  # another run's cleanup deleted the commit
            self._context.warn(
                f"the checksum file of version {self.snapshot.version} was not written: "
                f"{error.message}"
            )
            return None

    def plan_cleanup(self, plan: CheckpointPlan, confirm: Confirm | None) -> CleanupPlan:
        """Return the log files that can be deleted after the checkpoint.

        With ``confirm``, these are the files that have expired by this machine's clock.
        """
        if not self._latest.properties.expired_log_cleanup:
            self._context.warn(
                "delta.enableExpiredLogCleanup is false, but this run cleans up the log anyway, as "
                "requested"
            )
        now_ms = self._context.clock.now_ms()
        proven_ms = planning_now(self._log, self._latest, self._context, now_ms)
        cleanup = self._plan_cleanup(plan, proven_ms if confirm is None else now_ms)
        for warning in cleanup.warnings:
            self._context.warn(warning)
        if confirm is None:
            explains = not (self._options.if_enabled or self._options.truncates)
            if explains and proven_ms < now_ms:
                self._warn_of_kept(self._plan_cleanup(plan, now_ms), cleanup)
            return cleanup
        if proven_ms < now_ms and not self._is_proven(plan, cleanup, proven_ms):
            newest = format_timestamp(proven_ms - DAY_MS)
            files = format_count(len(cleanup.files), "log file")
            text = (
                f"This machine's clock says {format_timestamp(now_ms)}, but the newest earlier "
                f"commit of the table is of {newest}. If the clock is wrong, the cleanup deletes "
                f"versions inside the retention. Delete {files}?"
            )
            if not confirm(text):
                raise SafetyError("not confirmed: nothing was written or deleted")
            self._is_confirmed = True
        return cleanup

    def ensure_base(self, cleanup: CleanupPlan, planned: Snapshot | None = None) -> None:
        """Raise an error if the checkpoint that remains as the oldest differs from older files.

        Raise one too if the cleanup deletes versions without a live file that is lost.

        ``planned`` is a version that will have a checkpoint before the cleanup. When it is written,
        the same files are not read again: what was written was compared with ``planned``.
        """
        base = cleanup.checkpoint_version
        if base is None or not (cleanup.commits or cleanup.checkpoints):
            return
        is_planned = planned is not None and planned.version == base
        found = sum(1 for checkpoint in self._log.checkpoints if checkpoint.version == base)
        files = (base, found + is_planned, cleanup.commits, cleanup.checkpoints)
        if files == self._compared:
            return
        own = planned if is_planned else None
        added = AddedNames(cleanup.lost[0][0]) if cleanup.lost else None
        visitors = [self._doubts] if added is None else [self._doubts, added]
        problem = find_base_problem(self._log, base, own, visitors)
        self._ensure_undoubted(cleanup=True)
        if not (is_planned and found):  # another checkpoint of the version was not compared
            self._compared = files
        if problem is None and base in self._log.listed.checksums:
            problem = find_contradiction(own or self._log.snapshot(base))
        if problem is not None:
            raise SafetyError(
                f"the cleanup would leave the checkpoint of version {base} of {self._log.uri} as "
                f"the oldest, but it disagrees with the older log files: {problem}",
                hint=restore_commit() + " Nothing was deleted."
                if self._doubts.found
                else "Run `deltactl checkpoint TABLE --repair`, then rerun. If the repair refuses, "
                "restore the file that it names from a backup first. Nothing was deleted.",
            )
        if (foreign := find_foreign_id(self._log, base, own)) is not None:
            raise SafetyError(
                f"the cleanup would delete versions up to {foreign[1]} of {self._log.uri}, but the "
                f"checkpoint after them may be of another table: {foreign[0]}",
                hint="Run `deltactl check TABLE`, which says what to do, then rerun. Nothing was "
                "deleted.",
            )
        if added is not None:
            # The progress of the run is that of the files that it writes.
            context = replace(self._context, on_progress=None)
            ensure_nothing_lost(self._log, self._latest, added, context)

    def _warn_of_kept(self, by_clock: CleanupPlan, proven: CleanupPlan) -> None:
        """Warn if files are kept that have expired only by this machine's clock."""
        kept = set(by_clock.files) - set(proven.files)
        if kept:
            files = format_count(len(kept), "log file is", "log files are")
            command = f"`deltactl checkpoint {shlex.quote(self._log.uri)} --cleanup-only`"
            remedy = f"run {command} on a terminal, which asks"
            self._context.warn(explain_waiting(files, remedy))

    @cached_property
    def _latest(self) -> Snapshot:
        if self._options.version is None and self._log.listed.published_through is None:
            return self.snapshot
        return self._log.snapshot()

    def _is_proven(self, plan: CheckpointPlan, cleanup: CleanupPlan, proven_ms: int) -> bool:
        """Return whether the files of a cleanup have expired at a time before now too."""
        try:
            proven = self._plan_cleanup(plan, proven_ms)
        except SafetyError:  # of --version: it is inside the retention then
            return False
        return set(cleanup.files) <= set(proven.files)

    def _plan_cleanup(
        self, plan: CheckpointPlan, now_ms: int, latest: Snapshot | None = None
    ) -> CleanupPlan:
        return plan_cleanup(
            self._log,
            latest or self._latest,
            now_ms,
            up_to=self._options.version,
            planned=None if plan.is_empty else plan.version,
            truncates=self._options.truncates,
        )

    def clean(self, report: CheckpointReport) -> CheckpointReport:
        """Plan again on the current log, including the new checkpoint, and delete."""
        latest, cleanup = self._log.retry_after_cleanup(self._plan_again)
        for warning in cleanup.warnings:
            self._context.warn(warning)
        failed = execute_cleanup(self._log, CommitBase.of(latest), cleanup)
        reasons = tuple((name, error.message) for name, error in failed.items())
        return replace(report, cleanup=cleanup, failed=reasons)

    def _plan_again(self) -> tuple[Snapshot, CleanupPlan]:
        self._log.ensure_newest()
        latest = self._log.snapshot()  # its properties may have changed while the run wrote
        now_ms = (
            self._context.clock.now_ms()
            if self._is_confirmed
            # The earlier snapshot: a wrong clock may have dated the commits since.
            else trusted_now(self._log, self._latest, self._context, asks_store=True)
        )
        if self._options.if_enabled and not latest.properties.expired_log_cleanup:
            reason = "delta.enableExpiredLogCleanup was set to false"
            return latest, CleanupPlan(now_ms, reason=reason)
        cleanup = self._plan_cleanup(CheckpointPlan(self.snapshot.version, None), now_ms, latest)
        self.ensure_base(cleanup)
        if not cleanup.is_empty:  # else the log of another table would be cleaned up
            CommitBase.of(self._latest).ensure_same_table(self._log)
        return latest, cleanup
