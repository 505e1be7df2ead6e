"""Repair findings of one kind: plan, confirm, change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from deltactl.errors import InterruptedRunError, SafetyError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.fixes.log_files import plan_log_file
from deltactl.operations.check.fixes.missing import plan_missing
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.operations.check.fixes.path_encoding import plan_paths
from deltactl.operations.check.fixes.report import Confirm, FixPlan, FixReport
from deltactl.operations.check.fixes.stats import plan_stats
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option

_FIXES: Final[Mapping[Fix, Callable[[DeltaLog, FixOptions, RunContext], FixPlan]]] = {
    Fix.CHECKSUM: plan_log_file,
    Fix.LAST_CHECKPOINT: plan_log_file,
    Fix.MISSING_FILES: plan_missing,
    Fix.MISSING_VECTORS: plan_missing,
    Fix.PATH_ENCODING: plan_paths,
    Fix.STATS: plan_stats,
}


def fix_table(
    log: DeltaLog,
    options: FixOptions,
    context: RunContext,
    *,
    confirm: Confirm | None = None,
    dry_run: bool = False,
) -> FixReport:
    """Repair the findings of a kind. ``confirm`` is called before the first change.

    After the first of several commits, an error is that of the report, and names the versions that
    were committed.

    Raises:
        UsageError: no fix was chosen, or a path is not one that it can repair.
        SafetyError: a rule that protects data refuses, or the repair was not confirmed.
        UnsupportedFeatureError: a table feature forbids it.
        ConflictError: another writer changed the files or the table.
        InterruptedRunError: ``cancel`` was set before the first change.
        CorruptLogError: the log is damaged.
        StorageError: a file could not be looked up, or a commit failed.
    """
    kind = options.kind
    if kind is None:
        raise UsageError(f"{option('kind')} is needed: one of {', '.join(Fix)}")
    plan = log.retry_after_cleanup(lambda: _FIXES[kind](log, options, context))
    report = replace(plan.report, dry_run=dry_run)
    if report.is_empty:
        return report
    if dry_run:
        context.warn_of_refusal(plan.refusal)
        return report
    if plan.refusal is not None:
        raise plan.refusal
    if confirm is not None and not confirm(report):
        raise SafetyError("not confirmed: nothing was changed")
    if context.is_cancelled:
        raise InterruptedRunError("interrupted; nothing was changed", hint="Rerun.")
    log.ensure_can_commit()
    return plan.apply(report)
