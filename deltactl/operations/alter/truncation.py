"""Wait until the versions that checkpoint protection protects have left the log, or delete them.

The log cleanup deletes them, with its rules and its checks; only the retention is another.

Source: the RFC "Checkpoint Protection"; DROP FEATURE TRUNCATE HISTORY in Delta on Spark.
"""

from __future__ import annotations

from deltactl.errors import SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.upkeep.cleanup import CleanupPlan
from deltactl.operations.alter.steps import Step, StepKind
from deltactl.operations.checkpoint.options import TruncationOptions
from deltactl.operations.checkpoint.run import checkpoint_table
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.features import CHECKPOINT_PROTECTION
from deltactl.protocol.properties import TRUNCATION_RETENTION, history_end_ms
from deltactl.units import format_timestamp


def plan_truncation(
    log: DeltaLog, snapshot: Snapshot, context: RunContext, *, truncates: bool
) -> list[Step]:
    """Return the step that deletes the protected versions; none if the log has none.

    Raises:
        SafetyError: it has some, and they must not be deleted, or not yet.
    """
    protected = snapshot.properties.protected_before_version
    if _oldest(log) >= protected:
        return []
    if truncates:
        cleanup = truncate_history(log, context, dry_run=True)
        if (cleanup.checkpoint_version or 0) >= protected:
            files, size = len(cleanup.files), cleanup.size_bytes
            return [Step(StepKind.TRUNCATE, "TRUNCATE HISTORY", num_files=files, num_bytes=size)]
    raise _protected_error(log, snapshot)


def _oldest(log: DeltaLog) -> int:
    return min([*log.commit_files, *(checkpoint.version for checkpoint in log.checkpoints)])


def truncate_history(log: DeltaLog, context: RunContext, *, dry_run: bool = False) -> CleanupPlan:
    """Clean up the log with the retention of TRUNCATE HISTORY; return what was deleted."""
    options = TruncationOptions(cleanup_only=True)
    report = checkpoint_table(log, options, context.without_cancel(), dry_run=dry_run)
    assert report.cleanup is not None  # noqa: S101 - it was asked for
    return report.cleanup


def _protected_error(log: DeltaLog, snapshot: Snapshot) -> SafetyError:
    """Return the error that says how long to wait before checkpoint protection can be dropped."""
    properties, ends = snapshot.properties, ("a day", "its retention")
    version = properties.protected_before_version
    if version in log.commit_files:
        written_ms = log.commit_files[version].modified_ms
        early_ms = written_ms + properties.truncation_retention_ms
        late_ms = history_end_ms(written_ms, properties.log_retention_ms)
        ends = format_timestamp(early_ms), format_timestamp(late_ms)
    return SafetyError(
        f"the feature {CHECKPOINT_PROTECTION.name} cannot be dropped: it protects the versions "
        f"before {version}, and the log has version {_oldest(log)}",
        hint=f"Wait until {ends[0]} ({TRUNCATION_RETENTION}), then rerun with "
        f"{option('truncate_history')}, which deletes them. Or wait until {ends[1]} "
        "(delta.logRetentionDuration), run `deltactl checkpoint TABLE --cleanup`, and rerun.",
    )
