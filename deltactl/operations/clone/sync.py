"""``clone --deep --sync``: update an earlier deep clone to a version of its source.

All files of both tables are compared, so the age of the log of the source does not matter. New
files are copied, and one commit adds them and removes files that the source no longer has. It adds
files again whose statistics or row ids are other ones in the source.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import PredicateError, SafetyError
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.commits.file_actions import file_keys, sized_file_keys, sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.find_files import find_files
from deltactl.log.naming import naming
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_base import CommitBase, noticing_loss
from deltactl.operations.after_commit import run_after_commit, warn_of_manifests
from deltactl.operations.clone.commits import (
    APP_ID,
    PastClone,
    app_id,
    describe_clone,
    ensure_unchanged,
    find_past_clone,
    load_version,
)
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.places import ensure_distinct_names, exclusive
from deltactl.operations.clone.plan import ClonePlan, load_source, names_of, plan_clone
from deltactl.operations.clone.report import CloneReport
from deltactl.operations.clone.source_history import ensure_same_history
from deltactl.operations.clone.tasks import Copied, CopySpec, check_copies, copy_all, with_times
from deltactl.operations.clone.update import Update, compare, ensure_may_remove
from deltactl.operations.predicate.parse import parse_predicate
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import planning_now
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.storage.store import Store
from deltactl.units import DAY_MS


def sync_clone(
    source_log: DeltaLog,
    target_log: DeltaLog,
    options: CloneOptions,
    context: RunContext,
    *,
    spec: CopySpec,
    dry_run: bool,
) -> CloneReport:
    """Plan and, unless ``dry_run``, commit the differences of the source to the target.

    Raises:
        SafetyError: the target is not a deep clone of this source, or was changed since then.
        ConflictError: another writer changed the target; the clone is unchanged.
        DeltactlError: as for ``clone_table``.
    """
    source, target = source_log.store, target_log.store
    files = AddedFiles(target, context.clock, are_old=True)
    now_ms = context.clock.now_ms()
    with naming(target.uri, hint=f"Use a new clone of {source.uri} if the log cannot be repaired."):
        snapshot, update, options = source_log.retry_after_cleanup(
            lambda: _plan(source_log, target_log, options, now_ms)
        )
    plan, before = update.plan, update.current.version
    proven_ms = planning_now(target_log, update.current, context, now_ms)
    spec = replace(spec, until_ms=proven_ms + DAY_MS)
    report = update.report(target, context, dry_run=dry_run)
    if not update.is_empty:
        ensure_may_remove(update)
    if dry_run:
        check_copies(source, update.moved, spec, context)
        copied = check_copies(source, plan.copies, spec, context)
        return _count(report, _with_times(update, copied, full=options.full), copied)
    target_log.ensure_can_commit()
    with exclusive(target, context):
        ensure_distinct_names(target, plan.copies["target"], target_log.commit_file(before))
        with noticing_loss(source_log, snapshot):
            check_copies(source, update.moved, spec, context)
            copied = copy_all(source, target, plan.copies, spec, context)
        update = _with_times(update, copied, full=options.full)
        report = _count(report, update, copied)
        if update.is_empty:
            return report
        counts = (update.added.num_rows, sum_sizes(update.added))
        removed = (update.removed.num_rows, report.bytes_removed)
        base = CommitBase.of(update.current)
        transaction = context.transaction(target_log, base, files)
        description = describe_clone(plan, options.properties, context, counts, removed)
        draft = update.draft(description, context, "synced", undoes=options.full)
        with naming(target.uri):
            after = transaction.commit(draft)
    run_after_commit(target_log, update.current, after, context)
    if update.added.num_rows or update.removed.num_rows:
        warn_of_manifests(target_log, after, context)
    return replace(report, version_after=after.version)


def _count(report: CloneReport, update: Update, copied: Copied) -> CloneReport:
    return replace(
        report.with_copies(copied),
        version_after=update.current.version if update.is_empty else None,
        files_added=update.files_added,
    )


def _with_times(update: Update, copied: Copied, *, full: bool) -> Update:
    """Return the update with the times of the source files; if ``full``, also of replaced files.

    Files whose sources have only another time are added again: the next sync does not read them.
    """
    if update.is_empty:
        return update
    added, again = (
        with_times(it, update.plan.copies, copied) for it in (update.added, update.again)
    )
    if full:
        files = with_times(update.plan.files, update.plan.copies, copied)
        ours = update.current.files
        known = ours["modification_time_ms"].take(
            pc.index_in(sized_file_keys(files), value_set=sized_file_keys(ours))
        )
        added = files.filter(pc.fill_null(pc.not_equal(known, files["modification_time_ms"]), True))
        again = again.filter(pc.invert(pc.is_in(file_keys(again), value_set=file_keys(added))))
    else:
        files = update.plan.files
        is_dated = pc.is_in(files["path"], value_set=pa.array(copied.dated, pa.string()))
        is_new = pc.is_in(file_keys(files), value_set=file_keys(pa.concat_tables([added, again])))
        dated = files.filter(pc.and_(is_dated, pc.invert(is_new)))
        again = pa.concat_tables([again, with_times(dated, update.plan.copies, copied)])
    return replace(update, added=added, again=again)


def _plan(
    source: DeltaLog, target: DeltaLog, options: CloneOptions, now_ms: int
) -> tuple[Snapshot, Update, CloneOptions]:
    target.update()
    target.ensure_newest()
    current = load_audited(target, or_warn=options.full)
    ensure_supported(current.protocol, current.metadata, Operation.CLONE)
    past = find_past_clone(target)
    # A sync removes files of the clone, which may be a backup.
    snapshot = load_source(source, options, or_warn=options.full)
    options = _with_past_options(options, past, snapshot, target.store, now_ms)
    _ensure_clone_of(current, snapshot, options)
    plan = plan_clone(snapshot, options, current.metadata.id, now_ms)
    then = None if past is None else load_version(target, past.version, current)
    if not options.full:
        past = ensure_unchanged(target, current, past, then, snapshot)
        ensure_same_history(source, target, past, plan, snapshot=snapshot, then=then, now_ms=now_ms)
    update = compare(current, snapshot, plan, past, then, full=options.full)
    if update.is_empty and not options.full and _has_lost(current, plan):
        update = compare(current, snapshot, plan, None, then, full=False)
    return snapshot, replace(update, is_empty=update.is_empty and not options.full), options


def _has_lost(current: Snapshot, plan: ClonePlan) -> bool:
    """Return whether files are missing that only the clone has, as after an optimize of it."""
    names = pc.unique(names_of(current.files))
    own = names.filter(pc.invert(pc.is_in(names, value_set=plan.copies["target"])))
    found, _ = find_files(current.store, own.to_pylist())
    return None in found.values()


def _with_past_options(
    options: CloneOptions, past: PastClone | None, source: Snapshot, target: Store, now_ms: int
) -> CloneOptions:
    """Return the options with the condition and the properties of the clone.

    The condition is the text of the run that chose it: a current time in it is that of this run.
    """
    if past is None:
        return options
    where = options.where
    if not options.full:
        _ensure_same_condition(where, past.where, source, target, now_ms)
        where = past.where
    return replace(options, where=where, properties={**past.properties, **options.properties})


def _ensure_same_condition(
    given: str | None, stored: str | None, source: Snapshot, target: Store, now_ms: int
) -> None:
    """Refuse a condition that differs from that of the clone in more than its spelling."""
    fields = source.metadata.partition_fields
    how = f"without {option('where')}" if stored is None else f"with {option('where')} {stored!r}"
    try:
        kept = None if stored is None else parse_predicate(stored, fields, now_ms).sql
    except PredicateError as error:
        raise SafetyError(
            f"{target.uri} was cloned {how}, which does not fit the partition columns of "
            f"{source.store.uri} any more: {error.message}",
            hint=f"Add {option('full', True)}, and {option('where')} with a condition on the "
            "partition columns that the source has now. Without a condition, all rows are cloned.",
        ) from None
    if given is not None and parse_predicate(given, fields, now_ms).sql != kept:
        raise SafetyError(
            f"{target.uri} was cloned {how}, but this run selects other partitions",
            hint=f"Omit {option('where')} to keep the condition of the clone. To change to the "
            f"condition of this run, add {option('full', True)}.",
        )


def _ensure_clone_of(current: Snapshot, source: Snapshot, options: CloneOptions) -> None:
    """Refuse a target that is not a deep clone of the source, by the ``txn`` in it."""
    where = current.store.uri
    clones = [name for name in current.txns if name.startswith(f"{APP_ID}:")]
    if not clones:
        raise SafetyError(
            f"{where} is a table, but not a deep clone by deltactl",
            hint="Choose an empty directory for the clone.",
        )
    if options.full:
        return
    txn = current.txns.get(app_id(source.metadata.id))
    if txn is None:
        raise SafetyError(
            f"{where} is a clone of a table with the id {clones[0].partition(':')[2]}, but "
            f"{source.store.uri} has the id {source.metadata.id}. The source was recreated, "
            "or is another table",
            hint=f"Add {option('full', True)} to replace the clone's files with those of "
            f"{source.store.uri}.",
        )
    if source.version < txn.version:
        raise SafetyError(
            f"{where} is a clone of version {txn.version} of {source.store.uri}, but this run "
            f"would clone the older version {source.version}",
            hint="Check whether the source lost commits: then the clone may have the only copy of "
            f"their rows. Clone it to another directory first. Add {option('full', True)} to set "
            "it to the older version, which removes its newer rows.",
        )
