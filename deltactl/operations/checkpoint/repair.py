"""``checkpoint --repair``: verify checkpoints and ``_last_checkpoint``; rewrite invalid ones.

Commits are never changed. A checkpoint that was proven wrong is replaced by one of the same version
that was rebuilt without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltactl.errors import CorruptLogError, DeltactlError, SafetyError
from deltactl.log.audit.checkpoints import (
    HintVerdict,
    Trust,
    Verdict,
    check_checkpoints,
    check_hint,
    hint_of,
)
from deltactl.log.audit.checksum import DECISIVE, find_disagreements
from deltactl.log.audit.commit_doubts import explain_unmeasured, find_doubts, find_lossy_commit
from deltactl.log.audit.compactions import CompactionVerdict, check_compactions
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME, move_hint
from deltactl.log.snapshot import Snapshot
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.plan import CheckpointPlan, plan_files
from deltactl.operations.checkpoint.write import write_checkpoint
from deltactl.operations.run_context import RunContext
from deltactl.operations.short_repr import ShortRepr
from deltactl.protocol.features import V2_CHECKPOINT, Operation, ensure_supported, has_feature
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem: the file, the reason, and the action taken (or planned).

    ``is_refused``: the file may be right, and others wrong, so it is never repaired.
    """

    name: str
    version: int | None
    problem: str
    remedy: str
    repaired: bool = False
    is_refused: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class RepairReport(ShortRepr):
    """The result of a repair.

    ``checked`` counts checkpoints, ``unproven`` those of them that are complete but could not be
    compared.
    """

    version: int
    engine: str
    checked: int
    unproven: int
    findings: tuple[Finding, ...]
    dry_run: bool = False

    @property
    def all_repaired(self) -> bool:
        """Return whether no problem is left."""
        return all(finding.repaired for finding in self.findings)

    def find_error(self) -> DeltactlError | None:
        """Return the error of the first problem that a run left."""
        left = [finding for finding in self.findings if not finding.repaired]
        if self.dry_run or not left:
            return None
        kind = SafetyError if left[0].is_refused else CorruptLogError
        return kind(
            f"{left[0].name} was not repaired. Problem: {left[0].problem}. Repair: "
            f"{left[0].remedy}",
            hint="Run `deltactl check TABLE --checkpoints` for details.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        return {
            "version": self.version,
            "checked": self.checked,
            "unproven": self.unproven,
            "findings": [
                {
                    "file": f.name,
                    "version": f.version,
                    "problem": f.problem,
                    "remedy": f.remedy,
                    "repaired": f.repaired,
                }
                for f in self.findings
            ],
        }


@dataclass(frozen=True, slots=True)
class Trusted:
    """The latest version, built without the checkpoints that are wrong."""

    latest: Snapshot
    verdicts: Sequence[Verdict]

    @property
    def bad(self) -> frozenset[Checkpoint]:
        """Return the wrong checkpoints."""
        return frozenset(v.checkpoint for v in self.verdicts if v.trust == "bad")


def load_trusted(log: DeltaLog) -> Trusted:
    """Compare the checkpoints with the commits; load the latest version.

    Raises:
        CorruptLogError: the latest version cannot be rebuilt from valid files.
        UnsupportedFeatureError: the protocol forbids a checkpoint.
    """
    verdicts = check_checkpoints(log)
    bad = frozenset(v.checkpoint for v in verdicts if v.trust == "bad")
    latest = log.snapshot(skip=bad)
    ensure_supported(latest.protocol, latest.metadata, Operation.CHECKPOINT)
    return Trusted(latest, verdicts)


