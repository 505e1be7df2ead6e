"""``restore``: restore an earlier version as a new version.

plan (from the log, with a check of the files of the target) -> confirm -> one commit -> check
again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from deltactl.errors import CorruptLogError, InterruptedRunError, SafetyError, UsageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.lifetimes import VersionRange
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import RESTORE, Description, engine_info, run_tags
from deltactl.operations.after_commit import run_after_commit, warn_of_manifests
from deltactl.operations.append_only import find_append_only_refusal
from deltactl.operations.missing_files import find_missing_again
from deltactl.operations.owners import RESTORE_OLDER, find_away
from deltactl.operations.restore.downgrade import downgraded_protocol, find_downgrade_refusal
from deltactl.operations.restore.omission import explain_missing, find_omission_refusal
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.plan import RestorePlan, Versions, load_versions, plan_restore
from deltactl.operations.restore.report import RestoreReport
from deltactl.operations.restore.vacuums import find_ends
from deltactl.operations.restored_state import (
    PastMarks,
    RestoreCommit,
    read_past_marks,
    restored_state,
)
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum_commits import describe_start, find_open_vacuums
from deltactl.option_names import option
from deltactl.protocol.features import REGISTRY, Operation, ensure_supported, list_features
from deltactl.protocol.properties import TableProperties
from deltactl.units import format_count, format_duration, format_timestamp

__all__ = ["RestoreOptions", "RestorePlan", "RestoreReport", "restore_table"]

_log: Final = logging.getLogger(__name__)

Confirm = Callable[[RestorePlan], bool]
"""``confirm(plan) -> bool``: called before the commit; returns whether to proceed."""


def restore_table(
    log: DeltaLog,
    options: RestoreOptions,
    context: RunContext,
    *,
    confirm: Confirm | None = None,
    dry_run: bool = False,
) -> RestoreReport:
    """Plan and, unless ``dry_run``, commit a restore of the latest version to an earlier one.

    Raises:
        VersionNotFoundError: the target is outside the log.
        UnsupportedFeatureError: a table feature forbids it.
        PredicateError: ``where`` is not about partition columns.
        SafetyError: a rule that protects data refuses; nothing was restored.
        ConflictError: another writer changed the table; nothing was restored.
        InterruptedRunError: ``cancel`` was set before the commit.
        CorruptLogError: the log is damaged.
    """
    files = AddedFiles(log.store, context.clock, looks_again=False)
    versions, plan = log.retry_after_cleanup(lambda: _make_plan(log, options, context))
    files.listed()
    _log.info(
        "%s: version %d to %d, %s to add, %d to remove",
        log.uri, plan.version, plan.target_version,
        format_count(plan.added.num_rows, "file"), plan.removed.num_rows,
    )  # fmt: skip
    if plan.is_empty and not plan.missing:
        return RestoreReport(plan, context.engine.name, dry_run=dry_run)
    report = RestoreReport(
        plan, context.engine.name, dry_run=dry_run, ends=_warn_of_vacuums(versions, plan, context)
    )
    refusal = _find_refusal(versions, plan, options, context)
    if refusal is None:
        _warn_of_append_only(plan, versions.current, context)
        _warn_of_retentions(plan, context)
        _warn_of_features(plan, versions.current, context)
        _warn_of_transactions(versions, context)
    if dry_run:
        context.warn_of_refusal(refusal)
        return report
    if refusal is not None:
        raise refusal
    if plan.is_empty:
        return report
    if confirm is not None and not confirm(plan):
        raise SafetyError("not confirmed: nothing was restored")
    if context.is_cancelled:
        raise InterruptedRunError("interrupted; nothing was restored", hint="Rerun.")
    log.ensure_can_commit()
    after = _commit(versions, plan, options, context, files)
    # A vacuum that began before the restore may have removed some of them.
    gone = find_missing_again(log.store, plan.added, context, "the version is restored", log.uri)
    # If this was the wrong version, the next restore may need another old one.
    run_after_commit(log, versions.current, after, context, keeps_history=True)
    if plan.added.num_rows or plan.removed.num_rows:
        warn_of_manifests(log, after, context)
    return replace(report, version_after=after.version, gone=gone)


def _make_plan(
    log: DeltaLog, options: RestoreOptions, context: RunContext
) -> tuple[Versions, RestorePlan]:
    versions = load_versions(log, options)
    current, target = versions.current, versions.target
    protocol = None
    if options.allow_protocol_downgrade:
        protocol = downgraded_protocol(current, target)
    past = PastMarks() if options.where is not None else read_past_marks(log, current, target)
    state = restored_state(current, target, protocol, past)
    ensure_supported(state.protocol, state.metadata, Operation.RESTORE)
    return versions, plan_restore(versions, options, state, context)


def _ensure_may_restore(base: CommitBase) -> None:
    ensure_supported(base.protocol, base.metadata, Operation.RESTORE)
    refusal = find_append_only_refusal(base)
    if refusal is not None:
        raise refusal


def _find_refusal(
    versions: Versions, plan: RestorePlan, options: RestoreOptions, context: RunContext
) -> SafetyError | None:
    refusal = find_append_only_refusal(CommitBase.of(versions.current))
    if refusal is None and options.allow_protocol_downgrade and plan.state is not None:
        refusal = find_downgrade_refusal(versions.current, plan.state.protocol, plan.removed)
    if plan.missing:
        CommitBase.of(versions.current).ensure_same_table(versions.log)
    if refusal is None and plan.missing and not options.ignore_missing:
        missing = [it.path for it in plan.missing]
        away = find_away(versions.current.store, missing, context.storage_options)
        if away is not None:
            count, rest = plan.lost.num_rows, RESTORE_OLDER
            if find_omission_refusal(versions, plan, plan.missing, count, context) is None:
                options_text = (
                    f"{option('ignore_missing', True)} and {option('expect_files', count)}"
                )
                rest = f"to restore the version without them, rerun with {options_text}"
            return away.refusal(rest)
        return explain_missing(versions, plan, context)
    if refusal is None and plan.missing:
        # A plan without changes changes nothing that would have to be confirmed.
        number = plan.lost.num_rows if plan.is_empty else options.expect_files
        refusal = find_omission_refusal(versions, plan, plan.missing, number, context)
    return refusal


def _warn_of_vacuums(
    versions: Versions, plan: RestorePlan, context: RunContext
) -> tuple[VersionRange, ...]:
    """Warn of running vacuums and of the next one; return the versions that become unreadable."""
    log, target = versions.log, versions.target
    now_ms, retention_ms = context.clock.now_ms(), _retention_after(versions, plan)

    def look() -> tuple[tuple[str, ...], tuple[VersionRange, ...]]:
        unfinished = find_open_vacuums(log)
        return (
            tuple(describe_start(log, version) for version in unfinished),
            () if retention_ms is None else find_ends(versions, plan.removed, retention_ms, now_ms),
        )

    try:
        unfinished, ends = log.retry_after_cleanup(look)
    except CorruptLogError as error:
        context.warn(
            f"it is not known whether a vacuum is removing files of version {target.version}: "
            f"{error.message}"
        )
        return ()
    for vacuum in unfinished:
        context.warn(
            f"the vacuum that began in {vacuum} has not ended, or was killed (no VACUUM END "
            "commit). It may remove files that this run restores, so deltactl checks these files "
            "again after the commit"
        )
    if ends and retention_ms is not None:
        retention = format_duration(retention_ms)
        ranges = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in ends)
        context.warn(
            f"the restored version {plan.target_version} is older than the retention of "
            f"{retention} that the table then has. The restored table stays readable, but the next "
            f"vacuum makes version {ranges} unreadable"
        )
    return ends


def _retention_after(versions: Versions, plan: RestorePlan) -> int | None:
    """Return the retention of removed files after the commit, in ms; ``None`` if it is invalid."""
    after = versions.current.metadata if plan.state is None else plan.state.metadata
    with suppress(UsageError):  # vacuums are refused
        return TableProperties(after.configuration).deleted_file_retention_ms
    return None


def _warn_of_retentions(plan: RestorePlan, context: RunContext) -> None:
    """Warn of retentions that become shorter with the restored properties."""
    for risk in plan.risks:
        context.warn(f"the properties of version {plan.target_version} come back: {risk}")


def _warn_of_append_only(plan: RestorePlan, current: Snapshot, context: RunContext) -> None:
    """Warn if the restored properties forbid to undo the restore."""
    if plan.state is None:
        return
    state = plan.state
    after = replace(CommitBase.of(current), protocol=state.protocol, metadata=state.metadata)
    if find_append_only_refusal(after) is not None:
        context.warn(
            f"the restore makes the table append-only, as it was in version {plan.target_version}. "
            "To undo the restore, first set delta.appendOnly to false"
        )


def _warn_of_features(plan: RestorePlan, current: Snapshot, context: RunContext) -> None:
    """Warn of features that the restore adds: another restore does not remove them."""
    if plan.state is None:
        return
    added = list_features(plan.state.protocol) - list_features(current.protocol)
    readers = {name for name in added if REGISTRY[name].reader}
    for names, what in ((readers, "read"), (added - readers, "write to")):
        if names:
            ways = " and ".join(
                f"`deltactl alter TABLE --drop-feature {name}`" for name in sorted(names)
            )
            context.warn(
                f"the restore adds {', '.join(sorted(names))}, as in version "
                f"{plan.target_version}: engines without it can no longer {what} the table, and "
                f"another restore does not remove it, but {ways} does"
            )


def _warn_of_transactions(versions: Versions, context: RunContext) -> None:
    """Warn of writers that skip batches they wrote since the target: their ids stay as they are."""
    then = versions.target.txns
    later = {
        app: txn.version
        for app, txn in versions.current.txns.items()
        if app not in then or txn.version > then[app].version
    }
    if later:
        app = min(later)
        context.warn(
            f"{format_count(len(later), 'application has', 'applications have')} written "
            f"transactions since version {versions.target.version}, such as {app!r} up to "
            f"{later[app]}. Their identifiers stay: a job that compares them skips these batches, "
            "although the restore undoes them. To write them again, use another identifier"
        )


def _commit(
    versions: Versions,
    plan: RestorePlan,
    options: RestoreOptions,
    context: RunContext,
    files: AddedFiles,
) -> CommitBase:
    current = versions.current
    transaction = context.transaction(versions.log, CommitBase.of(current), files)
    return transaction.commit(
        RestoreCommit(
            description=_describe_commit(plan, options, context),
            read_version=current.version,
            added=plan.added,
            removed=plan.removed,
            again=plan.renumbered,
            state=plan.state,
            ensure=_ensure_may_restore,
        )
    )


def _describe_commit(
    plan: RestorePlan, options: RestoreOptions, context: RunContext
) -> Description:
    return Description(
        operation=RESTORE,
        parameters=_parameters(plan, options),
        engine_info=engine_info(context.engine.name),
        tags=run_tags(context.run_id),
        metrics={
            "numRestoredFiles": str(plan.added.num_rows),
            "removedFilesSize": str(plan.removed_bytes),
            "numRemovedFiles": str(plan.removed.num_rows),
            "restoredFilesSize": str(plan.added_bytes),
            "numOfFilesAfterRestore": str(plan.files_after),
            "tableSizeAfterRestore": str(plan.bytes_after),
        },
    )


def _parameters(plan: RestorePlan, options: RestoreOptions) -> dict[str, Any]:
    """Source: the parameters of Delta on Spark; ``predicate`` is only in partial restores."""
    when = options.timestamp_ms
    parameters: dict[str, Any] = {
        "version": plan.target_version if when is None else None,
        "timestamp": None if when is None else _sql_timestamp(when),
    }
    if plan.predicate is not None:
        parameters["predicate"] = json.dumps([plan.predicate], ensure_ascii=False)
    return parameters


def _sql_timestamp(timestamp_ms: int) -> str:
    """Return a timestamp as ``java.sql.Timestamp`` prints it: ``2026-11-21 11:14:08.0``."""
    text = format_timestamp(timestamp_ms).replace("T", " ").removesuffix("Z")
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction.rstrip('0') or '0'}"
