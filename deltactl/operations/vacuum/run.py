"""``vacuum``: remove files that no retained version needs, with a dry run and an undo.

plan (from the log, and a listing unless the log is enough) -> confirm -> journal -> remove.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from deltactl.errors import (
    DeltactlError,
    InterruptedRunError,
    ObjectNotFoundError,
    SafetyError,
    UnsupportedByStoreError,
    Warn,
)
from deltactl.log.audit.audited_snapshot import audit_snapshot, load_with_doubts
from deltactl.log.audit.commit_doubts import CommitDoubts, restore_commit
from deltactl.log.commits.events import EventCollector
from deltactl.log.committers.committer import Permission
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase, noticing_loss
from deltactl.operations.after_commit import run_after_commit
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import planning_now
from deltactl.operations.uploads import abort_ended_uploads
from deltactl.operations.vacuum.kept_files import reads_iceberg, version_to_keep
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.planner import Planner
from deltactl.operations.vacuum.removal import (
    Replan,
    VacuumRun,
    record_vacuumed,
    warned_of_no_record,
)
from deltactl.operations.vacuum.report import VacuumReport
from deltactl.operations.vacuum.retention import Retention, resolve_retention
from deltactl.operations.vacuum.waiting import plan_with_waiting
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.path_columns import parent_directories
from deltactl.storage.store import Store
from deltactl.units import HOUR_MS, format_count

__all__ = ["VacuumOptions", "VacuumPlan", "VacuumReport", "vacuum_table"]

_log: Final = logging.getLogger(__name__)

Confirm = Callable[[VacuumPlan], bool]
"""``confirm(plan) -> bool``: called before a file is removed; returns whether to proceed."""


def vacuum_table(
    log: DeltaLog,
    options: VacuumOptions,
    context: RunContext,
    *,
    orphans: Orphans = "keep",
    confirm: Confirm | None = None,
    dry_run: bool = False,
) -> VacuumReport:
    """Plan and, unless ``dry_run``, carry out a vacuum of the latest version.

    The ``run_id`` of the context, if it has one, is recorded in its commits.

    Raises:
        UnsupportedFeatureError: a table feature forbids it.
        SafetyError: a rule that protects data refuses; nothing was removed.
        InterruptedRunError: ``cancel`` was set before a file was removed.
        TableError: the log is damaged, or a version to keep cannot be rebuilt.
        DeltactlError: nothing could be removed.
    """
    store = log.store
    log.ensure_allowed(Permission.CLEAN_DATA)
    snapshot, plan_by, plan = log.retry_after_cleanup(
        lambda: _make_plan(log, options, orphans, context)
    )
    _log.info(
        "%s: %s to remove, %d bytes, version %d, %s",
        store.uri, format_count(plan.files.num_rows, "file"), plan.size_bytes, plan.version,
        plan.mode,
    )  # fmt: skip
    # A table that was moved lacks the files to delete, too.
    if plan.loss is not None or plan.is_empty:
        CommitBase.of(snapshot).ensure_same_table(log)
    refusal = (
        log.refusal
        or find_refusal(plan, is_asked=confirm is not None)
        or _find_other_file_system(store, plan, options)
    )
    warn_of_loss(plan, context.warn, refusal)
    skipped = _find_shortfall(plan, options)
    if skipped is not None:
        return VacuumReport(plan, context.engine.name, dry_run=dry_run, skipped=skipped)
    if dry_run or plan.is_empty:
        what = "a real run" if dry_run else "a vacuum that has files to remove"
        context.warn_of_refusal(refusal, what)
        if not dry_run:
            with warned_of_no_record(context.warn):
                record_vacuumed(store, plan, is_clean=True)
            abort_ended_uploads(store, context.clock, context.warn)
        return VacuumReport(plan, context.engine.name, dry_run=dry_run)
    if refusal is not None:
        raise refusal
    if confirm is not None and not confirm(plan):
        raise SafetyError("not confirmed: nothing was removed")
    if context.is_cancelled:
        raise InterruptedRunError("interrupted; nothing was removed")
    abort_ended_uploads(store, context.clock, context.warn)
    log.ensure_can_commit(Permission.CLEAN_DATA)
    run = VacuumRun(log, snapshot, plan, options, context, replan=plan_by)
    with noticing_loss(log, snapshot, ObjectNotFoundError):  # the directory of the journal
        report = run.execute()
    if report.versions and not (report.interrupted or report.was_replaced):
        run_after_commit(
            log,
            snapshot,
            run.state,
            context,
            files_changed=False,
            # The kept versions need their commits, and a rerun finds in them what is left.
            keeps_history=bool(options.keep_versions or report.failures)
            or options.keep_last is not None,
        )
    return report


def _make_plan(
    log: DeltaLog, options: VacuumOptions, orphans: Orphans, context: RunContext
) -> tuple[Snapshot, Replan, VacuumPlan]:
    """Read the log and plan; also return a function that plans with another cutoff."""
    planner, now_ms = open_planner(log, options, orphans, context)
    planner.snapshot = audit_snapshot(log, planner.snapshot, strict=True)

    def plan_by(cutoff_ms: int) -> VacuumPlan:
        retention = replace(planner.retention, cutoff_ms=cutoff_ms)
        return replace(planner, retention=retention).plan()

    return planner.snapshot, plan_by, plan_with_waiting(planner, now_ms)


def open_planner(
    log: DeltaLog, options: VacuumOptions, orphans: Orphans, context: RunContext
) -> tuple[Planner, int]:
    """Read the log; return the planner of a vacuum, and the time of this machine's clock.

    Raises:
        DeltactlError: as ``vacuum_table``.
    """
    log.ensure_newest()
    events, doubts = EventCollector(), CommitDoubts()
    snapshot = load_with_doubts(log, doubts, visitors=[events])
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.VACUUM)
    for version in options.keep_versions:
        if not log.first_commit <= version <= snapshot.version:
            # A plan that removes nothing would not read it, and hide a wrong number.
            version_to_keep(log, version)
    formats = snapshot.properties.uniform_formats
    if formats and not reads_iceberg(snapshot):
        context.warn(
            f"the metadata of {formats} may refer to files of older versions until the next "
            "conversion: such files are kept for the retention, and not longer. To keep what "
            "Iceberg metadata refer to, install deltactl[iceberg]"
        )
    clones = read_notes(log.store)
    now_ms = context.clock.now_ms()
    retention = _find_retention(log, snapshot, options, context, now_ms)
    planner = Planner(
        log, snapshot, options, retention, context, clones, events, orphans, doubts=doubts
    )
    return planner, now_ms


def _find_retention(
    log: DeltaLog, snapshot: Snapshot, options: VacuumOptions, context: RunContext, now_ms: int
) -> Retention:
    """Return the retention, from the trusted time; with ``force_retention``, from the clock's."""
    if options.force_retention:
        return resolve_retention(snapshot.properties, options, now_ms)
    proven_ms = planning_now(log, snapshot, context, now_ms)
    retention = resolve_retention(snapshot.properties, options, proven_ms)
    if proven_ms >= now_ms - HOUR_MS:
        return retention
    text = (
        f"{retention.rule}, from a day after the newest earlier commit: if this machine's clock "
        f"is right, add {option('force_retention', True)} to remove more"
    )
    return replace(retention, rule=text)


