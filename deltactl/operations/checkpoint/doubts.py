"""Refuse to confirm a state that may be damaged, by a checkpoint or a log cleanup."""

from __future__ import annotations

from typing import Final

from deltactl.errors import SafetyError, StorageError, Warn
from deltactl.log.audit.audited_snapshot import audit_files
from deltactl.log.audit.checksum import find_disagreements
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.units import format_count

# Members that writers fill in several ways; a commit that lost these actions lost others, too.
_UNRELATED: Final = frozenset(("protocol", "domainMetadata", "setTransactions", "histogram"))


def ensure_undoubted(doubts: CommitDoubts, *, cleanup: bool = False) -> None:
    """Refuse to write a checkpoint, or to delete log files, beside a commit that may be damaged.

    Raises:
        SafetyError: there is such a commit.
    """
    if doubts.first is not None:
        command = f"checkpoint TABLE{' --cleanup-only' if cleanup else ''}"
        raise SafetyError(
            f"{describe_doubts(doubts)}. A checkpoint would keep the damage, and a log cleanup "
            "would delete the files that show it",
            hint="Run `deltactl check TABLE` for details, and restore the commit from a backup. If "
            f"the commit is right, run `deltactl {command}` on a terminal, which asks.",
        )


def describe_doubts(doubts: CommitDoubts) -> str:
    """Return a text about the oldest commit that may be damaged, and the number of others."""
    others = len(doubts.found) - 1
    return f"{doubts.first}" + (f" (and {format_count(others, 'later commit')})" if others else "")


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
    wrong = [text for member, text in found.items() if member not in {*_UNRELATED, name}]
    if wrong:
        raise SafetyError(
            f"the checksum file of version {snapshot.version} of {log.uri} differs from the log, "
            f"so a commit may be damaged: {'; '.join(wrong)}",
            hint="Run `deltactl check TABLE` for details. If the log lost actions, restore its "
            "files from a backup. If the checksum file is wrong, run `deltactl checkpoint TABLE "
            "--repair`, which deletes it, then rerun.",
        )
    for text in found.values():  # by its name: the file is not valid, and says nothing
        warn(text)
