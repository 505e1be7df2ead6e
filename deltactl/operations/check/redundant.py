"""Check redundant files of the log: checkpoints, hint, checksums, compacted files.

Source: PROTOCOL.md, "Checkpoints", "Last Checkpoint File", "Version Checksum File", "Log Compaction
Files".
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from deltactl.errors import CorruptLogError
from deltactl.log.audit.checkpoints import Verdict, check_checkpoints, check_hint
from deltactl.log.audit.checksum import (
    COUNTS,
    DECISIVE,
    READ_MEMBERS,
    find_disagreements,
    read_checksum,
)
from deltactl.log.audit.commit_doubts import explain_unmeasured, find_unmeasured
from deltactl.log.audit.compactions import check_compactions
from deltactl.log.checkpoint.read import read_metadata_nodes
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME
from deltactl.log.rebuildable import find_problem
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.commits import UNTIL_DELETED, CommitChecker
from deltactl.operations.check.findings import Findings, Row
from deltactl.operations.check.protocol import describe_lacking
from deltactl.option_names import option
from deltactl.protocol.actions import Metadata

_NOT_NEEDED: Final = "readers do not need this file"
_KEEP: Final = "keep this file: it may be right, and a commit wrong"
_KEEP_CHECKSUM: Final = (
    "keep this file: it may be right, and {base} wrong. Compare the rows with what you expect. If "
    "they are right, move this file out of the table. If not, restore {base}, or the commits "
    "before it, from a backup. Until then, do not vacuum"
)
_KEEP_BASE: Final = (
    "cannot be repaired: no other file of the log can rebuild version {version}. Restore this "
    "file, or the commits before it, from a backup. Until then, do not vacuum. Without a backup, "
    "compare the rows with what you expect, run `deltactl clone {table} NEW --deep`, and "
    "correct the rows of the copy"
)
_KEEP_FOREIGN: Final = (
    "keep this file until a log cleanup deletes it: a later commit has the id of the older commits "
    "again, and the latest version depends on both"
)
_KEEP_COMMIT: Final = (
    "keep the commits as they are if the rows are right, or the lost changes were written again: "
    "{name} agrees with the commits. Before you restore an original, undo what was written "
    "instead, or rows are there twice; then run `deltactl checkpoint {table} --repair`. "
    f"{UNTIL_DELETED}. `deltactl explain COMMIT_DOUBTFUL` says more"
)


def check_checkpoint_heads(log: DeltaLog, findings: Findings) -> frozenset[Checkpoint]:
    """Open every complete or empty checkpoint; return the unusable ones."""
    store, broken = log.store, set()
    for checkpoint in log.all_checkpoints:
        version, name = checkpoint.version, checkpoint.names[0]
        if (problem := find_problem(store, checkpoint, all_rows=True)) is not None:
            broken.add(checkpoint)
            findings.add("CHECKPOINT_UNREADABLE", problem, version=version, file=name)
            continue
        for metadata in read_metadata_nodes(store, checkpoint):
            problem = describe_lacking(metadata)
            if problem is None and checkpoint.format == "parquet":
                configuration = metadata["configuration"]
                lacking = [key for key, value in configuration.items() if value is None]
                problem = f"its configuration has no value for {lacking}" if lacking else None
            if problem is not None:
                findings.add("SCHEMA_INVALID", problem, version=version, file=name)
    return frozenset(broken)


def check_all_checkpoints(
    log: DeltaLog, metadata: Mapping[int, Metadata], findings: Findings
) -> list[Verdict]:
    """Compare each checkpoint with its version rebuilt without it.

    ``metadata`` has the ``metaData`` of commits, by version.
    """
    verdicts = check_checkpoints(log)
    for verdict in verdicts:
        name, version = verdict.checkpoint.names[0], verdict.checkpoint.version
        problem = verdict.problem or ""
        if verdict.trust == "unproven":
            findings.note(f"{name} was not compared: {problem}")
        elif verdict.trust != "good":
            wrong = "CHECKPOINT_WRONG" if verdict.is_whole else "CHECKPOINT_UNREADABLE"
            code = "CHECKPOINT_DOUBTFUL" if verdict.trust == "ambiguous" else wrong
            findings.add(code, problem, version=version, file=name)
        if verdict.contradicts is not None:
            findings.repairs[name] = _KEEP_BASE.format(version=version, table=shlex.quote(log.uri))
            if verdict.contradicts == log.checksum_file(version):
                findings.repairs[name] += (
                    f". If the rows are right, move {verdict.contradicts} out of the table instead"
                )
        if verdict.before is not None:
            older = {it.id for v, it in metadata.items() if v <= verdict.before}
            newest = max((v for v in metadata if v > version), default=None)
            has_own_id = newest is not None and metadata[newest].id in older
            findings.repairs[name] = (
                _KEEP_FOREIGN if has_own_id else _advise_foreign(log, version, verdict.before)
            )
            # What is to do about missing commits assumes that the checkpoint is right.
            findings.repairs.pop(DeltaLog.commit_file(verdict.before + 1), None)
    return verdicts


def _advise_foreign(log: DeltaLog, version: int, before: int) -> str:
    """Return what to do about a checkpoint of another table, or after a lost replacement.

    ``before`` is the newest version before it.
    """
    replaced = (
        "If a lost commit replaced the table, the checkpoint is right: then move the log files up "
        f"to version {before} out of the table, and keep them"
    )
    if before not in log.rebuildable({before}):
        return f"restore the log from a backup. {replaced}"
    again = ", and write again what later commits added" if log.latest_version > version else ""
    return (
        "restore the log from a backup. If there is none, and the checkpoint is of another table, "
        f"run `deltactl restore {shlex.quote(log.uri)} --to-version {before}`{again}. {replaced}"
    )


def keep_confirmed(verdicts: Sequence[Verdict], log: DeltaLog, findings: Findings) -> None:
    """Advise to keep doubtful commits as they are if each later checkpoint agrees with them.

    A person who wrote the lost changes again may have confirmed the first of these checkpoints.
    """
    for code, version, file, _ in findings.rows:
        if code != "COMMIT_DOUBTFUL" or version is None or file is None:
            continue
        later = [it for it in verdicts if it.checkpoint.version >= version]
        if {it.trust for it in later} == {"good"}:
            name = later[0].checkpoint.names[0]
            findings.repairs[file] = _KEEP_COMMIT.format(name=name, table=shlex.quote(log.uri))


def check_last_checkpoint(
    log: DeltaLog, broken: frozenset[Checkpoint], findings: Findings, *, strict: bool
) -> None:
    """Check that ``_last_checkpoint``, if present, refers to a usable checkpoint."""
    verdict, where = check_hint(log, broken), shlex.quote(log.uri)
    if verdict.problem is not None and verdict.is_ahead:
        version = log.latest_version + 1
        file = DeltaLog.commit_file(version)
        findings.add("LOG_GAP", verdict.problem, version=version, file=file)
        if not log.files_ahead:  # no other file proves that there was such a version
            findings.repairs[file] = (
                "restore the newest commits from a backup. If there never were such commits, run "
                f"`deltactl check {where} --fix last-checkpoint`"
            )
    elif verdict.problem is not None:
        if broken:  # the other fix refuses until the checkpoint is repaired
            findings.repairs[HINT_NAME] = f"deltactl checkpoint {where} --repair"
        row = ("HINT_WRONG", verdict.version, HINT_NAME, verdict.problem)
        if verdict.is_missing and not verdict.stops_readers:
            findings.note(f"{verdict.problem}; {_NOT_NEEDED}")
        else:
            _add_optional(findings, row, strict=strict or verdict.stops_readers)


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


def check_older_checksums(
    log: DeltaLog,
    latest: Snapshot,
    broken: frozenset[Checkpoint],
    verdicts: Sequence[Verdict] | None,
    findings: Findings,
    *,
    versions: Collection[int],
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
            strict=True,
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
    elif (unknown := _find_unmeasured(log, snapshot.version, found)) is not None:
        findings.repairs[name] = explain_unmeasured(log.commit_file(unknown))
        strict = True
    elif snapshot.version < log.latest_version and not is_read:
        findings.repairs[name] = (
            f"move {name} out of the table: readers of the latest version do not need it"
        )
    for member, problem in (found or {}).items():
        if is_read and member in READ_MEMBERS:
            continue
        row = ("CHECKSUM_WRONG", snapshot.version, name, problem)
        _add_optional(findings, row, strict=strict or member in READ_MEMBERS)
    return found is not None


def _find_unmeasured(log: DeltaLog, version: int, wrong: Mapping[str, str] | None) -> int | None:
    """Return a commit that may have lost files that a checksum file counts; see `vacuum`."""
    if COUNTS.isdisjoint(wrong or {}):
        return None
    return next(find_unmeasured(log, version), None)


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


def _add_optional(findings: Findings, row: Row, *, strict: bool) -> None:
    """Add a problem of a file that readers do not need: a finding if ``strict``, else a note."""
    if strict:
        findings.rows.append(row)
    else:
        findings.note(f"{row[3]}; {_NOT_NEEDED}. With {option('checkpoints')}, this is a finding")


def check_compacted(log: DeltaLog, findings: Findings) -> None:
    """Compare each compacted file with its commits."""
    for verdict in check_compactions(log):
        if verdict.is_unproven:
            findings.note(
                f"{verdict.name} was not compared: some of the commits that it combines cannot be "
                "read, or may have lost actions"
            )
        elif verdict.problem is not None:
            findings.add(
                "COMPACTED_WRONG", verdict.problem, version=verdict.last, file=verdict.name
            )
            if verdict.unmeasured is not None:
                findings.repairs[verdict.name] = explain_unmeasured(verdict.unmeasured)