def repair_checkpoints(
    log: DeltaLog, context: RunContext, *, dry_run: bool = False
) -> RepairReport:
    """Check every checkpoint and ``_last_checkpoint``; repair files that are proven wrong.

    Raises:
        LogGapError: the newest commits were lost: without ``_last_checkpoint``, nothing shows it.
        CorruptLogError: the latest version cannot be rebuilt from valid files.
        UnsupportedFeatureError: the protocol forbids a checkpoint.
        DeltactlError: writing or the store failed.
    """
    log.ensure_newest()
    trusted = load_trusted(log)
    store, latest, bad, verdicts = log.store, trusted.latest, trusted.bad, trusted.verdicts
    hint = check_hint(log, bad)
    wrong = [verdict for verdict in check_compactions(log) if verdict.problem is not None]
    findings = [_judge_compacted(store, verdict, dry_run) for verdict in wrong]
    for verdict in verdicts:
        if verdict.trust in ("bad", "ambiguous"):
            finding = _judge(verdict, dry_run)
            if verdict.trust == "bad" and not dry_run:
                obstacle = _rewrite(log, verdict, trusted, context)
                remedy = finding.remedy if obstacle is None else f"none: {obstacle}"
                finding = replace(finding, remedy=remedy, repaired=obstacle is None)
            findings.append(finding)
    findings += _check_checksums(log, trusted, dry_run)
    findings += repair_hint(log, hint, dry_run)
    context.warn_of_refusal(log.refusal)
    return RepairReport(
        version=latest.version,
        engine=context.engine.name,
        checked=len(verdicts),
        unproven=sum(verdict.trust == "unproven" for verdict in verdicts),
        findings=tuple(findings),
        dry_run=dry_run,
    )


def _add_finding(done: str, dry_run: bool) -> str:
    return f"would be {done}" if dry_run else done


def _judge(verdict: Verdict, dry_run: bool) -> Finding:
    remedy = _add_finding("rewritten from the rest of the log", dry_run)
    is_refused = verdict.trust == "ambiguous"
    if is_refused:
        remedy = "none, because it is unknown which of the two is right"
    name, version = verdict.checkpoint.names[0], verdict.checkpoint.version
    return Finding(name, version, verdict.problem or "", remedy, is_refused=is_refused)


def _judge_compacted(store: Store, verdict: CompactionVerdict, dry_run: bool) -> Finding:
    name, version, problem = verdict.name, verdict.last, verdict.problem or ""
    if verdict.unmeasured is not None:
        remedy = f"none, because {explain_unmeasured(verdict.unmeasured)}"
        return Finding(name, version, problem, remedy)
    return _remove_wrong(store, name, version, problem, dry_run)


def _check_checksums(log: DeltaLog, trusted: Trusted, dry_run: bool) -> list[Finding]:
    """Judge the checksum files that a vacuum compares: of the checkpoint, and the newest one.

    If one of them is wrong, the others since the checkpoint are judged too. Readers take actions
    from the newest one if no later file has them.
    """
    latest = trusted.latest
    base = max(latest.segment.checkpoint_version, 0)
    listed = sorted(version for version in log.checksum_files if base <= version <= latest.version)
    compared = {*listed} & {base, max(listed, default=base)}
    findings = [it for version in compared for it in _judge_version(log, trusted, version, dry_run)]
    if findings:
        others = [version for version in listed if version not in compared]
        findings += [it for v in others for it in _judge_version(log, trusted, v, dry_run)]
    return sorted(findings, key=lambda finding: finding.name)


def _judge_version(
    log: DeltaLog, trusted: Trusted, version: int, dry_run: bool
) -> Iterator[Finding]:
    latest = trusted.latest
    older = latest if version == latest.version else log.snapshot(version, skip=trusted.bad)
    problem, obstacle = judge_checksum(log, trusted, older)
    name = DeltaLog.checksum_file(version)
    if problem and obstacle is not None:
        yield Finding(name, version, problem, f"none, because {obstacle}")
    elif problem:
        yield _remove_wrong(latest.store, name, version, problem, dry_run)


def judge_checksum(
    log: DeltaLog, trusted: Trusted, snapshot: Snapshot
) -> tuple[str | None, str | None]:
    """Return the problem of a version's checksum file, and why it must stay as it is.

    The problem is ``None`` if there is no file, and empty if the file is right.
    """
    counts = snapshot.num_files, snapshot.size_bytes
    found = find_disagreements(snapshot.store, snapshot, *counts)
    if not found:
        return None if found is None else "", None
    problem, wrong = "; ".join(found.values()), _find_doubtful(log, trusted, "good")
    base, is_decisive = snapshot.segment.checkpoint, any(it in found for it in DECISIVE)
    if is_decisive and base is not None and not log.has_commits(0, base.version):
        wrong.append(base.names[0])  # an older checkpoint that agrees may have the same error
    # It may be the only file with the data that the other one lacks.
    if wrong:
        return problem, f"it is unknown whether this file or {wrong[0]} is wrong"
    lossy = find_lossy_commit(log, snapshot.version, found)
    return problem, None if lossy is None else explain_unmeasured(lossy)


