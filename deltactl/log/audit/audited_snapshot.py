"""Load versions for commits, and refuse a checkpoint that is proven wrong.

A commit after a wrong checkpoint would keep its errors for good. To compare each checkpoint with
the commits would cost too much. Most writers write a checksum file with a commit, and later the
checkpoint: only if the checksum file of the checkpoint, or the newest one after it, disagrees, the
checkpoint is compared with the commits. The commits after the checkpoint are compared with their
own metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from deltactl.errors import CorruptLogError, ObjectNotFoundError, SafetyError
from deltactl.log.audit.checkpoints import find_base_problem, find_problem_since
from deltactl.log.audit.checksum import Checksum, read_checksum
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.audit.path_actions import FirstActions
from deltactl.log.checkpoint_files import Checkpoint
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
    strict: bool = False,
) -> Snapshot:
    """Rebuild a version whose content a commit will keep; see :meth:`DeltaLog.snapshot`.

    The files are counted whenever all files of the snapshot are read. So this costs only the
    checksum files, and nothing if there are none.

    A commit after the checkpoint that may have lost actions is refused; with ``or_warn``, this is a
    warning. With ``doubts``, which visits these commits, the caller decides. For ``strict``, see
    ``audit_snapshot``.

    Raises:
        SafetyError: the checkpoint is wrong, or a commit may be damaged. Reading the files of the
            snapshot raises the former too.
        StorageError: a checksum file cannot be read.
        DeltactlError: as ``DeltaLog.snapshot``.
    """
    seen = CommitDoubts() if doubts is None else doubts
    snapshot = load_with_doubts(log, seen, version, visitors)
    if doubts is None:
        if or_warn:
            seen.warn(log)
        else:
            seen.ensure_none(log)
    return audit_snapshot(log, snapshot, strict=strict)


def audit_snapshot(log: DeltaLog, snapshot: Snapshot, *, strict: bool = False) -> Snapshot:
    """Return a snapshot that compares its files with checksum files whenever all are read.

    If the commits that show which is wrong are missing, this is a warning. With ``strict``, it is
    an error: for runs that delete files, or write a checkpoint, after which no checksum file may
    show it any longer. Then the newest checksum file also counts if it is of a version between the
    checkpoint and the latest one; this version is rebuilt.

    Raises:
        SafetyError: the checkpoint is wrong; also raised when the files are read.
        StorageError: a checksum file cannot be read.
    """
    if snapshot.head is None and not strict:
        return snapshot
    audit = _Audit(log.without_warnings(), log, snapshot.segment.checkpoint_version, strict)
    if strict and (found := find_older_contradiction(log, snapshot)) is not None:
        audit.judge(*found)
    watch = ChecksumWatch.of(log, snapshot, audit.judge)
    if watch is None:
        return snapshot
    if watch.stored is not None and snapshot.head is not None:
        found_state = snapshot.head.non_file_actions
        wrong = watch.stored.compare_metadata(found_state.metadata)
        audit.judge(snapshot.head.version, wrong)
    return replace(snapshot, watch=watch)


def find_older_contradiction(
    log: DeltaLog, snapshot: Snapshot, skip: frozenset[Checkpoint] = frozenset()
) -> tuple[int, Mapping[str, str]] | None:
    """Compare the newest checksum file with its version, if this is after the checkpoint.

    Return the version, and how its counts differ, by member; ``None`` if they do not, or if it is
    the version of the snapshot. Checkpoints in ``skip`` are not used.

    Raises:
        CorruptLogError: the version cannot be rebuilt.
        StorageError: the file cannot be read.
    """
    version = max((v for v in log.listed.checksums if v <= snapshot.version), default=-1)
    if not snapshot.segment.checkpoint_version < version < snapshot.version:
        return None
    checksum = read_checksum(log.store, version)
    if checksum is None:
        return None
    older = log.without_warnings().snapshot(version, skip=skip)
    wrong = checksum.compare_files(older.num_files, older.size_bytes)
    return (version, wrong) if wrong else None


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
    """Count the files of an audited snapshot, where nothing reads them all.

    Raises:
        SafetyError: the checkpoint is wrong.
    """
    if snapshot.watch is not None:
        _ = snapshot.num_files


@dataclass(frozen=True, slots=True)
class ChecksumWatch:
    """Compares a snapshot with the checksum files of its checkpoint and of its own version.

    ``snapshot`` is not watched itself. ``judge`` gets the version of a checksum file and how it
    differs, by member; see ``Checksum``.
    """

    snapshot: Snapshot
    stored: Checksum | None
    live: Checksum | None
    judge: Callable[[int, Mapping[str, str]], None]

    @classmethod
    def of(
        cls, log: DeltaLog, snapshot: Snapshot, judge: Callable[[int, Mapping[str, str]], None]
    ) -> ChecksumWatch | None:
        """Read the checksum files; return ``None`` if there are none.

        Raises:
            StorageError: a file cannot be read.
        """
        first = snapshot.segment.checkpoint_version
        versions = [v for v in {first, snapshot.version} if v in log.listed.checksums]
        found = {version: read_checksum(log.store, version) for version in versions}
        stored = found.pop(first, None)
        live = found.get(snapshot.version)
        return None if stored is None and live is None else cls(snapshot, stored, live, judge)

    def see_stored(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Pass all files of the checkpoint on, and judge them after the last one."""
        totals = [0, 0]
        yield from _count(batches, totals)
        if self.stored is not None and (wrong := self.stored.compare_files(*totals)):
            self.judge(self.snapshot.segment.checkpoint_version, wrong)

    def see_live(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Pass all live files on, and judge them after the last one."""
        totals = [0, 0]
        yield from _count(batches, totals)
        if self.live is not None and self.live.compare_files(*totals):
            exact = [0, 0]  # two spellings of a file may have been counted as two
            for _ in _count(self.snapshot.file_batches(["size_bytes"]), exact):
                pass
            if wrong := self.live.compare_files(*exact):
                self.judge(self.snapshot.version, wrong)


def _count(batches: Iterator[pa.Table], totals: list[int]) -> Iterator[pa.Table]:
    for batch in batches:
        totals[0] += batch.num_rows
        totals[1] += sum_sizes(batch)
        yield batch


@dataclass(slots=True)
class _Audit:
    """Compares a checkpoint with the commits if a checksum file disagrees.

    ``listed`` keeps the listing of the snapshot. ``version`` is that of the checkpoint, or -1.
    """

    listed: DeltaLog
    log: DeltaLog
    version: int
    strict: bool
    is_judged: bool = False

    def judge(self, version: int, disagreements: Mapping[str, str]) -> None:
        """Raise an error if the commits prove the checkpoint wrong.

        If they are missing, raise an error if ``strict``; else warn. If they prove it right, a
        commit may have lost actions that its metrics do not count.
        """
        if not disagreements or self.is_judged:
            return
        if self.version >= 0 and not ensure_matches_commits(self.listed, self.version):
            self._doubt(version, disagreements)
        elif self.strict:
            self.log.warn(
                f"{self._describe(version, 'the commits', disagreements)}. If a commit lost "
                "actions, files that it added look unneeded: see `deltactl check TABLE "
                "--checkpoints`"
            )
        self.is_judged = True

    def _describe(self, version: int, origin: str, disagreements: Mapping[str, str]) -> str:
        name = self.log.checksum_file(version)
        return f"{name} of {self.log.uri} disagrees with {origin}: " + "; ".join(
            disagreements.values()
        )

    def _doubt(self, version: int, disagreements: Mapping[str, str]) -> None:
        origin = "the checkpoint of its version"
        if version != self.version:
            origin = f"its version, which depends on the checkpoint of version {self.version}"
        problem = (
            f"{self._describe(version, origin, disagreements)}. The older commits that would show "
            "which of the two is wrong are gone"
        )
        if self.strict:
            raise SafetyError(
                f"{problem}. If the checkpoint is wrong, this run would delete files that are "
                "still needed, or hide the error",
                hint="Run `deltactl check TABLE`, which says what to do. Nothing was changed.",
            )
        # Without the older commits, every reader depends on the checkpoint as it is.
        self.log.warn(f"{problem}, so the checkpoint was used, as by all readers")


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


def ensure_fits_commit(log: DeltaLog, snapshot: Snapshot) -> None:
    """Refuse a version whose checkpoint contradicts the commit of the same version.

    Only if older commits are gone, as after a log cleanup: else, many files would be read.

    Raises:
        SafetyError: the checkpoint or the commit is wrong.
    """
    version = snapshot.segment.checkpoint_version
    if version >= 0 and not log.has_commits(version - 1, version - 1):
        ensure_matches_commits(log, version)


def _refuse(log: DeltaLog, version: int, problem: str) -> SafetyError:
    return SafetyError(
        f"the checkpoint of version {version} of {log.uri} disagrees with the older log files: "
        f"{problem}",
        hint="Run `deltactl checkpoint TABLE --repair`, then rerun. If this cannot repair it, "
        "restore the older commits from a backup first. Nothing was committed.",
    )
