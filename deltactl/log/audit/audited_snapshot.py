"""Load versions for commits, and refuse a checkpoint that is proven wrong.

A commit after a wrong checkpoint would keep its errors for good. To compare each checkpoint with
the commits would cost too much. Most writers write a checksum file with a commit, and later the
checkpoint: only if the two disagree, the checkpoint is compared with the commits. The commits after
the checkpoint are compared with their own metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from deltactl.errors import CorruptLogError, ObjectNotFoundError, SafetyError
from deltactl.log.audit.checkpoints import find_base_problem, find_problem_since
from deltactl.log.audit.checksum import Checksum, read_checksum
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.audit.path_actions import FirstActions
from deltactl.log.checkpoint.read import CheckpointHead, read_file_actions
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot


def load_audited(
    log: DeltaLog,
    version: int | None = None,
    *,
    visitors: Sequence[Visitor] = (),
    doubts: CommitDoubts | None = None,
    or_warn: bool = False,
) -> Snapshot:
    """Rebuild a version whose content a commit will keep; see :meth:`DeltaLog.snapshot`.

    The files of the checkpoint are counted whenever all files of the snapshot are read. So this
    costs only the checksum file, and nothing if there is none.

    A commit after the checkpoint that may have lost actions is refused; with ``or_warn``, this is a
    warning. With ``doubts``, which visits these commits, the caller decides.

    Raises:
        SafetyError: the checkpoint is wrong, or a commit may be damaged. Reading the files of the
            snapshot raises the former too.
        StorageError: the checksum file cannot be read.
        DeltactlError: as ``DeltaLog.snapshot``.
    """
    seen = CommitDoubts() if doubts is None else doubts
    snapshot = load_with_doubts(log, seen, version, visitors)
    if doubts is None:
        if or_warn:
            seen.warn(log)
        else:
            seen.ensure_none(log)
    head = snapshot.head
    if head is None or head.version not in log.listed.checksums:
        return snapshot
    checksum = read_checksum(log.store, head.version)
    if checksum is None:  # it says nothing about the checkpoint
        return snapshot
    audit = _Audit(log.without_warnings(), log, head, checksum)
    found = head.non_file_actions
    if found.protocol is not None and found.metadata is not None:
        audit.judge(checksum.compare_state(found.protocol, found.metadata, found.live_domains))
    return replace(snapshot, watch=audit.watch)


def load_with_doubts(
    log: DeltaLog,
    doubts: CommitDoubts,
    version: int | None = None,
    visitors: Sequence[Visitor] = (),
) -> Snapshot:
    """Rebuild a version; ``doubts`` gets the commits that are read.

    If these are all commits from version 0 on, it also gets those that remove unknown files.
    Older commits are read only if one of these may be a copy of them.

    Raises:
        StorageError: an older commit cannot be read.
        DeltactlError: as ``DeltaLog.snapshot``.
    """
    actions = FirstActions(log.uri)
    snapshot = log.snapshot(version, visitors=[*visitors, doubts, actions])
    doubts.compare_unseen(log)
    doubts.found = actions.find_unknown_removes() | doubts.found
    return snapshot


def audit_files(snapshot: Snapshot) -> None:
    """Count the files of the checkpoint of an audited snapshot, where nothing reads them all.

    Raises:
        SafetyError: the checkpoint is wrong.
    """
    if snapshot.watch is not None and snapshot.head is not None:
        batches = read_file_actions(snapshot.store, snapshot.head, "add", ["size_bytes"])
        for _ in snapshot.watch(batches):
            pass


@dataclass(slots=True)
class _Audit:
    """Compares a checkpoint with the checksum file of its version, and if need be with commits.

    ``listed`` keeps the listing of the snapshot.
    """

    listed: DeltaLog
    log: DeltaLog
    head: CheckpointHead
    checksum: Checksum
    is_judged: bool = False

    def watch(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Pass all files of the checkpoint on, and judge it after the last one."""
        num_files = size_bytes = 0
        for batch in batches:
            num_files += batch.num_rows
            size_bytes += sum_sizes(batch)
            yield batch
        self.judge(self.checksum.compare_files(num_files, size_bytes))

    def judge(self, disagreements: Mapping[str, str]) -> None:
        """Raise an error if the commits prove the checkpoint wrong; warn if they are missing."""
        if not disagreements or self.is_judged:
            return
        version, where = self.head.version, self.log.uri
        is_proven = ensure_matches_commits(self.listed, version)
        self.is_judged = True
        if not is_proven:
            # Without the older commits, every reader depends on the checkpoint as it is.
            self.log.warn(
                f"{self.log.checksum_file(version)} of {where} disagrees with the checkpoint of "
                f"its version: {'; '.join(disagreements.values())}. The older commits that would "
                "show which of the two is wrong are gone, so the checkpoint was used, as by all "
                "readers"
            )


def ensure_matches_commits(log: DeltaLog, version: int) -> bool:
    """Return whether the older files of the log prove the checkpoint of a version right.

    Raises:
        SafetyError: they prove it wrong.
    """
    try:
        if not log.has_commits(version, version):
            return False
        problem = find_base_problem(log, version, None)
    except (CorruptLogError, ObjectNotFoundError):
        return False
    if problem is not None:
        raise _refuse(log, version, problem)
    return log.has_commits(0, version)


def ensure_follows(log: DeltaLog, later: Snapshot, earlier: Snapshot) -> None:
    """Refuse to commit the difference of two versions if the checkpoint of the later one is wrong.

    A repair of the checkpoint would leave this commit as it is, with too few or too many files. The
    checkpoint is compared with the earlier version and the commits after it, if all of these can be
    read. If a commit may be damaged instead, this is a warning.

    Raises:
        SafetyError: the checkpoint is wrong.
        StorageError: a file cannot be looked up.
    """
    checkpoint = later.segment.checkpoint
    if checkpoint is None or not log.has_commits(earlier.version + 1, checkpoint.version):
        return
    try:
        problem, evidence = find_problem_since(log, earlier, checkpoint)
    except (CorruptLogError, ObjectNotFoundError):  # no reader needs these commits
        return
    if problem is not None and evidence is None:
        raise _refuse(log, checkpoint.version, problem)
    if problem is not None:
        log.warn(
            f"{checkpoint.names[0]} disagrees with the commits since version {earlier.version}: "
            f"{problem}. It was used, as by all readers, because a commit may be wrong: {evidence}"
        )


def _refuse(log: DeltaLog, version: int, problem: str) -> SafetyError:
    return SafetyError(
        f"the checkpoint of version {version} of {log.uri} disagrees with the older log files: "
        f"{problem}",
        hint="Run `deltactl checkpoint TABLE --repair`, then rerun. If this cannot repair it, "
        "restore the older commits from a backup first. Nothing was committed.",
    )
