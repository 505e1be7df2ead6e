"""Refuse to confirm a state that may be damaged, by a checkpoint or a log cleanup."""

from __future__ import annotations

from typing import Final

from deltactl.log.audit.checksum import find_disagreements
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot

# Writers fill in the other members in different ways, so a difference there shows no damage.
_DECISIVE: Final = ("numFiles", "tableSizeBytes", "metadata")


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


def find_contradiction(log: DeltaLog, version: int, loaded: Snapshot | None) -> str | None:
    """Return how the checksum file of a version differs from its files or schema, or ``None``.

    ``loaded`` is the version if it was loaded.

    Raises:
        StorageError: the store failed.
    """
    if version not in log.listed.checksums:
        return None
    snapshot = loaded or log.snapshot(version)
    found = find_disagreements(log.store, snapshot, snapshot.num_files, snapshot.size_bytes) or {}
    return "; ".join(found[member] for member in _DECISIVE if member in found) or None