def find_checksum_obstacle(log: DeltaLog, trusted: Trusted) -> str | None:
    """Return why no checksum file of the latest version must be written, where there is none."""
    wrong = _find_doubtful(log, trusted, "good", "unproven")
    if not wrong:
        return None
    return f"{wrong[0]} may be wrong: restore it from a backup, or the new file has the same error"


def _find_doubtful(log: DeltaLog, trusted: Trusted, *enough: Trust) -> list[str]:
    """Return commits that may be damaged, and the base of the latest version if it may be wrong.

    ``enough`` is the trust that the base needs.
    """
    found = [log.commit_file(version) for version in sorted(find_doubts(log))]
    base = trusted.latest.segment.checkpoint
    if base is not None and base not in [
        v.checkpoint for v in trusted.verdicts if v.trust in enough
    ]:
        found.append(base.names[0])
    return found


def _remove_wrong(store: Store, name: str, version: int, problem: str, dry_run: bool) -> Finding:
    """Delete redundant files that are proven wrong."""
    failed = {} if dry_run else store.delete_many([name])
    if failed:
        return Finding(
            name, version, problem, f"none: the file could not be deleted: {failed[name].message}"
        )
    remedy = _add_finding("deleted: readers do not need this file", dry_run)
    return Finding(name, version, problem, remedy, repaired=not dry_run)


def _rewrite(log: DeltaLog, verdict: Verdict, trusted: Trusted, context: RunContext) -> str | None:
    """Rebuild a checkpoint's version from valid files, and replace the checkpoint.

    One that can be read is not replaced by a version that depends on a doubtful checkpoint.

    Returns:
        The reason why it is impossible; ``None`` if it was done.
    """
    checkpoint = verdict.checkpoint
    try:
        snapshot = log.without_warnings().snapshot(checkpoint.version, skip=trusted.bad)
    except CorruptLogError as error:
        return error.message
    base = snapshot.segment.checkpoint
    doubtful = {v.checkpoint.names[0] for v in trusted.verdicts if v.trust == "ambiguous"}
    if verdict.is_whole and base is not None and base.names[0] in doubtful:
        return f"its version depends on {base.names[0]}, which may be wrong"
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CHECKPOINT)
    options = CheckpointOptions(top_format="parquet" if checkpoint.format == "parquet" else "json")
    written = write_checkpoint(
        log, snapshot, _plan_like(snapshot, checkpoint, options), options, context
    )
    move_hint(log.store, written.hint)
    # The new one may have other names than the old one: delete the old one, or readers may use it.
    obsolete = [name for name in checkpoint.names if name not in written.names]
    failed = log.store.delete_many(obsolete)
    if failed:
        name, cause = next(iter(failed.items()))
        return f"a valid checkpoint was written, but {name} could not be deleted: {cause.message}"
    return None


def _plan_like(
    snapshot: Snapshot, checkpoint: Checkpoint, options: CheckpointOptions
) -> CheckpointPlan:
    """Return a plan for the same kind if it is written; parts become one file."""
    has_v2 = has_feature(snapshot.protocol, V2_CHECKPOINT)
    if checkpoint.kind == "uuid" and has_v2:
        return plan_files(snapshot, "v2", options)
    return plan_files(snapshot, "classic", options)


def repair_hint(log: DeltaLog, hint: HintVerdict, dry_run: bool) -> list[Finding]:
    """Return the finding about ``_last_checkpoint``, if any; rewrite or delete the file."""
    if hint.problem is None:
        return []
    remedy = _add_finding("rewritten for the newest checkpoint", dry_run)
    finding = Finding(HINT_NAME, hint.version, hint.problem, remedy)
    if dry_run:
        return [finding]
    log.update()
    store = log.store
    if not log.checkpoints:
        return [_remove_wrong(store, HINT_NAME, hint.version or 0, hint.problem, dry_run)]
    newest = max(log.checkpoints, key=lambda c: c.version)
    return [replace(finding, repaired=move_hint(store, hint_of(store, newest)))]
