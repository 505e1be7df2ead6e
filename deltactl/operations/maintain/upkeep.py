"""Find due work other than optimize: a checkpoint, log cleanup, manifests, a vacuum."""

from __future__ import annotations

from typing import Final

from deltactl.errors import SafetyError, UnsupportedFeatureError
from deltactl.log.audit.checkpoints import find_hint_problem
from deltactl.log.upkeep.cleanup import plan_cleanup
from deltactl.operations.checkpoint.doubts import ensure_undoubted
from deltactl.operations.checkpoint.plan import is_due, may_announce
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.maintain.actions import Action, Effect, TableSubject
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.manifest.content import load_table
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.place import find_schemes
from deltactl.operations.manifest.plan import UNCHANGED
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.vacuum.candidates import WAITING
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.planner import Planner
from deltactl.operations.vacuum.retention import resolve_retention
from deltactl.operations.vacuum.run import find_refusal, warn_of_loss
from deltactl.operations.vacuum.waiting import count_waiting, plan_with_waiting
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.properties import ensure_valid_property
from deltactl.units import format_count, format_size, to_duration_ms

_FIRST_CHECKPOINT_BYTES: Final = 15_000
_BYTES_A_FILE: Final = 250  # of a checkpoint, compressed
_REQUESTS_A_RUN: Final = 10
_MIN_LOG_FILES: Final = 20  # fewer expired files are not worth a run
_NAMES_A_REQUEST: Final = 1000


def find_checkpoint(subject: TableSubject) -> list[Action]:
    """Return the checkpoint if it is due by the interval, or ``_last_checkpoint`` is wrong.

    Raises:
        SafetyError: a commit may be damaged.
    """
    snapshot = subject.snapshot
    segment = snapshot.segment
    last, interval = segment.checkpoint_version, snapshot.properties.checkpoint_interval
    tail = snapshot.version - last
    text = f"{format_count(tail, 'commit')} since the last checkpoint; the interval is {interval}"
    problem = None
    if not is_due(last, snapshot.version, interval):
        problem = find_hint_problem(subject.log, snapshot)
        if problem is None:
            return []
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CHECKPOINT)
    if problem is not None and may_announce(subject.log, segment.checkpoint):
        return [_replace_hint(subject, problem)]
    ensure_undoubted(subject.log, subject.doubts)
    tail_bytes = sum(info.size_bytes for info in segment.tail)
    head_bytes = 0
    if segment.checkpoint is not None:
        head_bytes = sum(info.size_bytes for info in segment.checkpoint.files)
    written = max(head_bytes, _FIRST_CHECKPOINT_BYTES)
    written += _BYTES_A_FILE * snapshot.tail.add_rows.num_rows
    saved = len(segment.tail) - (0 if segment.checkpoint else 1)
    return [
        subject.action(
            "checkpoint",
            problem or text,
            Effect(requests_saved=max(saved, 0)),
            requests=_REQUESTS_A_RUN + len(segment.tail),
            bytes_read=head_bytes + tail_bytes,
            bytes_written=written,
        )
    ]


