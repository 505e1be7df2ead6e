"""Refuse to confirm a state that may be damaged, by a checkpoint or a log cleanup."""

from __future__ import annotations

from deltactl.errors import SafetyError, StorageError, Warn
from deltactl.log.audit.audited_snapshot import audit_files
from deltactl.log.audit.checksum import find_disagreements
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot


def ensure_undoubted(doubts: CommitDoubts) -> None:
    """Refuse to write a checkpoint, or to delete log files, beside a commit that may be damaged.

    Raises:
        SafetyError: there is such a commit.
    """
    if doubts.first is not None:
        raise SafetyError(
            f"{doubts.first}. A checkpoint would keep the damage, and a log cleanup would delete "
            "the files that show it",
            hint="Run `deltactl check TABLE` for details, and restore the commit from a backup. If "
            "the commit is right, run `deltactl checkpoint TABLE` on a terminal, which asks.",
        )


def ensure_matches_checksum(log: DeltaLog, snapshot: Snapshot, warn: Warn) -> None:
    """Refuse a version that differs from its checksum file, or whose checkpoint is wrong.

    Raises:
        SafetyError: it does.
    """
    name = log.checksum_file(snapshot.version)
    if snapshot.version not in log.listed.checksums:
        audit_files(snapshot)
        return
    facts = snapshot.num_files, snapshot.size_bytes  # this audits the files too
    try:
        found = find_disagreements(log.store, snapshot, *facts) or {}
    except StorageError as error:
        warn(f"version {snapshot.version} was not compared with {name}: {error.message}")
        return
    invalid = found.pop(name, None)
    if invalid is not None:  # it says nothing about the version
        warn(invalid)
    if found:
        raise SafetyError(
            f"the checksum file of version {snapshot.version} of {log.uri} differs from the log, "
            f"so a commit may be damaged: {'; '.join(found.values())}",
            hint="Run `deltactl check TABLE` for details. If the log lost actions, restore its "
            "files from a backup. If the checksum file is wrong, run `deltactl checkpoint TABLE "
            "--repair`, which deletes it, then rerun.",
        )
