"""Check redundant log files: checkpoints, ``_last_checkpoint``, checksums, compacted files.

Source: PROTOCOL.md, "Checkpoints", "Last Checkpoint File", "Version Checksum File", "Log Compaction
Files".
"""

from __future__ import annotations

from deltactl.log.audit.checkpoints import Verdict, check_checkpoints, check_hint
from deltactl.log.audit.checksum import find_disagreements
from deltactl.log.audit.compactions import check_compactions
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings, Row


def check_all_checkpoints(log: DeltaLog, findings: Findings) -> frozenset[Checkpoint]:
    """Compare each checkpoint with its version rebuilt without it; return those proven wrong."""
    verdicts = check_checkpoints(log)
    for verdict in verdicts:
        _add_verdict(verdict, findings)
    return frozenset(v.checkpoint for v in verdicts if v.trust == "bad")


def _add_verdict(verdict: Verdict, findings: Findings) -> None:
    name, version = verdict.checkpoint.names[0], verdict.checkpoint.version
    problem = verdict.problem or ""
    if verdict.trust == "unproven":
        findings.note(f"{name} was not compared: {problem}")
    elif verdict.trust != "good":
        wrong = "CHECKPOINT_WRONG" if verdict.is_whole else "CHECKPOINT_UNREADABLE"
        code = "CHECKPOINT_DOUBTFUL" if verdict.trust == "ambiguous" else wrong
        findings.add(code, problem, version=version, file=name)


def check_last_checkpoint(
    log: DeltaLog,
    broken: frozenset[Checkpoint],
    findings: Findings,
    *,
    strict: bool,
) -> None:
    """Check that ``_last_checkpoint``, if present, refers to a usable checkpoint."""
    verdict = check_hint(log, broken)
    if verdict.problem is not None:
        _add_optional(
            findings,
            ("HINT_WRONG", verdict.version, HINT_NAME, verdict.problem),
            strict=strict and not verdict.is_missing,
        )


def check_checksum(
    snapshot: Snapshot, num_files: int, size_bytes: int, findings: Findings, *, strict: bool
) -> bool:
    """Compare the version's checksum file with the snapshot; return whether there is one."""
    found = find_disagreements(snapshot.store, snapshot, num_files, size_bytes)
    name = DeltaLog.checksum_file(snapshot.version)
    for problem in found or ():
        row = ("CHECKSUM_WRONG", snapshot.version, name, problem)
        _add_optional(findings, row, strict=strict)
    return found is not None


def _add_optional(findings: Findings, row: Row, *, strict: bool) -> None:
    """Add a problem of a file that readers do not need: a finding if ``strict``, else a note."""
    if strict:
        findings.rows.append(row)
    else:
        findings.note(f"{row[3]}; readers do not need this file")


def check_compacted(log: DeltaLog, findings: Findings) -> frozenset[tuple[int, int]]:
    """Compare each compacted file with its commits; return the version ranges of the wrong ones."""
    wrong = set()
    for verdict in check_compactions(log):
        if verdict.is_unproven:
            findings.note(
                f"{verdict.name} was not compared: some of the commits that it combines cannot be "
                "read"
            )
        elif verdict.problem is not None:
            wrong.add((verdict.first, verdict.last))
            findings.add(
                "COMPACTED_WRONG", verdict.problem, version=verdict.last, file=verdict.name
            )
    return frozenset(wrong)
