"""``alter``: change properties and features of a table.

plan (from the log) -> commits, one after another. A run that is stopped between two commits leaves
a valid table, and the next run makes the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Final

import pyarrow as pa

from deltactl.errors import InterruptedRunError, SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import with_data_change
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description, engine_info, run_tags
from deltactl.log.writing.transaction import Transaction
from deltactl.operations.after_commit import run_after_commit
from deltactl.operations.alter.commits import BackfillCommit, StateCommit
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.plan import AlterPlan, Step, StepKind, plan_alter
from deltactl.operations.alter.report import AlterReport
from deltactl.operations.run_context import RunContext
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported

__all__ = ["AlterOptions", "AlterPlan", "AlterReport", "alter_table"]

Confirm = Callable[[AlterPlan], bool]
"""``confirm(plan) -> bool``: called before the first commit; returns whether to proceed."""

_FILES_PER_COMMIT: Final = 100_000


def alter_table(
    log: DeltaLog,
    options: AlterOptions,
    context: RunContext,
    *,
    confirm: Confirm | None = None,
    dry_run: bool = False,
) -> AlterReport:
    """Plan and, unless ``dry_run``, commit a change of properties and features.

    Raises:
        UsageError: a property or feature is not possible.
        UnsupportedFeatureError: a table feature forbids it.
        SafetyError: the table does not allow it, or it was not confirmed; nothing was changed.
        ConflictError: another writer changed the table.
        InterruptedRunError: ``cancel`` was set between two commits.
    """
    snapshot, plan = log.retry_after_cleanup(lambda: _make_plan(log, options, context))
    report = AlterReport(plan, context.engine.name, dry_run=dry_run)
    if plan.is_empty or dry_run:
        return report
    log.ensure_can_commit()
    if plan.risks and confirm is not None and not confirm(plan):
        raise SafetyError("not confirmed: nothing was changed")
    run = _Run(log, snapshot, plan, context)
    for step in plan.steps:
        run.do(step)
    after = run.transaction.base
    run_after_commit(log, snapshot, after, context, files_changed=False)
    return replace(report, version_after=after.version)


def _make_plan(
    log: DeltaLog, options: AlterOptions, context: RunContext
) -> tuple[Snapshot, AlterPlan]:
    log.ensure_exists()
    snapshot = log.snapshot()
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.ALTER)
    return snapshot, plan_alter(snapshot, options, context.clock.new_id())


class _Run:
    """Makes the commits of a plan."""

    def __init__(
        self, log: DeltaLog, snapshot: Snapshot, plan: AlterPlan, context: RunContext
    ) -> None:
        self._log, self._plan, self._context = log, plan, context
        self._start = snapshot.version
        self.transaction: Transaction = context.transaction(log, CommitBase.of(snapshot))

    def do(self, step: Step) -> None:
        """Make the commits of a step."""
        base = self.transaction.base
        if self._context.is_cancelled:
            is_part_done = base.version > self._start
            raise InterruptedRunError(
                f"interrupted before {step.operation}", is_part_done=is_part_done, hint="Rerun."
            )
        if step.kind is StepKind.BACKFILL:
            self._backfill(step)
            return
        is_last = step.kind is StepKind.PROPERTIES
        plan = self._plan
        self.transaction.commit(
            StateCommit(
                description=self._describe(step),
                read_version=base.version,
                metadata=plan.metadata if is_last and plan.metadata != base.metadata else None,
                protocol=None if base.protocol == plan.protocol else plan.protocol,
                enables_timestamps=is_last and plan.enables_timestamps,
                needs_row_ids=is_last and plan.enables_row_ids,
            )
        )

    def _backfill(self, step: Step) -> None:
        """Give row ids to all files that lack them, also to those that others add meanwhile."""
        for number in count():
            version = self.transaction.base.version
            files = self._files_without_ids(version)
            if not files.num_rows:
                return
            described = self._describe(replace(step, parameters={"batchId": str(number)}))
            some = with_data_change(files.slice(0, _FILES_PER_COMMIT), False)
            self.transaction.commit(BackfillCommit(described, version, some))

    def _files_without_ids(self, version: int) -> pa.Table:
        batches = [
            batch.filter(batch["base_row_id"].is_null())
            for batch in self._log.snapshot(version).file_batches(ADD_SCHEMA.names)
        ]
        return pa.concat_tables([ADD_SCHEMA.empty_table(), *batches])

    def _describe(self, step: Step) -> Description:
        changes_state = step.kind is not StepKind.BACKFILL
        return Description(
            operation=step.operation,
            parameters=step.parameters,
            engine_info=engine_info(self._context.engine.name),
            tags={**run_tags(self._context.run_id), **step.tags},
            isolation_level="Serializable" if changes_state else "SnapshotIsolation",
            is_blind_append=changes_state,
        )
