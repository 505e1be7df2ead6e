"""Check redundant files of the log: checkpoints, hint, compacted files.

Source: PROTOCOL.md, "Checkpoints", "Last Checkpoint File", "Log Compaction Files".
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from deltactl.log.audit.checkpoints import Verdict, check_checkpoints, check_hint, find_lost
from deltactl.log.audit.commit_doubts import explain_unmeasured
from deltactl.log.audit.compactions import check_compactions
from deltactl.log.checkpoint.read import read_metadata_nodes
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME
from deltactl.log.rebuildable import find_problem, find_unreadable
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.commits import UNTIL_DELETED
from deltactl.operations.check.findings import NOT_NEEDED, Findings
from deltactl.operations.check.protocol import describe_lacking
from deltactl.protocol.actions import Metadata

_KEEP_BASE: Final = (
    "cannot be repaired: no other file of the log can rebuild version {version}. Restore this "
    "file, or the commits before it, from a backup. Until then, do not vacuum. Without a backup, "
    "compare the rows with what you expect, run `deltactl clone {table} NEW --deep`, and "
    "correct the rows of the copy"
)
_KEEP_UNSEEN: Final = (
    "without it, rows could be in the table twice. If a commit was restored since the checkpoint "
    "was written, move this commit out of the table, keep it, and make its changes again, unless "
    "this was done. `deltactl explain CHECKPOINT_DOUBTFUL` says what else is possible"
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
    uncommitted: dict[str, tuple[str, int]] = {}
    for verdict in verdicts:
        name, version = verdict.checkpoint.names[0], verdict.checkpoint.version
        problem = verdict.problem or ""
        if verdict.trust == "unproven":
            findings.note(f"{name} was not compared: {problem}")
        elif verdict.trust != "good":
            wrong = "CHECKPOINT_WRONG" if verdict.is_whole else "CHECKPOINT_UNREADABLE"
            code = "CHECKPOINT_DOUBTFUL" if verdict.trust == "ambiguous" else wrong
            findings.add(code, problem, version=version, file=name)
        for file in verdict.uncommitted:
            uncommitted.setdefault(file, (name, version))
        if verdict.contradicts is not None:
            findings.repairs[name] = _KEEP_BASE.format(version=version, table=shlex.quote(log.uri))
            if verdict.contradicts == log.checksum_file(version):
                findings.repairs[name] += (
                    f". If the rows are right, move {verdict.contradicts} out of the table instead"
                )
        if verdict.lacks_unseen:
            findings.repairs[name] = _KEEP_UNSEEN
        if verdict.before is not None:
            older = {it.id for v, it in metadata.items() if v <= verdict.before}
            newest = max((v for v in metadata if v > version), default=None)
            has_own_id = newest is not None and metadata[newest].id in older
            findings.repairs[name] = (
                _KEEP_FOREIGN if has_own_id else _advise_foreign(log, version, verdict.before)
            )
            # What is to do about missing commits assumes that the checkpoint is right.
            findings.repairs.pop(DeltaLog.commit_file(verdict.before + 1), None)
    for file, (name, version) in uncommitted.items():
        problem = f"it is live in {name}, and no commit adds or removes it"
        findings.add("FILE_UNCOMMITTED", problem, version=version, file=file)
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
            findings.note(f"{verdict.problem}; {NOT_NEEDED}")
        else:
            findings.add_optional(row, strict=strict or verdict.stops_readers)


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


def explain_lost(log: DeltaLog, snapshot: Snapshot | None, findings: Findings) -> None:
    """Find the wrong checkpoints that the other files of the log cannot rebuild."""
    codes = ("CHECKPOINT_UNREADABLE", "CHECKPOINT_WRONG")
    names = {file for code, _, file, _ in findings.rows if code in codes}
    wrong = frozenset(it for it in log.all_checkpoints if it.names[0] in names)
    for checkpoint in find_lost(log, wrong):
        files = find_unreadable(log.store, checkpoint) or checkpoint.names
        more = f" and {len(files) - 1} more of its files" if len(files) > 1 else ""
        rest = ""
        if snapshot is not None and snapshot.segment.checkpoint_version > checkpoint.version:
            rest = _offer_rest(log, checkpoint, wrong)
        findings.repairs[checkpoint.names[0]] = (
            f"cannot be repaired: restore {files[0]}{more}, or the commits before the checkpoint, "
            f"from a backup{rest}"
        )


def _offer_rest(log: DeltaLog, lost: Checkpoint, wrong: frozenset[Checkpoint]) -> str:
    """Return what to do without a backup of a checkpoint that later versions do not need."""
    usable = {it.version for it in log.all_checkpoints if it not in wrong}
    last = min(version for version in usable if version > lost.version) - 1
    many = f"versions {lost.version} to {last}"
    versions = f"version {last}" if last == lost.version else many
    return (
        f". If there is none, {versions} cannot be read any longer, but later versions do not need "
        f"this file: move {lost.names[0]} out of the table"
    )
