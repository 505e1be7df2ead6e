"""``clone --shallow --replace``: a new version of a shallow clone that refers to other files."""

from __future__ import annotations

import dataclasses
from functools import partial

from deltactl.errors import ConflictError, SafetyError
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.delta_log import DeltaLog
from deltactl.log.naming import naming
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.after_commit import run_after_commit, warn_of_manifests
from deltactl.operations.clone.commits import (
    describe_clone,
    find_change,
    find_past_clone,
    load_version,
)
from deltactl.operations.clone.noting import note_again, with_clone_note
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.plan import load_source, plan_clone
from deltactl.operations.clone.report import CloneReport
from deltactl.operations.clone.shallow import (
    ensure_addresses,
    ensure_no_vacuum,
    ensure_present,
    open_as_reader,
    warn_of_limits,
)
from deltactl.operations.clone.update import Update, compare, ensure_may_remove, ensure_may_write
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported


def replace_clone(
    source_log: DeltaLog,
    target_log: DeltaLog,
    options: CloneOptions,
    context: RunContext,
    *,
    dry_run: bool,
) -> CloneReport:
    """Plan and, unless ``dry_run``, commit a replacement of the clone; its versions stay.

    Raises:
        SafetyError: the target is not a shallow clone of this source.
        ConflictError: another writer changed the target; the clone is unchanged.
        DeltactlError: as for ``clone_table``.
    """
    target = target_log.store
    with naming(
        target.uri, hint=f"Use a new clone of {source_log.uri} if the log cannot be repaired."
    ):
        snapshot, update, change = source_log.retry_after_cleanup(
            lambda: _plan(source_log, target_log, options, context.clock.now_ms())
        )
    plan, current = update.plan, update.current
    report = update.report(target, context, dry_run=dry_run)
    if change is not None and not update.is_empty:
        context.warn(
            f"{target.uri} was changed after its last clone run: {change}. The new version does "
            f"not have these changes; version {current.version} has them"
        )
    if update.is_empty:
        notes: tuple[str, ...] = ()
        if options.note and not dry_run:
            table_id = current.metadata.id
            notes = note_again(source_log, snapshot, target_log, plan, context, table_id=table_id)
        return dataclasses.replace(report, version_after=current.version, notes=notes)
    ensure_addresses(source_log.store)
    reader = open_as_reader(source_log, target_log)
    warn_of_limits(target, plan, context)
    ensure_may_remove(update)
    if dry_run:
        ensure_present(source_log, reader, snapshot, plan, context)
        return report
    target_log.ensure_can_commit()
    noting, version = context.of_log(source_log), current.version + 1
    with with_clone_note(
        snapshot, target, plan, noting, leave=options.note, version=version
    ) as noted:
        if options.note:
            ensure_no_vacuum(source_log, plan, context)
        files = AddedFiles(target, context.clock, looks_again=False)
        ensure_present(source_log, reader, snapshot, plan, context)
        files.listed()
        noted.ensure_there()
        removed = (report.files_removed, report.bytes_removed)
        description = describe_clone(plan, options.properties, context, removed=removed)
        draft = update.draft(description, context, "replaced", undoes=True)
        draft = dataclasses.replace(draft, ensure=partial(_ensure_unchanged, current))
        with naming(target.uri):
            after = context.transaction(target_log, CommitBase.of(current), files).commit(draft)
    run_after_commit(target_log, current, after, context)
    if update.added.num_rows or update.removed.num_rows:
        warn_of_manifests(target_log, after, context)
    gone = noted.find_gone(reader, plan, context, "the clone was replaced")
    return dataclasses.replace(
        report, version_after=after.version, notes=noted.addresses, gone=gone
    )


def _ensure_unchanged(current: Snapshot, base: CommitBase) -> None:
    """Refuse another version than that which the note names: a vacuum waits for that one."""
    if base.version != current.version:
        raise ConflictError(
            "nothing was replaced: another writer committed to the clone during the run",
            hint="Rerun the command.",
        )
    ensure_may_write(base)


def _plan(
    source: DeltaLog, target: DeltaLog, options: CloneOptions, now_ms: int
) -> tuple[Snapshot, Update, str | None]:
    """Return the source, the differences, and what other writers changed in the clone."""
    target.update()
    target.ensure_newest()
    current, snapshot = load_audited(target, or_warn=True), load_source(source, options)
    ensure_supported(current.protocol, current.metadata, Operation.CLONE)
    past = find_past_clone(target)
    if past is None or past.deep or past.source_table_id != snapshot.metadata.id:
        hint = "Choose an empty directory for the clone."
        if past is not None and past.deep:
            hint = f"Use {option('deep', True)} {option('sync', True)}: it is a deep clone."
        raise SafetyError(
            f"the log of {target.uri} does not say that it is a shallow clone of {source.uri}",
            hint=hint,
        )
    plan = plan_clone(snapshot, options, current.metadata.id, now_ms)
    # All files are compared, whatever other writers did to the clone.
    update = compare(current, snapshot, plan, past, full=True)
    load_then = partial(load_version, target, past.version, current)
    return snapshot, update, find_change(target, current, past.version, load_then)
