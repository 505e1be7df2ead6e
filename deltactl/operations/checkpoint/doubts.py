"""Refuse to confirm a state that may be damaged, by a checkpoint or a log cleanup."""

from __future__ import annotations

from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.delta_log import DeltaLog


def ensure_undoubted(log: DeltaLog, doubts: CommitDoubts, *, cleanup: bool = False) -> None:
    """Refuse to write a checkpoint, or to delete log files, beside a commit that may be damaged.

    Raises:
        SafetyError: there is such a commit.
    """
    why = (
        "A checkpoint would keep the damage, and a log cleanup would delete the files that show it"
    )
    command = "`deltactl checkpoint TABLE`"
    if cleanup:
        command = "`deltactl checkpoint TABLE --cleanup-only`"
    doubts.ensure_none(log, why, command)
