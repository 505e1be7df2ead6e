"""The steps after our commits, by the table's properties: manifests, checkpoint, log cleanup.

Source: PROTOCOL.md, "Checkpoints", "Metadata Cleanup"; Delta's ``delta.checkpointInterval`` and
``delta.enableExpiredLogCleanup``.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltactl.clock import Clock
from deltactl.engine.base import Engine
from deltactl.errors import Warn
from deltactl.log.snapshot import Snapshot
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.plan import is_due
from deltactl.operations.checkpoint.report import CheckpointReport
from deltactl.operations.checkpoint.run import checkpoint_table
from deltactl.operations.manifest.refresh import AUTO_PROPERTY, refresh_manifests


def follow_commit(
    before: Snapshot,
    version: int,
    *,
    warn: Warn,
    engine: Engine,
    clock: Clock,
    storage_options: Mapping[str, str],
    files_changed: bool = True,
    keeps_history: bool = False,
) -> int | None:
    """Refresh manifests, and write a checkpoint if one is due; errors become warnings.

    Errors are not raised because the commit is done.

    Args:
        before: the snapshot that the commit was made from.
        version: the version that was committed, the last of several.
        warn: receives errors as warnings.
        engine: runs the checkpoint's tasks.
        clock: for retentions and names.
        storage_options: settings of the table's storage.
        files_changed: whether the commit added or removed files; those of a vacuum do not.
        keeps_history: whether old versions must be kept: the log is then not cleaned up.

    Returns:
        The version that was checkpointed, or ``None``.
    """
    properties = before.properties
    if files_changed and properties.flag(AUTO_PROPERTY):
        refresh_manifests(before.store, before.version, warn=warn, clock=clock)
    last = before.segment.checkpoint_version
    if not is_due(last, version, properties.checkpoint_interval):
        return None

    def run(options: CheckpointOptions) -> CheckpointReport:
        return checkpoint_table(
            before.store,
            options,
            warn=warn,
            engine=engine,
            clock=clock,
            storage_options=storage_options,
        )

    try:
        written = run(CheckpointOptions()).written
    except Exception as error:
        warn(f"version {version} is committed, but its checkpoint was not written: {error}")
        return None
    if properties.expired_log_cleanup and not keeps_history:
        try:
            for name, reason in run(CheckpointOptions(cleanup_only=True)).failed:
                warn(f"{name} is past its retention, but could not be deleted: {reason}")
        except Exception as error:
            warn(f"version {version} is committed; the log was not cleaned up: {error}")
    return None if written is None else written.version
