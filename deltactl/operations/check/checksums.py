"""Check version checksum files, which vacuum and checkpoint compare too.

Source: PROTOCOL.md, "Version Checksum File".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from deltactl.errors import CorruptLogError
from deltactl.log.audit.checkpoints import Verdict
from deltactl.log.audit.checksum import (
    DECISIVE,
    READ_MEMBERS,
    find_disagreements,
    read_checksum,
)
from deltactl.log.audit.commit_doubts import explain_unmeasured, find_lossy_commit
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.commits import CommitChecker
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.options import CheckOptions

_KEEP: Final = "keep this file: it may be right, and a commit wrong"
_KEEP_CHECKSUM: Final = (
    "keep this file: it may be right, and {base} wrong. Compare the rows with what you expect. If "
    "they are right, move this file out of the table. If not, restore {base}, or the commits "
    "before it, from a backup. Until then, do not vacuum"
)


def find_unproven(
    log: DeltaLog, verdicts: Sequence[Verdict] | None, snapshot: Snapshot
) -> str | None:
    """Return the name of the checkpoint of a snapshot if it is not proven right.

    Without all commits, an older checkpoint that agrees with it may have the same error.
    """
    base = snapshot.segment.checkpoint
    if base is None:
        return None
    wrong = any(it.checkpoint == base and it.trust != "good" for it in verdicts or ())
    return base.names[0] if wrong or not log.has_commits(0, base.version) else None


def choose_versions(
    log: DeltaLog,
    snapshot: Snapshot,
    disagreeing: Collection[int],
    verdicts: Sequence[Verdict] | None,
    options: CheckOptions,
) -> set[int]:
    """Return the older versions whose checksum files are compared.

    If one is ``disagreeing``, all since the checkpoint: vacuum and checkpoint may be refused as
    long as one of them disagrees.
    """
    listed, base = log.checksum_files, snapshot.segment.checkpoint_version
    versions = set(disagreeing)
    if versions:
        versions |= {version for version in listed if version >= base}
    versions -= {
        it.checkpoint.version
        for it in verdicts or ()
        if it.contradicts == log.checksum_file(it.checkpoint.version)
    }
    if options.all_versions:
        versions |= listed.keys()
    elif options.checkpoints:
        versions.add(max((v for v in listed if v <= snapshot.version), default=-1))
    return versions


def check_older_checksums(
    log: DeltaLog,
    latest: Snapshot,
    broken: frozenset[Checkpoint],
    verdicts: Sequence[Verdict] | None,
    findings: Findings,
    *,
    versions: Collection[int],
    strict: bool,
) -> int:
    """Compare the checksums of some versions with them, rebuilt; return the number of checksums."""
    first, num_checksums = log.first_rebuildable(), 0
    for version in sorted(versions):
        if not first <= version < latest.version:
            continue
        try:
            older = log.snapshot(version, skip=broken)
            num_files, size_bytes = older.num_files, older.size_bytes
        except CorruptLogError as error:
            findings.note(f"version {version} cannot be rebuilt: {error.message}")
            continue
        num_checksums += check_checksum(
            log,
            older,
            num_files,
            size_bytes,
            findings,
            strict=strict,
            unproven=find_unproven(log, verdicts, older),
        )
    return num_checksums


def check_checksum(
    log: DeltaLog,
    snapshot: Snapshot,
    num_files: int,
    size_bytes: int,
    findings: Findings,
    *,
    strict: bool,
    unproven: str | None,
) -> bool:
    """Compare the version's checksum file with the snapshot; return whether there is one.

    ``unproven`` is the name of the checkpoint if it may be wrong instead.
    """
    found = find_disagreements(snapshot.store, snapshot, num_files, size_bytes)
    name = DeltaLog.checksum_file(snapshot.version)
    # By `check_read_checksum`.
    is_read = any(row[2] == name for row in findings.rows)
    if unproven is not None and any(it in (found or {}) for it in DECISIVE):
        findings.repairs[name] = _KEEP_CHECKSUM.format(base=unproven)
        strict = True
    elif findings.has("COMMIT_DOUBTFUL"):
        findings.repairs[name] = _KEEP
    elif (lossy := find_lossy_commit(log, snapshot.version, found)) is not None:
        findings.repairs[name] = explain_unmeasured(lossy)
        if not strict:
            findings.note(
                f"vacuum and checkpoint are refused because of {name}: {findings.repairs[name]}"
            )
    elif snapshot.version < log.latest_version and not is_read:
        findings.repairs[name] = (
            f"move {name} out of the table: readers of the latest version do not need it"
        )
    for member, problem in (found or {}).items():
        if is_read and member in READ_MEMBERS:
            continue
        row = ("CHECKSUM_WRONG", snapshot.version, name, problem)
        findings.add_optional(row, strict=strict or member in READ_MEMBERS)
    return found is not None


def check_read_checksum(
    log: DeltaLog,
    snapshot: Snapshot,
    commits: CommitChecker,
    findings: Findings,
    unproven: str | None,
) -> None:
    """Compare the actions of the newest checksum file, if it is of an older version.

    Some readers take actions from it that no later commit and no later checkpoint has. ``unproven``
    is the name of the checkpoint if it may be wrong instead.
    """
    version = max((v for v in log.checksum_files if v <= snapshot.version), default=-1)
    if not max(snapshot.segment.checkpoint_version, 0) <= version < snapshot.version:
        return
    checksum = read_checksum(log.store, version)
    if checksum is None:
        return
    wrong = checksum.compare_state(snapshot.protocol, snapshot.metadata, {})
    later: dict[str, Mapping[int, object]] = {
        "protocol": commits.protocols,
        "metadata": commits.metadata,
    }
    for member in sorted(READ_MEMBERS & wrong.keys()):
        if all(it <= version for it in later[member]):
            name = DeltaLog.checksum_file(version)
            problem = f"{name}: {wrong[member]}; delta-rs and DuckDB use it for later versions too"
            findings.add("CHECKSUM_WRONG", problem, version=version, file=name)
            if member in DECISIVE and unproven is not None:
                findings.repairs[name] = _KEEP_CHECKSUM.format(base=unproven)
            elif findings.has("COMMIT_DOUBTFUL"):
                findings.repairs[name] = _KEEP
