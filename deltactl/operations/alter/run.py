"""``alter``: change properties and features of a table.

plan (from the log) -> commits, one after another. A run that is stopped between two commits leaves
a valid table, and the next run makes the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, count
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    ConflictError,
    DeltactlError,
    InterruptedRunError,
    SafetyError,
    name_commits,
)
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import with_data_change
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description, engine_info, run_tags
from deltactl.log.writing.transaction import Draft, Transaction
from deltactl.operations.after_commit import run_after_commit
from deltactl.operations.alter.commits import FilesCommit, StateCommit
from deltactl.operations.alter.drop import plan_drop
from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.plan import plan_alter
from deltactl.operations.alter.report import AlterReport
from deltactl.operations.alter.steps import AlterPlan, Step, StepKind
from deltactl.operations.alter.traces import (
    TRACES,
    count_traces,
    list_unmarked_vectors,
    plan_rewrite,
)
from deltactl.operations.alter.truncation import plan_truncation, truncate_history
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.run import checkpoint_table
from deltactl.operations.run_context import RunContext
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, REMOVE_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.paths import encode_path

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
    """Plan and, unless ``dry_run``, change properties and features.

    After the first of several commits, an error is that of the report, and names the versions that
    were committed.

    Raises:
        UsageError: a property or feature is not possible.
        UnsupportedFeatureError: a table feature forbids it.
        SafetyError: the table does not allow it, or it was not confirmed; nothing was changed.
        ConflictError: another writer changed the table.
        InterruptedRunError: ``cancel`` was set before the first commit.
    """
    snapshot, plan = log.retry_after_cleanup(lambda: _make_plan(log, options, context))
    report = AlterReport(plan, context.engine.name, dry_run=dry_run)
    if plan.is_empty or dry_run:
        return report
    log.ensure_can_commit()
    if plan.risks and confirm is not None and not confirm(plan):
        raise SafetyError("not confirmed: nothing was changed")
    run = _Run(log, snapshot, context)
    try:
        for step in plan.steps:
            run.do(step)
    except DeltactlError as error:
        if not run.versions:
            raise
        named = name_commits(error, run.versions)
        return replace(report, versions=tuple(run.versions), error=named)
    after = run.transaction.base
    # With column mapping, earlier commits could not update the manifests.
    files_changed = options.drop_feature is not None
    # A retention that was shortened by mistake must not delete history at once.
    run_after_commit(log, snapshot, after, context, files_changed=files_changed, keeps_history=True)
    return replace(report, versions=tuple(run.versions))


def _make_plan(
    log: DeltaLog, options: AlterOptions, context: RunContext
) -> tuple[Snapshot, AlterPlan]:
    log.ensure_newest()
    # To drop a feature, files may be rewritten; else only the metadata changes.
    drops = options.drop_feature is not None
    snapshot = load_audited(log, or_warn=not drops, strict=drops)
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.ALTER)
    if drops:
        plan = plan_drop(log, snapshot, options, context)
        if any(step.writes_checkpoint for step in plan.steps):
            _ensure_readable(snapshot)
        return snapshot, plan
    return snapshot, plan_alter(snapshot, options, context.clock.new_id(), context.warn)


def _ensure_readable(snapshot: Snapshot) -> None:
    """Refuse a version of which no checkpoint can be written, before the first commit.

    Raises:
        CorruptLogError, SafetyError: its checkpoint cannot be read, or is wrong.
    """
    for _ in chain(snapshot.file_batches(), snapshot.tombstone_batches()):
        pass


class _Run:
    """Makes the commits of a plan."""

    def __init__(self, log: DeltaLog, snapshot: Snapshot, context: RunContext) -> None:
        self._log, self._context = log, context
        self.transaction: Transaction = context.transaction(log, CommitBase.of(snapshot))
        self.versions: list[int] = []

    @property
    def _version(self) -> int:
        return self.transaction.base.version

    def do(self, step: Step) -> None:
        """Make the commits of a step."""
        if self._context.is_cancelled:
            raise self._interrupted(step)
        match step.kind:
            case StepKind.STATE:
                self._change_state(step)
            case StepKind.PURGE:
                self._purge(step)
            case StepKind.TOMBSTONES:
                self._mark_vectors(step)
            case StepKind.BACKFILL | StepKind.UNBACKFILL:
                self._add_again(step)
            case StepKind.TRUNCATE:
                self._truncate()

    def _interrupted(self, step: Step) -> InterruptedRunError:
        return InterruptedRunError(
            f"interrupted before the end of {step.operation}",
            is_part_done=bool(self.versions),
            hint="Rerun: what is left is then done.",
        )

    def _commit(self, draft: Draft) -> None:
        self.versions.append(self.transaction.commit(draft).version)

    def _change_state(self, step: Step) -> None:
        trace = None if step.drops is None else TRACES.get(step.drops.name)
        if trace is not None and count_traces(self._log.snapshot(self._version), trace):
            raise ConflictError(
                f"another writer used {step.drops and step.drops.name} during the run",
                hint="Rerun: what is left is then done.",
            )
        draft = StateCommit(
            description=self._describe(step), read_version=self._version, step=step, trace=trace
        )
        self._commit(draft)
        if step.writes_checkpoint:
            checkpoint_table(
                self._log, CheckpointOptions(kind="classic"), self._context.without_cancel()
            )

    def _purge(self, step: Step) -> None:
        """Rewrite files in commits of ``optimize``, then go on from its version."""
        from deltactl.operations.optimize.run import optimize_table

        before, options = self.transaction.base, step.rewrite
        assert options is not None  # noqa: S101 - the step rewrites files
        report = optimize_table(self._log, options, self._context)
        self.versions += report.versions
        if report.failures:
            raise report.find_worst_failure()
        if step.metadata is not None and report.plan.is_empty and not report.interrupted:
            self._change_state(step)
            return
        snapshot = self._log.snapshot()
        base = CommitBase.of(snapshot)
        self.transaction = self._context.transaction(self._log, base)
        if report.interrupted:
            raise self._interrupted(step)
        expected = step.metadata or before.metadata, before.protocol
        if (base.metadata, base.protocol) != expected:
            raise ConflictError(
                "another writer changed the table's schema, properties or protocol during the run",
                hint="Rerun: what is left is then done.",
            )
        is_alone = list(report.versions) == list(range(before.version + 1, base.version + 1))
        if is_alone or options.purged != "old types":
            return  # the last commit finds what is left in the log, or a commit left nothing
        if not plan_rewrite(self._log, snapshot, options, self._context.clock.now_ms()).is_empty:
            raise ConflictError(
                "another writer added files with old types during the run",
                hint="Rerun: what is left is then done.",
            )

    def _truncate(self) -> None:
        truncate_history(self._log, self._context)
        self._log.update()
        snapshot = self._log.snapshot(self._version)
        plan_truncation(self._log, snapshot, self._context, truncates=False)

    def _mark_vectors(self, step: Step) -> None:
        files = list_unmarked_vectors(self._log.snapshot(self._version))
        if not len(files):
            return
        nulls = {field.name: pa.nulls(len(files), field.type) for field in REMOVE_SCHEMA}
        unchanged = pa.array(np.zeros(len(files), np.bool_))
        encoded = pa.array(map(encode_path, files.to_pylist()), pa.string())
        removed = pa.table(
            {**nulls, "path": files, "encoded_path": encoded, "data_change": unchanged},
            schema=REMOVE_SCHEMA,
        )
        draft = FilesCommit(self._describe(step), self._version, removed=removed)
        self._commit(draft)

    def _add_again(self, step: Step) -> None:
        """Add files with row ids or without them, also those that others add meanwhile."""
        for number in count():
            version = self._version
            files = self._files_to_add(version, without_ids=step.kind is StepKind.BACKFILL)
            if not files.num_rows:
                return
            described = self._describe(replace(step, parameters={"batchId": str(number)}))
            self._commit(FilesCommit(described, version, added=files))

    def _files_to_add(self, version: int, *, without_ids: bool) -> pa.Table:
        """Return files of a commit that have no row ids, or that have some, without these."""
        parts, found = [ADD_SCHEMA.empty_table()], 0
        for batch in self._log.snapshot(version).file_batches(ADD_SCHEMA.names):
            bare = batch["base_row_id"].is_null()
            part = batch.filter(bare if without_ids else pc.invert(bare))
            parts.append(part.slice(0, _FILES_PER_COMMIT - found))
            found += parts[-1].num_rows
            if found == _FILES_PER_COMMIT:
                break
        files = pa.concat_tables(parts)
        for name in () if without_ids else ("base_row_id", "default_row_commit_version"):
            nulls = pa.nulls(files.num_rows, pa.int64())
            files = files.set_column(files.schema.get_field_index(name), name, nulls)
        return with_data_change(files, False)

    def _describe(self, step: Step) -> Description:
        changes_state = step.metadata is not None or step.protocol is not None
        return Description(
            operation=step.operation,
            parameters=step.parameters,
            engine_info=engine_info(self._context.engine.name),
            tags={**run_tags(self._context.run_id), **step.tags},
            isolation_level="Serializable" if changes_state else "SnapshotIsolation",
            is_blind_append=step.kind is StepKind.STATE,
        )