def _replace_hint(subject: TableSubject, problem: str) -> Action:
    """Return the replacement of ``_last_checkpoint``, before which the checkpoint is compared."""
    segment, commits = subject.snapshot.segment, subject.log.commit_files
    older = [info for version, info in commits.items() if version <= segment.checkpoint_version]
    files = [*older, *(segment.checkpoint.files if segment.checkpoint else ())]
    return subject.action(
        "checkpoint",
        problem,
        Effect(requests_saved=1 + len(commits) // _NAMES_A_REQUEST),  # a listing of the whole log
        requests=_REQUESTS_A_RUN + len(files),
        bytes_read=sum(info.size_bytes for info in files),
    )


def find_cleanup(subject: TableSubject) -> list[Action]:
    """Count the expired log files, and return their deletion if there are enough.

    If there are too few old commits, and none wait, only the listing is examined.

    Raises:
        SafetyError: the retention of the table is invalid, or checkpoint protection applies, or a
            commit may be damaged.
    """
    facts, log, snapshot = subject.facts, subject.log, subject.snapshot
    if not snapshot.properties.expired_log_cleanup:
        facts.expired_log_files = facts.waiting_log_files = 0
        return []
    with ensure_valid_property("delta.logRetentionDuration", "no history is deleted"):
        kept_ms = snapshot.properties.log_retention_ms
    newest = snapshot.segment.checkpoint_version
    times = [info.modified_ms for v, info in log.commit_files.items() if v < newest]
    old, old_by_clock = (
        sum(time < now_ms - kept_ms for time in times)
        for now_ms in (subject.expiry_ms, subject.now_ms)
    )
    plan = plan_cleanup(log, snapshot, subject.expiry_ms) if old >= _MIN_LOG_FILES else None
    number = old if plan is None else len(plan.files)
    facts.expired_log_files = number
    facts.waiting_log_files = 0 if old_by_clock == old else _count_waiting(subject)
    if plan is None or number < _MIN_LOG_FILES:
        return []
    ensure_undoubted(subject.log, subject.doubts, cleanup=True)
    files = format_count(number, "log file")
    return [
        subject.action(
            "log-cleanup",
            f"{files} older than the log retention ({format_size(plan.size_bytes)})",
            Effect(files_removed=number, bytes_freed=plan.size_bytes),
            requests=_REQUESTS_A_RUN + number // _NAMES_A_REQUEST,
        )
    ]


def _count_waiting(subject: TableSubject) -> int:
    """Return the number of commits that only a cleanup by this machine's clock would delete."""
    plans = (
        plan_cleanup(subject.log, subject.snapshot, it)
        for it in (subject.now_ms, subject.expiry_ms)
    )
    try:
        by_clock, proven = (len(plan.commits) for plan in plans)
    except SafetyError:  # checkpoint protection applies: no cleanup deletes them
        return 0
    return by_clock - proven


def find_manifest(subject: TableSubject) -> list[Action]:
    """Count the outdated manifests, and return their update if it is needed.

    Only tables with manifests, or with the property that enables them, are examined.

    Raises:
        UnsupportedFeatureError: the table property enables manifests, but manifests cannot describe
            the table.
    """
    facts, snapshot = subject.facts, subject.snapshot
    asked = snapshot.properties.refreshes_manifests
    schemes = find_schemes(subject.log)
    if not asked and schemes is None:
        facts.has_manifests = False
        return []
    options = ManifestOptions(check=True, schemes=schemes or {})
    snapshot, lines = load_table(subject.log, None, snapshot, options.schemes)
    try:
        report = generate_manifests(
            subject.log,
            options,
            subject.context,
            snapshot=snapshot,
            lines=lines,
            dry_run=True,
        )
    except UnsupportedFeatureError:
        if asked:
            raise
        facts.has_manifests = True
        return []  # old manifests of a table that has them no more
    stale = sum(row.state != UNCHANGED for row in report.plan.partitions)
    facts.has_manifests, facts.stale_manifests = True, stale
    if not stale:
        return []
    return [
        subject.action(
            "manifest",
            f"{format_count(stale, 'manifest')} not of version {snapshot.version}",
            Effect(requests_saved=stale),
            requests=_REQUESTS_A_RUN + stale,
        )
    ]


def vacuum_options(policy: MaintainPolicy) -> VacuumOptions:
    """Return the options of vacuum; the retention is never shorter than that of the table."""
    return VacuumOptions(
        retain_ms=None if policy.retain is None else to_duration_ms(policy.retain),
        mode="full" if policy.list_files == "always" else "auto",
    )


def find_vacuum(subject: TableSubject) -> list[Action]:
    """Count the files that a vacuum would remove, and return the vacuum if there are enough.

    By default, the files are listed only if the log is not enough (no vacuum was recorded, or its
    commits are deleted) and some file may be old enough; ``list-files`` of the policy can change
    this.

    Raises:
        SafetyError: the policy's retention is less than the table's, or a rule refuses the vacuum.
        UnsupportedFeatureError: a table feature forbids it.
    """
    snapshot, context = subject.snapshot, subject.context
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.VACUUM)
    options = vacuum_options(subject.policy)
    retention = resolve_retention(snapshot.properties, options, subject.expiry_ms)
    clones = read_notes(snapshot.store)
    events, doubts = subject.events, subject.doubts
    planner = Planner(
        subject.log, snapshot, options, retention, context, clones, events, doubts=doubts
    )
    facts = subject.facts
    if planner.lists and not _may_list(subject, retention.cutoff_ms):
        facts.waiting_files = count_waiting(planner, subject.now_ms, warns=True)
        return []
    plan = plan_with_waiting(planner, subject.now_ms)
    files, size = plan.files.num_rows, plan.size_bytes
    is_first = plan.vacuumed_version is not None and plan.vacuumed_before is None
    is_due = bool(files and size) or is_first or plan.drops_record
    refusal = find_refusal(plan) if is_due else None
    if refusal is not None:
        raise refusal
    warn_of_loss(plan, context.warn)
    facts.reclaimable_files, facts.reclaimable_bytes = files, size
    facts.waiting_files = plan.kept.get(WAITING, 0)
    if plan.listed_files is not None:
        facts.orphans = plan.unnamed_kept
    if not is_due:
        return []
    looked = files if plan.listed_files is None else plan.listed_files // _NAMES_A_REQUEST
    # Later runs find removed files in the log, and list no files.
    saved = (plan.listed_files or 0) // _NAMES_A_REQUEST + 1 if is_first else 0
    reason = f"{format_count(files, 'file')} past the retention ({format_size(size)})"
    if not files:
        reason = "no vacuum is recorded; after this one, later runs need not list the files"
        if not is_first:
            reason = "the recorded vacuum is of an earlier table at this address"
    return [
        subject.action(
            "vacuum",
            reason,
            Effect(files_removed=files, bytes_freed=size, requests_saved=saved),
            requests=_REQUESTS_A_RUN + looked + files // _NAMES_A_REQUEST,
        )
    ]


def _may_list(subject: TableSubject, cutoff_ms: int) -> bool:
    """Return whether a listing of all files is allowed, and could find old files."""
    if subject.policy.list_files != "auto":
        return subject.policy.list_files == "always"
    commits = subject.log.commit_files
    if commits and min(commits) == 0:
        return commits[0].modified_ms <= cutoff_ms
    return True  # older commits are gone
