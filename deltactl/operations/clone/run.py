"""``clone``: copy a version of a table to another place, or refer to its files from there.

plan (from the source's log) -> refuse -> copy the files, or note the clone -> one commit.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

import pyarrow as pa

from deltactl.errors import ConflictError, InterruptedRunError, SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.naming import naming
from deltactl.log.snapshot import Snapshot
from deltactl.log.table_probe import PROGRESS_FILE, ensure_no_table_above
from deltactl.log.writing.actions import Actions, with_data_change
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_base import CommitBase, noticing_loss
from deltactl.log.writing.row_ids import tracks_row_ids
from deltactl.operations.clone.commits import (
    clone_txn,
    describe_clone,
    find_past_clone,
    load_version,
)
from deltactl.operations.clone.noting import note_again, with_clone_note
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.places import (
    ELSEWHERE,
    CloneProgress,
    ensure_apart,
    ensure_distinct_names,
    exclusive,
    find_unfinished,
    write_progress,
)
from deltactl.operations.clone.plan import ClonePlan, load_source, plan_clone
from deltactl.operations.clone.report import CloneReport
from deltactl.operations.clone.shallow import (
    ensure_addresses,
    ensure_no_vacuum,
    ensure_present,
    open_as_reader,
    warn_of_limits,
)
from deltactl.operations.clone.source_history import has_cloned
from deltactl.operations.clone.tasks import CopySpec, check_copies, copy_all, with_times
from deltactl.operations.manifest.run import refresh_manifests
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import replace_column
from deltactl.protocol.properties import TableProperties
from deltactl.units import DAY_MS, format_count

__all__ = ["CloneOptions", "ClonePlan", "CloneReport", "clone_table"]

_log: Final = logging.getLogger(__name__)


def clone_table(
    source_log: DeltaLog,
    target_log: DeltaLog,
    options: CloneOptions,
    context: RunContext,
    *,
    dry_run: bool = False,
) -> CloneReport:
    """Plan and, unless ``dry_run``, make a clone of a version of the source.

    Nothing is written to the source, except the note of a shallow clone.

    Raises:
        NotATableError: the source has no log.
        VersionNotFoundError: the version is outside the source's log.
        UnsupportedFeatureError: a table feature forbids it.
        PredicateError: ``where`` is not about partition columns.
        SafetyError: a rule that protects data refuses; nothing was copied.
        DataFileError: files of the source are missing; no table was created.
        ConflictError: another clone into the same target is running, or another writer committed
            first.
        InterruptedRunError: ``cancel`` was set before the commit.
        CorruptLogError: the source's log is damaged.
        StorageError: a store failed.
    """
    source, target = source_log.store, target_log.store
    ensure_apart(source, target)
    if target_log.exists and options.sync:
        # Imported here, because a sync needs many more modules.
        from deltactl.operations.clone.sync import sync_clone

        return sync_clone(
            source_log,
            target_log,
            options,
            context,
            spec=replace(
                _spec(source_log, target_log, context, is_fresh=False), replaces=options.full
            ),
            dry_run=dry_run,
        )
    if target_log.exists and options.replace:
        from deltactl.operations.clone.replace import replace_clone

        return replace_clone(source_log, target_log, options, context, dry_run=dry_run)
    snapshot, plan = source_log.retry_after_cleanup(
        lambda: _make_plan(source_log, options, context)
    )
    if target_log.exists:
        with naming(target.uri):
            done = _find_done(target_log, plan, context, dry_run)
        if options.deep or not options.note or dry_run:
            return done
        table_id = target_log.snapshot().metadata.id
        notes = note_again(source_log, snapshot, target_log, plan, context, table_id=table_id)
        return replace(done, notes=notes)
    ensure_no_table_above(target, hint=ELSEWHERE)
    wanted = CloneProgress(plan.source_uri, plan.source_table_id, plan.version)
    is_fresh = not find_unfinished(target, wanted)
    _log.info(
        "%s: version %d to %s, %s",
        source.uri, plan.version, target.uri, format_count(plan.num_files, "file"),
    )  # fmt: skip
    report = CloneReport(plan, target.uri, context.engine.name, context.engine.reason)
    if not options.deep:
        return _make_shallow(
            source_log, snapshot, target_log, report,
            options=options, context=context, dry_run=dry_run,
        )  # fmt: skip
    if dry_run:
        spec = _spec(source_log, target_log, context, is_fresh=is_fresh)
        copied = check_copies(source, plan.copies, spec, context)
        return replace(report.with_copies(copied), dry_run=True)
    target_log.ensure_can_commit()
    return _make_deep(
        source_log, snapshot, target_log, report, wanted=wanted, options=options, context=context
    )


def _make_deep(
    source_log: DeltaLog,
    snapshot: Snapshot,
    target_log: DeltaLog,
    report: CloneReport,
    *,
    wanted: CloneProgress,
    options: CloneOptions,
    context: RunContext,
) -> CloneReport:
    """Copy the files, and commit version 0."""
    plan, target = report.plan, target_log.store
    with exclusive(target, context):
        is_fresh = not find_unfinished(target, wanted)
        write_progress(target, wanted)
        try:
            ensure_distinct_names(target, plan.copies["target"], PROGRESS_FILE)
        except SafetyError:
            if is_fresh:
                target.delete_many([PROGRESS_FILE])
            raise
        spec = _spec(source_log, target_log, context, is_fresh=is_fresh)
        with noticing_loss(source_log, snapshot):
            files = AddedFiles(target, context.clock)
            copied = copy_all(source_log.store, target, plan.copies, spec, context)
            plan = replace(plan, files=with_times(plan.files, plan.copies, copied))
            _commit(target_log, plan, options, context, files)
            _follow(target_log, plan, context)
        target.delete_many([PROGRESS_FILE])
    return replace(report.with_copies(copied), version_after=0, files_added=plan.num_files)


def _make_plan(
    source: DeltaLog, options: CloneOptions, context: RunContext
) -> tuple[Snapshot, ClonePlan]:
    snapshot = load_source(source, options)
    clock = context.clock
    return snapshot, plan_clone(snapshot, options, clock.new_id(), clock.now_ms())


def _spec(source: DeltaLog, target: DeltaLog, context: RunContext, *, is_fresh: bool) -> CopySpec:
    return CopySpec(
        source.uri,
        target.uri,
        is_fresh,
        context.clock.now_ms() + DAY_MS,
        source.storage_options,
        target.storage_options,
    )


def _find_done(log: DeltaLog, plan: ClonePlan, context: RunContext, dry_run: bool) -> CloneReport:
    """Return that the target already is this clone; refuse any other table.

    If a run was killed after its commit, only its record must be deleted.
    """
    target, latest = log.store, log.latest_version
    past = find_past_clone(log)
    if past is None or not has_cloned(past, plan, load_version(log, past.version)):
        hint = "Choose an empty directory."
        if past is not None and past.deep and past.source_table_id == plan.source_table_id:
            needed = f"{option('deep', True)} {option('sync', True)}"
            hint = f"Add {needed} to bring this clone up to the source's version."
        elif past is not None and not plan.deep and past.source_table_id == plan.source_table_id:
            hint = (
                f"Add {option('replace', True)} to replace this clone. This discards the changes "
                "that were committed to it."
            )
        raise SafetyError(f"{target.uri} already contains a table", hint=hint)
    if not dry_run:
        target.delete_many([PROGRESS_FILE])
    return CloneReport(
        plan,
        target.uri,
        context.engine.name,
        context.engine.reason,
        latest,
        latest,
        dry_run,
        is_done=True,
    )


def _make_shallow(
    source_log: DeltaLog,
    snapshot: Snapshot,
    target_log: DeltaLog,
    report: CloneReport,
    *,
    options: CloneOptions,
    context: RunContext,
    dry_run: bool,
) -> CloneReport:
    """Commit version 0, which refers to the files of the source."""
    plan, target = report.plan, target_log.store
    ensure_addresses(source_log.store)
    reader = open_as_reader(source_log, target_log)
    warn_of_limits(target, plan, context)
    if dry_run:
        ensure_present(source_log, reader, snapshot, plan, context)
        return replace(report, dry_run=True)
    target_log.ensure_can_commit()
    if context.is_cancelled:
        raise InterruptedRunError("interrupted; no table was created", hint="Rerun.")
    noting = context.of_log(source_log)
    with with_clone_note(snapshot, target, plan, noting, leave=options.note) as noted:
        if options.note:
            ensure_no_vacuum(source_log, plan, context)
        files = AddedFiles(target, context.clock, looks_again=False)
        ensure_present(source_log, reader, snapshot, plan, context)
        files.listed()
        noted.ensure_there()
        _commit(target_log, plan, options, context, files)
    _follow(target_log, plan, context)
    gone = noted.find_gone(reader, plan, context, "the clone was created")
    return replace(
        report, version_after=0, files_added=plan.num_files, notes=noted.addresses, gone=gone
    )


def _commit(
    log: DeltaLog, plan: ClonePlan, options: CloneOptions, context: RunContext, files: AddedFiles
) -> None:
    # All files of a deep clone are copies, also those of an earlier run that did not finish.
    counts = (plan.num_files, plan.size_bytes) if plan.deep else (0, 0)
    actions = Actions(
        description=describe_clone(plan, options.properties, context, counts),
        read_version=-1,
        protocol=plan.protocol,
        metadata=plan.metadata,
        added=_with_new_row_ids(plan),
        domains=plan.domains,
        txn=clone_txn(plan, context.clock.now_ms()),
    )
    base = CommitBase(-1, plan.protocol, plan.metadata)
    with naming(log.uri):
        is_ours = context.transaction(log, base, files).create(actions)
    if not is_ours:
        raise ConflictError(
            f"another writer created a table at {log.uri} during the run. This run did not "
            "change that table",
            hint="Choose another directory.",
        )


def _with_new_row_ids(plan: ClonePlan) -> pa.Table:
    """Return the files to add. They keep their row ids, so that no two rows have the same id."""
    files = with_data_change(plan.files, True)
    nothing = pa.nulls(files.num_rows, pa.int64())
    files = replace_column(files, "default_row_commit_version", nothing)
    if tracks_row_ids(plan.protocol, plan.metadata):
        return files
    return replace_column(files, "base_row_id", nothing)


def _follow(target: DeltaLog, plan: ClonePlan, context: RunContext) -> None:
    """Run the steps after a commit that the properties of the clone require."""
    if TableProperties(plan.metadata.configuration).refreshes_manifests:
        refresh_manifests(target, None, context)
