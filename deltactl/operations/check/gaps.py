"""Check that no commit is missing: between others, or after the newest one.

Source: PROTOCOL.md, "Delta Log Entries".
"""

from __future__ import annotations

import shlex
from typing import Final

from deltactl.log.audit.gaps import find_gaps
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.findings import Findings

_RESTORE: Final = (
    "restore the newest commits from a backup, with their modification times (`cp -p`). If they "
    "are lost for good"
)


def check_gaps(log: DeltaLog, findings: Findings) -> None:
    """Find missing commits; see ``find_gaps``."""
    newest = max((c.version for c in log.checkpoints), default=-1)
    latest = max(log.commit_files, default=-1)
    for first, last in find_gaps(log):
        where = f"between {first - 1} and {last + 1}" if first else f"before version {last + 1}"
        if first > latest:
            where = f"up to the newest checkpoint, of version {last}"
            findings.repairs[DeltaLog.commit_file(first)] = _advise_commit(log, last)
        code = "LOG_GAP" if last > newest else "HISTORY_GAP"
        _add_gap(code, first, last, where, findings)


def _advise_commit(log: DeltaLog, newest: int) -> str:
    """Return what to do about a newest version that has only a checkpoint."""
    return (
        f"{_RESTORE}, run `deltactl alter {shlex.quote(log.uri)} --set deltactl.versionAfter="
        f"{newest}`: Delta on Spark cannot open a table whose newest version has no commit, and "
        "delta-rs cannot append to it"
    )


def _add_gap(code: str, first: int, last: int, where: str, findings: Findings) -> None:
    missing = f"commit {first} is" if first == last else f"commits {first} to {last} are"
    findings.add(
        code, f"{missing} missing {where}", version=first, file=DeltaLog.commit_file(first)
    )


def check_newest(log: DeltaLog, findings: Findings) -> None:
    """Find missing newest commits.

    The committer may know them. Checksums and compacted files are written after commits.
    """
    if _check_unlisted(log, findings):
        return
    files_ahead, latest = log.files_ahead, log.latest_version
    if files_ahead:
        name = max(files_ahead, key=files_ahead.__getitem__)
        first, where = DeltaLog.commit_file(latest + 1), shlex.quote(log.uri)
        findings.add(
            "LOG_GAP",
            f"the log ends at version {latest}, but {name} names version {files_ahead[name]}: "
            "readers return the older version without an error",
            version=latest + 1,
            file=first,
        )
        findings.repairs[first] = (
            f"{_RESTORE}, run `deltactl check {where} --fix last-checkpoint`, which "
            f"deletes the files that name them, and continue from version {latest}"
        )


def _check_unlisted(log: DeltaLog, findings: Findings) -> bool:
    """Find a committed version that the log lacks; return whether its commit was lost."""
    unlisted = log.find_unlisted()
    if unlisted is None:
        return False
    version, loss = unlisted
    if loss is None:
        findings.note(
            f"version {version} is committed in DynamoDB, but its file is not in the log yet: the "
            "next command that writes completes it"
        )
        return False
    file = DeltaLog.commit_file(version)
    findings.add("LOG_GAP", loss.message, version=version, file=file)
    hint = (loss.hint or "").rstrip(".")
    findings.repairs[file] = hint[:1].lower() + hint[1:]
    return True
