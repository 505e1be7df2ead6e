"""``vacuum``: remove files that no retained version needs, with a dry run and an undo.

plan (from the log, and a listing unless the log suffices) -> confirm -> journal -> remove.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from deltactl.clock import Clock, SystemClock
from deltactl.engine.base import CancelToken, Engine, OnProgress
from deltactl.engine.local import LocalEngine
from deltactl.errors import InterruptedRunError, SafetyError, Warn
from deltactl.log.listing import list_log, outlast_cleanup
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.log.writing.base import CommitBase
from deltactl.log.writing.put import Sleep
from deltactl.operations.after_commit import follow_commit
from deltactl.operations.vacuum.bookmark import write_bookmark
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.planner import Planner
from deltactl.operations.vacuum.removal import Replan, VacuumRun, ensure_may_vacuum
from deltactl.operations.vacuum.report import VacuumReport
from deltactl.operations.vacuum.retention import resolve_retention
from deltactl.storage.store import Store
from deltactl.units import format_count

__all__ = ["VacuumOptions", "VacuumPlan", "VacuumReport", "vacuum_table"]

_log: Final = logging.getLogger(__name__)

Confirm = Callable[[VacuumPlan], bool]
"""``confirm(plan) -> bool``: called before anything is removed; returns whether to proceed."""


def vacuum_table(
    store: Store,
    options: VacuumOptions,
    *,
    warn: Warn,
    engine: Engine | None = None,
    clock: Clock | None = None,
    storage_options: Mapping[str, str] | None = None,
    confirm: Confirm | None = None,
    cancel: CancelToken | None = None,
    on_progress: OnProgress | None = None,
    dry_run: bool = False,
    sleep: Sleep = time.sleep,
    run_id: str | None = None,
) -> VacuumReport:
    """Plan and, unless ``dry_run``, carry out a vacuum of the latest version.

    ``run_id``, if given, is recorded in its commits.

    Raises:
        UnsupportedFeatureError: a table feature forbids it.
        SafetyError: a rule that protects data refuses; nothing was removed.
        InterruptedRunError: ``cancel`` was set before anything was removed.
        TableError: the log is damaged, or a version to keep cannot be rebuilt.
        DeltactlError: nothing could be removed.
    """
    clock, engine = clock or SystemClock(), engine or LocalEngine()
    snapshot, plan_by, plan = outlast_cleanup(
        lambda: _make_plan(store, options, clock.now_ms, storage_options or {}, warn)
    )
    _log.info(
        "%s: %s to remove, %d bytes, version %d, %s",
        store.uri, format_count(plan.files.num_rows, "file"), plan.size_bytes, plan.version,
        plan.mode,
    )  # fmt: skip
    refusal = _find_refusal(plan)
    skipped = _find_shortfall(plan, options)
    if skipped is not None:
        return VacuumReport(plan, engine.name, dry_run=dry_run, skipped=skipped)
    if dry_run or plan.is_empty:
        if refusal is not None:
            warn(f"a real run would be refused: {refusal.message}; {refusal.hint}")
        if not dry_run and plan.bookmark != plan.bookmark_before:
            write_bookmark(store, plan.bookmark)
        return VacuumReport(plan, engine.name, dry_run=dry_run)
    if refusal is not None:
        raise refusal
    if confirm is not None and not confirm(plan):
        raise SafetyError("not confirmed: nothing was removed")
    if cancel is not None and cancel.is_set():
        raise InterruptedRunError("interrupted; nothing was removed")
    store.ensure_put_if_absent()
    run = VacuumRun(
        snapshot,
        plan,
        options,
        replan=plan_by,
        engine=engine,
        clock=clock,
        sleep=sleep,
        storage_options=storage_options or {},
        run_id=run_id,
    )
    report = run.execute(cancel, on_progress)
    if report.versions and not report.interrupted:
        follow_commit(
            snapshot,
            report.version_after,
            warn=warn,
            engine=engine,
            clock=clock,
            storage_options=storage_options or {},
            files_changed=False,
            # The kept versions need their commits too.
            keeps_history=bool(options.keep_versions) or options.keep_last is not None,
        )
    return report


def _make_plan(
    store: Store,
    options: VacuumOptions,
    now_ms: Callable[[], int],
    storage_options: Mapping[str, str],
    warn: Warn,
) -> tuple[Snapshot, Replan, VacuumPlan]:
    """Read the log and plan; also return a function that plans with another cutoff."""
    listing = list_log(store)
    snapshot = load_snapshot(store, warn=warn, listing=listing)
    ensure_may_vacuum(CommitBase.of(snapshot))
    retention = resolve_retention(snapshot.properties, options, now_ms())

    def plan_by(cutoff_ms: int) -> VacuumPlan:
        dated = replace(retention, cutoff_ms=cutoff_ms)
        return Planner(snapshot, listing, options, dated, storage_options, warn).plan()

    return snapshot, plan_by, plan_by(retention.cutoff_ms)


def _find_shortfall(plan: VacuumPlan, options: VacuumOptions) -> str | None:
    if options.need is None or plan.is_empty:
        return None
    return options.need.find_shortfall(files=plan.files.num_rows, size_bytes=plan.size_bytes)


def _find_refusal(plan: VacuumPlan) -> SafetyError | None:
    """Return an error if the plan would remove too many files that no commit names."""
    if not plan.has_too_many_orphans:
        return None
    share = plan.orphans / max(plan.listed_files or 0, 1)
    return SafetyError(
        f"no commit in the log names {plan.orphans:,} of {plan.listed_files:,} files here "
        f"({share:.0%}), more than --max-orphan-fraction {plan.max_orphan_fraction:g} "
        f"allows; by folder: {plan.orphan_folders}",
        hint="Inspect them with --dry-run; if they may be removed, raise --max-orphan-fraction.",
    )
