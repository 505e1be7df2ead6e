"""Load versions for commits, and refuse a checkpoint that is proven wrong.

A commit after a wrong checkpoint would keep its errors for good. To compare each checkpoint with
the commits would cost too much. Most writers write a checksum file with a commit, and later the
checkpoint: only if the checksum file of the checkpoint, or the newest one after it, disagrees, the
checkpoint is compared with the commits. The commits after the checkpoint are compared with their
own metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltactl.errors import CorruptLogError, ObjectNotFoundError, SafetyError
from deltactl.log.audit.checkpoints import find_base_problem, find_problem_since
from deltactl.log.audit.checksum import Checksum, read_checksum
from deltactl.log.audit.commit_doubts import CommitDoubts, find_lossy_commit
from deltactl.log.audit.path_actions import FirstActions
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import without_tail
from deltactl.log.segment import LogSegment
from deltactl.log.snapshot import Snapshot, load_segment


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
    checkpoint and the latest one; the commits up to it are read again.

    Raises:
        SafetyError: the checkpoint is wrong; also raised when the files are read.
        StorageError: a checksum file cannot be read.
    """
    if snapshot.head is None and not strict:
        return snapshot
    audit = _Audit(log.without_warnings(), log, snapshot, strict)
    watch = ChecksumWatch.of(log, snapshot, audit.judge, with_older=strict)
    if watch is None:
        return snapshot
    watch.judge_metadata()
    return replace(snapshot, watch=watch)


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
    differs, by member; see ``Checksum``. ``older`` is a version between the two, with its checksum.
    """

    snapshot: Snapshot
    stored: Checksum | None
    live: Checksum | None
    judge: Callable[[int, Mapping[str, str]], None]
    older: tuple[Snapshot, Checksum] | None = None

    @classmethod
    def of(
        cls,
        log: DeltaLog,
        snapshot: Snapshot,
        judge: Callable[[int, Mapping[str, str]], None],
        *,
        with_older: bool,
    ) -> ChecksumWatch | None:
        """Read the checksum files; return ``None`` if there are none.

        ``with_older``: if the newest valid one is of a version between the two, it is compared too.

        Raises:
            StorageError: a file cannot be read.
        """
        first, last = snapshot.segment.checkpoint_version, snapshot.version
        listed = log.listed.checksums
        stored = read_checksum(log.store, first) if first in listed else None
        live = read_checksum(log.store, last) if first < last in listed else None
        older, between = None, range(last - 1, first, -1) if with_older and live is None else ()
        for version in (it for it in between if it in listed):
            if (checksum := read_checksum(log.store, version)) is not None:
                older = (_rebuild(snapshot, version), checksum)
                break
        if stored is None and live is None and older is None:
            return None
        return cls(snapshot, stored, live, judge, older)

    def judge_metadata(self) -> None:
        """Judge the metadata of the checkpoint."""
        head = self.snapshot.head
        if self.stored is None or head is None:
            return
        if wrong := self.stored.compare_metadata(head.non_file_actions.metadata):
            self.judge(head.version, wrong)

    def see_stored(self, batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Pass all files of the checkpoint on, and judge them after the last one."""
        totals = [0, 0]
        if self.older is not None:
            batches = self._see_older(batches, *self.older)
        yield from _count(batches, totals)
        if self.stored is not None and (wrong := self.stored.compare_files(*totals)):
            self.judge(self.snapshot.segment.checkpoint_version, wrong)

    def _see_older(
        self, batches: Iterator[pa.Table], older: Snapshot, checksum: Checksum
    ) -> Iterator[pa.Table]:
        """Pass all files of the checkpoint on, and judge those of the older version."""
        totals = [0, 0]
        for batch in batches:
            _add(without_tail(batch, older.tail), totals)
            yield batch
        for batch in older.tail.add_rows.batches(["size_bytes"]):
            _add(batch, totals)
        if wrong := checksum.compare_files(*totals):
            self.judge(older.version, wrong)

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


def _rebuild(snapshot: Snapshot, version: int) -> Snapshot:
    """Return a version between the checkpoint of a snapshot and the snapshot."""
    segment = snapshot.segment
    tail = segment.tail[: version - segment.checkpoint_version]
    part = LogSegment(version, segment.checkpoint, tail, tail[-1])
    return load_segment(snapshot.reader, part, snapshot.head)


def _count(batches: Iterator[pa.Table], totals: list[int]) -> Iterator[pa.Table]:
    for batch in batches:
        _add(batch, totals)
        yield batch


def _add(batch: pa.Table, totals: list[int]) -> None:
    totals[0] += batch.num_rows
    totals[1] += sum_sizes(batch)


@dataclass(slots=True)
class _Audit:
    """Compares a checkpoint with the commits if a checksum file disagrees.

    ``listed`` keeps the listing of the snapshot.
    """

    listed: DeltaLog
    log: DeltaLog
    snapshot: Snapshot
    strict: bool
    is_proven: bool | None = None
    judged: set[tuple[int, frozenset[str]]] = field(default_factory=set)

    def judge(self, version: int, disagreements: Mapping[str, str]) -> None:
        """Raise an error if the commits prove the checkpoint wrong.

        If they are missing, raise an error if ``strict``; else warn. If they prove it right, a
        commit may have lost actions: also an error if ``strict`` and a commit has no metrics.
        """
        difference = version, frozenset(disagreements)
        if not disagreements or difference in self.judged:
            return
        self.judged.add(difference)
        if self.is_proven is None:
            base = self.snapshot.segment.checkpoint_version
            self.is_proven = base < 0 or ensure_matches_commits(self.listed, base)
            if not self.is_proven:
                self._doubt(version, disagreements)
        if self.is_proven and self.strict:  # each file may show the loss of another commit
            self._blame_commits(version, disagreements)

    def _blame_commits(self, version: int, disagreements: Mapping[str, str]) -> None:
        """Refuse if a commit without metrics may have lost the files that are missing; or warn."""
        problem = (
            f"{self._describe(version, 'the commits', disagreements)}. If a commit lost actions, "
            "files that it added look unneeded"
        )
        name = find_lossy_commit(self.listed, version, disagreements)
        if name is not None:
            raise SafetyError(
                f"{problem}: {name}, for example, has no operationMetrics that show that it "
                "is complete",
                hint="Run `deltactl check TABLE --checkpoints`, which says what to do. Nothing was "
                "changed.",
            )
        self.log.warn(f"{problem}: see `deltactl check TABLE --checkpoints`")

    def _describe(self, version: int, origin: str, disagreements: Mapping[str, str]) -> str:
        name = self.log.checksum_file(version)
        return f"{name} of {self.log.uri} disagrees with {origin}: " + "; ".join(
            disagreements.values()
        )

    def _doubt(self, version: int, disagreements: Mapping[str, str]) -> None:
        origin, base = "the checkpoint of its version", self.snapshot.segment.checkpoint_version
        if version != base:
            origin = f"its version, which depends on the checkpoint of version {base}"
        problem = (
            f"{self._describe(version, origin, disagreements)}. The older commits that would show "
            "which of the two is wrong are gone"
        )
        if self.strict:
            latest, number = self.log.latest_version, self.snapshot.version
            older = "" if number == latest else f" --version {number}"
            raise SafetyError(
                f"{problem}. If the checkpoint is wrong, this run would delete files that are "
                "still needed, or hide the error",
                hint=f"Run `deltactl check TABLE{older}`, which says what to do. Nothing was "
                "changed.",
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
