"""Find commits that may have lost actions: a damaged commit can still be valid JSON.

A commit that was truncated at the end of a line has fewer file actions than its ``commitInfo``
says. A commit that was overwritten by another commit has the same bytes, or a later commit removes
files that only the overwritten commit added.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, SafetyError
from deltactl.log.audit.checksum import COUNTS
from deltactl.log.audit.path_actions import FirstActions
from deltactl.log.audit.restores import Restores
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.names import commit_version
from deltactl.protocol.stats import num_records
from deltactl.units import DAY_MS, format_count

# Metrics of Delta on Spark, Databricks, Flink and delta-rs. The first that a commit has is used.
_ADDED: Final = (
    "numAddedFiles",
    "num_added_files",
    "numTargetFilesAdded",
    "num_target_files_added",
    "numRestoredFiles",
    "numRestoredFile",
    "numFilesAdded",
    "numConvertedFiles",
)
_REMOVED: Final = (
    "numRemovedFiles",
    "num_removed_files",
    "numTargetFilesRemoved",
    "num_target_files_removed",
    "numRemovedFile",
    "numFilesRemoved",
)
_VECTORS: Final = ("numDeletionVectorsAdded", "numTargetDeletionVectorsAdded")
# Those of delta-rs that also count files with changes, except for an UPDATE.
_WITH_CHANGES: Final = frozenset({"num_added_files", "num_target_files_added"})
_COUNTED: Final = (*_ADDED, "numFiles")
# Operations of Delta on Spark that have no file actions.
_WITHOUT_FILES: Final = frozenset(
    {
        "ADD COLUMNS", "ADD CONSTRAINT", "CHANGE COLUMN", "DROP COLUMNS", "DROP CONSTRAINT",
        "RENAME COLUMN", "REPLACE COLUMNS", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
        "UPDATE SCHEMA", "UPGRADE PROTOCOL", "VACUUM END", "VACUUM START",
    }
)  # fmt: skip
# These may change only the protocol.
_CHANGES_PROPERTIES: Final = frozenset({"SET TBLPROPERTIES", "UNSET TBLPROPERTIES"})
# Delta on Spark and delta-rs write a metaData action for each of these operations.
_CHANGES_METADATA: Final = _CHANGES_PROPERTIES | {
    "ADD COLUMN", "ADD COLUMNS", "ADD CONSTRAINT", "CHANGE COLUMN", "CHANGE COLUMNS",
    "DROP COLUMNS", "DROP CONSTRAINT", "RENAME COLUMN", "REPLACE COLUMNS",
}  # fmt: skip

_TIME_UNIT_MS: Final = 1000  # S3 and Azure give times of files in whole seconds
_FILE_TIME: Final = re.compile(rb'"(?:modificationTime|deletionTimestamp)": ?(\d{1,18})\b')
_KEEPS_DAMAGE: Final = (
    "Until it is repaired, a commit with files of this state could delete rows or duplicate them"
)


@dataclass(frozen=True, slots=True)
class _Claim:
    """How many file actions a commit has at least, by its metrics.

    ``rows``: how many rows its adds have at least, if it does not add all files that it counts.
    """

    added: int
    removed: int
    rows: int | None = None


class CommitDoubts(Visitor):
    """Compares each commit with its operation, its metrics, and the bytes of the other commits.

    ``found`` has the problems by version. More actions than the metrics say are no problem: not all
    writers count all of them. ``copies`` are commits that another one equals, and ``restores``
    commits that may have undone others.
    """

    def __init__(self) -> None:
        super().__init__()
        self._claims: dict[int, _Claim] = {}
        self._names: dict[bytes, str] = {}
        self._seen: dict[int, tuple[int, int | None]] = {}  # size in bytes, time in ms
        self.found: dict[int, str] = {}
        self.copies: set[int] = set()
        self.restores = Restores()

    @property
    def first(self) -> str | None:
        """Return the oldest problem with the name of its commit; ``None`` if there is none."""
        return self.since(0)

    def since(self, first: int) -> str | None:
        """Return the oldest problem of the commits from a version on, as :attr:`first` does."""
        version = min((it for it in self.found if it >= first), default=None)
        return None if version is None else self._describe(version)

    def describe(self) -> str:
        """Return the oldest problem, and the number of other such commits."""
        others = len(self.found) - 1
        more = f" (and {format_count(others, 'later commit')})" if others else ""
        return self._describe(min(self.found), more)

    def _describe(self, version: int, more: str = "") -> str:
        text = f"{DeltaLog.commit_file(version)} may be damaged: {self.found[version]}{more}"
        undo = self.restores.find_undo(version)
        return text if undo is None else f"{text}. {self.restores.describe(undo)}: keep it as it is"

    def ensure_none(
        self,
        log: DeltaLog,
        why: str = _KEEPS_DAMAGE,
        command: str = "`deltactl checkpoint TABLE`",
    ) -> None:
        """Refuse a step beside a commit that may be damaged.

        ``why``: what the step would do to the table. ``command`` asks whether the commit is right.

        Raises:
            SafetyError: there is such a commit.
        """
        if self.found:
            where = shlex.quote(log.uri)  # of two tables of a run, this may be either
            raise SafetyError(
                f"in {log.uri}, {self.describe()}. {why}",
                hint=restore_commit(where)
                + f" Or run {command.replace('TABLE', where)} on a terminal, which asks.",
            )

    def warn(self, log: DeltaLog, first: int = 0) -> None:
        """Warn of the oldest problem of the commits from a version on, if there is one."""
        if (doubt := self.since(first)) is not None:
            log.warn(f"{doubt}. Run `deltactl check {shlex.quote(log.uri)}` for details")

    def see(self, commit: CommitBytes) -> bool:
        """Compare the bytes; return whether the metrics must be compared with the actions."""
        version = commit.version
        assert version is not None
        if b'"add"' in commit.data or b'"remove"' in commit.data:
            other = self._names.setdefault(_digest(commit), commit.name)
            if other != commit.name:
                self._add_copy(version, other)
        info = _read_info(commit)
        self.restores.take(version, info)
        if _lacks_metadata(info, commit.data):
            self.found[version] = f"it has no metaData action, unlike each {info['operation']}"
        self._seen[version] = len(commit.data), _find_time(info, commit.data)
        claim = _read_claim(commit, info)
        if claim is not None:
            self._claims[version] = claim
        return claim is not None

    def compare_unseen(self, log: DeltaLog) -> None:
        """Compare the bytes of commits that may be copies of commits that were not read.

        A copy has the size and the time of the older commit. So it is not later than the newest
        commit that was not read, nor than the commit before the copy. If all times increase,
        nothing is read.

        Raises:
            StorageError: an older commit cannot be read.
        """
        first = min(self._seen, default=0)
        newest = log.listed.commits.get(first - 1)
        limit = None if newest is None else newest.modified_ms + _TIME_UNIT_MS - 1
        changes = map(commit_version, self._names.values())  # commits with file actions
        copies = [self._seen[v] for v in changes if v is not None and self._may_be_copy(v, limit)]
        if not copies or first == 0:
            return
        sizes = {size for size, _ in copies}
        since = min(0 if time is None else time - DAY_MS for _, time in copies)
        whole = log.without_warnings()  # has a listing of its own: the log keeps the one it read

        def compare() -> None:
            files = {v: file for v, file in whole.commit_files.items() if v not in self._seen}
            like = (
                v for v, it in files.items() if it.size_bytes in sizes and it.modified_ms >= since
            )
            for commit in whole.commits(sorted(like)):
                copied = commit_version(self._names.get(_digest(commit), ""))
                if copied is not None:
                    self._add_copy(copied, commit.name)

        whole.retry_after_cleanup(compare)

    def _add_copy(self, version: int, other: str) -> None:
        self.copies.add(version)
        self.found[version] = (
            f"it has the same bytes as {other}: one of the two may have been overwritten"
        )

    def _may_be_copy(self, version: int, limit: int | None) -> bool:
        """Return whether the time of a commit is not known, or not after ``limit`` and the last."""
        time, (_, before) = self._seen[version][1], self._seen.get(version - 1, (0, None))
        known = [it for it in (limit, before) if it is not None]
        return time is None or (bool(known) and time <= min(known))

    def visit(self, commits: ParsedCommits) -> None:
        """Compare the metrics of commits with their actions."""
        added, removed = (_count(files) for files in (commits.adds, commits.removes))
        for version in commits.versions:
            claim, lacking = self._claims.pop(version), []
            adds, removes = added.get(version, 0), removed.get(version, 0)
            if adds < claim.added and _lacks_rows(commits.adds, version, claim.rows):
                rows = "" if claim.rows is None else f", for {format_count(claim.rows, 'row')},"
                lacking.append(f"{adds} of the {format_count(claim.added, 'add action')}{rows}")
            if removes < claim.removed:
                lacking.append(f"{removes} of the {format_count(claim.removed, 'remove action')}")
            if lacking:
                problem = f"it has {' and '.join(lacking)} that its operationMetrics count"
                self.found[version] = problem


def _lacks_metadata(info: Mapping[str, Any], data: bytes) -> bool:
    operation = str(info.get("operation"))
    if operation not in _CHANGES_METADATA or b'"metaData"' in data:
        return False
    return operation not in _CHANGES_PROPERTIES or b'"protocol"' not in data


def restore_commit(table: str = "TABLE") -> str:
    """Return what to do about a commit that may be damaged."""
    return (
        f"Run `deltactl check {table}`, which says whether to restore the commit from a backup. If "
        "there is no backup, the commit is right, or its changes were written again, see `deltactl "
        "explain COMMIT_DOUBTFUL`."
    )


def find_doubts(log: DeltaLog) -> dict[int, str]:
    """Return the commits that may have lost actions, with the reasons."""
    doubts, actions = CommitDoubts(), FirstActions(log.uri)
    log.scan(sorted(log.commit_files), doubts, actions, on_broken=ignore_broken)
    return actions.find_unknown_removes() | doubts.found


def find_unmeasured(log: DeltaLog, last: int) -> Iterator[int]:
    """Yield the commits up to a version that may have lost adds which their metrics do not show.

    Some writers always write empty metrics, or create a table with its first files.
    """
    for commit in log.commits(v for v in sorted(log.commit_files) if v <= last):
        with suppress(CorruptLogError):  # no version is rebuilt from it
            info = commit.info or {}
            if not _counts_all_adds(commit, info) and not _has_no_files(commit, info):
                assert commit.version is not None
                yield commit.version


def find_lossy_commit(log: DeltaLog, version: int, wrong: Mapping[str, str] | None) -> str | None:
    """Return the name of a commit that may have lost files which a checksum file counts.

    ``wrong`` says how the file of ``version`` differs from the log, by member.
    """
    if COUNTS.isdisjoint(wrong or {}):
        return None
    found = next(find_unmeasured(log, version), None)
    return None if found is None else log.commit_file(found)


def _counts_all_adds(commit: CommitBytes, info: Mapping[str, Any]) -> bool:
    """Return whether a commit has as many adds as its metrics count, also of files without rows."""
    metrics = info.get("operationMetrics")
    if not isinstance(metrics, dict) or not any(_is_count(metrics.get(it)) for it in _COUNTED):
        return False
    claim = _read_claim(commit, info)
    adds, stated = commit.data.count(b'{"add":'), _number(metrics, ("numFiles",))
    return adds >= max(stated, 0 if claim is None else claim.added)


def _has_no_files(commit: CommitBytes, info: Mapping[str, Any]) -> bool:
    if b'{"add":' in commit.data or b'{"remove":' in commit.data:
        return False
    operation, engine = info.get("operation"), str(info.get("engineInfo"))
    if operation == "CREATE TABLE":  # other writers create a table with its first files
        return engine.startswith(("Apache-Spark/", "Databricks-Runtime/"))
    return operation in _WITHOUT_FILES


def explain_unmeasured(commit: str) -> str:
    """Return why a file that has more than the commits must stay, beside such a commit."""
    return (
        f"a commit may have lost actions that this file has: {commit}, for example, has no "
        "operationMetrics that show that it is complete. If the commits are complete, move this "
        "file out of the table. If not, restore them from a backup"
    )


def ignore_broken(commit: CommitBytes, error: CorruptLogError) -> None:
    """Ignore a commit that cannot be parsed: no version is rebuilt from it."""


def _digest(commit: CommitBytes) -> bytes:
    return blake2b(commit.data, digest_size=16).digest()


def _read_info(commit: CommitBytes) -> Mapping[str, Any]:
    try:
        return commit.info or {}
    except CorruptLogError:  # parsing reports it
        return {}


def _find_time(info: Mapping[str, Any], data: bytes) -> int | None:
    """Return the time of a commit, in ms: if its ``commitInfo`` has none, that of its files."""
    times = (info.get(name) for name in ("inCommitTimestamp", "timestamp"))
    stated = next((it for it in times if isinstance(it, int)), None)
    if stated is not None:
        return stated
    return max(map(int, _FILE_TIME.findall(data)), default=None)


def _read_claim(commit: CommitBytes, info: Mapping[str, Any]) -> _Claim | None:
    metrics = info.get("operationMetrics")
    if not isinstance(metrics, dict):
        return None
    changes, is_rewrite = commit.data.count(b'{"cdc":'), "minFileSize" in metrics
    # In an OPTIMIZE of deltactl, these are among the added files.
    vectors = 0 if is_rewrite else _number(metrics, _VECTORS)
    is_counted = info.get("operation") != "UPDATE" and not _WITH_CHANGES.isdisjoint(metrics)
    added = _number(metrics, _ADDED) + vectors - (changes if is_counted else 0)
    # Of a file with a new vector, some writers count the removal, and others do not.
    removed = max(_number(metrics, _REMOVED), vectors)
    rows = _number(metrics, ("num_added_rows",)) or None
    if "numFiles" in metrics:
        # Delta on Spark also counts files with changes, and files without rows, which it does not
        # add.
        added = _number(metrics, ("numFiles",)) - changes
        rows = _number(metrics, ("numOutputRows",)) if not changes else 0
    return _Claim(added, removed, rows) if added > 0 or removed else None


def _number(metrics: Mapping[str, Any], names: Iterable[str]) -> int:
    value = next((metrics[name] for name in names if name in metrics), None)
    return int(str(value)) if _is_count(value) else 0


def _is_count(value: Any) -> bool:
    return str(value).isascii() and str(value).isdecimal()


def _count(files: pa.Table) -> dict[int, int]:
    counts = pc.value_counts(files["version"])
    return {row["values"]: row["counts"] for row in counts.to_pylist()}


def _lacks_rows(adds: pa.Table, version: int, wanted: int | None) -> bool:
    if wanted is None:
        return True
    rows = num_records(adds.filter(pc.equal(adds["version"], version))["stats"])
    return not rows.null_count and (pc.sum(rows).as_py() or 0) < wanted