def _find_shortfall(plan: VacuumPlan, options: VacuumOptions) -> str | None:
    if options.need is None or plan.is_empty:
        return None
    return options.need.find_shortfall(files=plan.files.num_rows, size_bytes=plan.size_bytes)


def warn_of_loss(plan: VacuumPlan, warn: Warn, refusal: DeltactlError | None = None) -> None:
    """Warn of lost live files, unless the vacuum is refused, mostly because of them."""
    if plan.loss is not None and refusal is None:
        warn(f"{plan.loss}. Run `deltactl check TABLE` for details")


def find_refusal(plan: VacuumPlan, *, is_asked: bool = False) -> SafetyError | None:
    """Return an error if the plan would remove too many files that no commit references.

    Return one too, unless a person is asked, if a commit may have lost the add actions of files
    that are not live without them, or if a live file is lost: perhaps a restore needs files of the
    plan to bring back its rows.
    """
    if plan.doubt is not None and not is_asked:
        return SafetyError(
            f"{plan.doubt}. Files of lost add actions would be removed",
            hint=restore_commit() + " Or run `deltactl vacuum TABLE` on a terminal, which asks.",
        )
    if plan.loss is not None and plan.files.num_rows and not is_asked:
        return SafetyError(
            f"{plan.loss}. The files that this run would remove may have its rows: a restore of an "
            "earlier version brings them back",
            hint=f"Run `deltactl check TABLE` for details. {plan.losses.remedies} Then rerun. Or "
            "run `deltactl vacuum TABLE` on a terminal, which asks.",
        )
    if not plan.has_too_many_orphans:
        return None
    share = plan.orphans / max(plan.listed_files or 0, 1)
    return SafetyError(
        f"{plan.orphans:,} of {plan.listed_files:,} files in the table directory ({share:.0%}) "
        "are not referenced by any commit in the log. This is more than "
        f"{option('max_orphan_fraction')} {plan.max_orphan_fraction:g} allows. Unreferenced files "
        f"by directory: {plan.orphan_folders}",
        hint=f"Rerun with {option('dry_run', True)} to see these files. If they may be removed, "
        f"rerun with a higher {option('max_orphan_fraction')}.",
    )


def _find_other_file_system(
    store: Store, plan: VacuumPlan, options: VacuumOptions
) -> UnsupportedByStoreError | None:
    """Return an error if the quarantine is on another file system than some files of the plan."""
    if not options.quarantine or store.directories is None:
        return None
    folders = sorted(parent_directories(plan.files["path"]))
    foreign = store.directories.foreign_directories(folders)
    if not foreign:
        return None
    more = f" (and {len(foreign) - 1:,} more)" if len(foreign) > 1 else ""
    return UnsupportedByStoreError(
        f"files in the directory {foreign[0]!r}{more} of {store.uri} cannot be moved to the "
        "quarantine: the directory is on another file system than the table directory, and a "
        "rename works only within one file system",
        hint=f"Rerun without {option('quarantine')}: the files are then deleted, and cannot be "
        "restored. Or keep the whole table on one file system.",
    )
