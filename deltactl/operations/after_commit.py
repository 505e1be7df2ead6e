"""Run the steps after our commits: manifests, a checkpoint if due, log cleanup.

Source: PROTOCOL.md, "Checkpoints", "Metadata Cleanup"; Delta's ``delta.checkpointInterval`` and
``delta.enableExpiredLogCleanup``.
"""

from __future__ import annotations

import shlex
from contextlib import suppress

from deltactl.errors import SafetyError, StorageError, TableError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import Metadata
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import PrimitiveType
from deltactl.units import format_count


def run_after_commit(
    log: DeltaLog,
    before: Snapshot,
    after: CommitBase,
    context: RunContext,
    *,
    files_changed: bool = True,
    keeps_history: bool = False,
) -> int | None:
    """Update manifests, and write a checkpoint if one is due; errors become warnings.

    Manifests are updated after changes of files, and after a commit that sets their property.

    A checkpoint is due if ``checkpoint.plan.is_due`` returns true: a multiple of
    ``delta.checkpointInterval`` was passed; or if the type of a column changed, as by a restore of
    a version before a type widening. Errors are not raised, because the commit has succeeded. The
    properties after the commit count, also those that it or another writer changed.

    ``after`` is the state with the commit, the last of several. ``files_changed`` says whether the
    commit added or removed files; commits of a vacuum do not. With ``keeps_history``, also that of
    the context, old versions must be kept: the log is then not cleaned up. These steps are not
    cancelled.

    Returns:
        The version that was checkpointed, or ``None``.
    """
    # Many runs do not commit: dry runs, and runs without work.
    from deltactl.operations.checkpoint.options import CheckpointOptions
    from deltactl.operations.checkpoint.plan import is_due
    from deltactl.operations.checkpoint.run import checkpoint_table

    context = context.without_cancel()
    properties, version = TableProperties(after.metadata.configuration, context.warn), after.version
    if properties.refreshes_manifests:
        from deltactl.operations.manifest.run import refresh_manifests

        is_new = not before.properties.refreshes_manifests
        if files_changed or is_new:
            refresh_manifests(log, None if is_new else before.version, context)
    last = before.segment.checkpoint_version
    try:
        through, interval = log.published_up_to(version), properties.checkpoint_interval
        if not (is_due(last, through, interval) or _changes_types(before.metadata, after.metadata)):
            return None
        written = checkpoint_table(log, CheckpointOptions(), context).written
    except Exception as error:
        text = _explain(log, error)
        context.warn(f"version {version} is committed, but its checkpoint failed: {text}")
        return None
    if properties.expired_log_cleanup and not (keeps_history or context.keeps_history):
        try:
            options = CheckpointOptions(cleanup_only=True, if_enabled=True)
            if failed := checkpoint_table(log, options, context).failed:
                files = format_count(len(failed), "expired log file", "expired log files")
                name, reason = failed[0]
                context.warn(f"{files} could not be deleted, such as {name}: {reason}")
        except Exception as error:
            text = _explain(log, error)
            context.warn(f"version {version} is committed; the log was not cleaned up: {text}")
    return None if written is None else written.version


def _explain(log: DeltaLog, error: Exception) -> str:
    if not isinstance(error, SafetyError):
        return str(error)
    return f"{error}. Run `deltactl check {shlex.quote(log.uri)}` for details"


def _changes_types(before: Metadata, after: Metadata) -> bool:
    """Return whether a column has another type.

    Readers parse partition values in all commits after the last checkpoint, also of removed files,
    with the type that the column has now. They fail if an earlier value does not fit it.
    """
    if before.schema_string == after.schema_string:
        return False
    types = {f.physical_name: f.type for f in before.schema.fields}
    pairs = [(types.get(f.physical_name), f.type) for f in after.schema.fields]
    return any(old != new and isinstance(old, PrimitiveType) for old, new in pairs)


def warn_of_manifests(log: DeltaLog, after: CommitBase, context: RunContext) -> None:
    """Warn after a commit of other rows if the table has manifests that nothing updates.

    Call this in rare runs only, because it costs a listing. ``optimize`` changes no rows, and a
    vacuum keeps the files in manifests.
    """
    from deltactl.operations.manifest.place import find_schemes, render_command

    if TableProperties(after.metadata.configuration).refreshes_manifests:
        return
    store = log.store
    with suppress(StorageError, TableError):
        if (schemes := find_schemes(log)) is not None:
            table = shlex.quote(store.uri)
            command = render_command(table, schemes)
            if after.metadata.column_mapping_mode != "none":  # manifests are refused
                command = f"`deltactl alter {table} --drop-feature columnMapping`, then {command}"
            context.without_cancel().warn(
                f"the manifests in {store.uri}/{MANIFEST_DIR} are outdated, so their readers may "
                "get old rows: the table does not set "
                f"delta.compatibility.symlinkFormatManifest.enabled. Run {command}"
            )
