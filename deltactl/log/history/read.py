"""Read the commits of a table, newest first, from the files that the log still has.

This neither replays the log nor builds a snapshot. If a checkpoint is invalid, a commit is
truncated, or commits are missing, all other commits are still shown. Missing commits are marked as
a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, overload

from deltactl.errors import (
    CorruptLogError,
    CredentialsExpiredError,
    CredentialsMissingError,
    CredentialsRefusedError,
    ObjectNotFoundError,
    StorageError,
    UnreachableError,
)
from deltactl.log.commits.contents import CommitBytes, CommitReader, not_json, parse_json_line
from deltactl.log.commits.visitors import Visitor, Visits
from deltactl.log.history.columns import HistoryRow, as_text, history_row, history_table
from deltactl.log.history.timestamps import CommitTimes
from deltactl.log.listing import LogListing
from deltactl.log.rebuildable import find_rebuildable
from deltactl.log.table_probe import no_table_error
from deltactl.option_fields import ensure_declared, selection_option
from deltactl.storage.store import FileInfo
from deltactl.units import TimestampMs

if TYPE_CHECKING:
    import pyarrow as pa

# A longer gap is one row. Otherwise one file with a very large version would make millions of rows.
_LONGEST_LISTED_GAP = 10
# If this many consecutive files cannot be read, the store refuses reads. This is an error, not a
# gap.
_MAX_REFUSALS = 10
_SHOWN_ERROR = 200
_NOT_OF_A_FILE = (
    CredentialsExpiredError,
    CredentialsMissingError,
    CredentialsRefusedError,
    UnreachableError,
)
# The contents of so many commits wait in memory to be parsed together.
_PARSED_BYTES: Final = 32 << 20


@dataclass(slots=True)
class CommitRecord:
    """A version of the history; ``problem`` is text or ``None``.

    If ``file`` is ``None``, the version is a gap, or has only a ``checkpoint``.
    """

    version: int
    file: FileInfo | None
    info: dict[str, Any] | None = None
    problem: str | None = None
    checkpoint: FileInfo | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which commits to read. Times are in ms since 1970 UTC. Both ends of a range are included.

    ``operations`` are names; their case is ignored. ``limit`` applies after the other conditions.
    """

    limit: int | None = selection_option(
        None,
        "Show the newest N commits",
        short="n",
        default="20 on a terminal, else all",
        least=1,
        is_basic=True,
    )
    since_ms: TimestampMs | None = selection_option(
        None,
        'Show commits since this time: "2024-01-31 12:00", or "2h" for two hours ago',
        metavar="TIME",
        is_basic=True,
    )
    until_ms: TimestampMs | None = selection_option(
        None, "Show commits until this time; the format is the same as for --since", metavar="TIME"
    )
    first_version: int = 0
    last_version: int | None = None
    operations: tuple[str, ...] = selection_option(
        (),
        "Show only commits of this operation, such as MERGE; may be repeated",
        flag="operation",
        metavar="NAME",
        is_basic=True,
    )

    def __post_init__(self) -> None:
        ensure_declared(self)


@dataclass(slots=True)
class History:
    """The commits that were read. ``num_unread`` is the number of older selected versions."""

    latest_version: int
    num_commits: int
    rows: Sequence[HistoryRow]
    num_unread: int
    uses_in_commit_timestamps: bool

    def table(self) -> pa.Table:
        """Return Arrow columns: those of Delta, then three of deltactl."""
        return history_table(self.rows)


class _Rows(Sequence[HistoryRow]):
    """Rows of commits, created when requested: all rows at once would need twice the memory."""

    def __init__(
        self, records: Sequence[CommitRecord], make: Callable[[CommitRecord], HistoryRow]
    ) -> None:
        self._records, self._make = records, make

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> HistoryRow: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[HistoryRow]: ...

    def __getitem__(self, index: int | slice) -> HistoryRow | Sequence[HistoryRow]:
        if isinstance(index, slice):
            return _Rows(self._records[index], self._make)
        return self._make(self._records[index])

    def __iter__(self) -> Iterator[HistoryRow]:
        return map(self._make, self._records)


def read_history(
    reader: CommitReader,
    listing: LogListing,
    selection: Selection | None = None,
    *visitors: Visitor,
    partition_keys: Collection[str] = (),
) -> History:
    """Read the commits in a listing of the whole log, newest first.

    Only commits that are shown or filtered are read. Files that are deleted during the run are
    omitted. The ``visitors`` get the selected commits. If a commit that one of them needs cannot be
    parsed, this is its ``problem``. ``partition_keys`` are physical names of partition columns
    whose values a visitor needs.

    Raises:
        NotATableError: the log is empty.
        StorageError: the store refuses to read all commits.
    """
    selection = selection or Selection()
    if listing.latest_version is None:
        raise no_table_error(reader.store)
    reading = _Reading(reader, listing, selection, Visits(visitors), partition_keys)
    reading.run()
    reading.parse_needed()
    return History(
        latest_version=listing.latest_version,
        num_commits=len(listing.commits),
        rows=reading.rows(),
        num_unread=reading.num_unread,
        uses_in_commit_timestamps=reading.times.uses_in_commit,
    )


def list_versions(
    listing: LogListing, first: int = 0, last: int | None = None
) -> list[CommitRecord]:
    """Return the versions of a log, newest first, with a record for each missing version.

    Versions older than the oldest commit are not missing: log cleanup removes them. Of these, only
    versions with a checkpoint are returned. ``first`` and ``last`` are included.
    """
    latest = listing.latest_version
    assert latest is not None
    top = latest if last is None else min(last, latest)
    oldest = min(listing.commits, default=latest + 1)
    bottom = max(first, oldest)
    kept = sorted((v for v in listing.commits if bottom <= v <= top), reverse=True)
    records: list[CommitRecord] = []
    for newer, version in pairwise([top + 1, *kept]):
        if newer - version > 1:
            records += _missing(version + 1, newer - 1)
        records.append(CommitRecord(version, listing.commits[version]))
    records += _missing(bottom, (kept[-1] if kept else top + 1) - 1)
    others = {c.version: c.files[0] for c in listing.checkpoints if first <= c.version <= top}
    records += [
        CommitRecord(version, None, checkpoint=others[version])
        for version in sorted(others, reverse=True)
        if version < oldest
    ]
    return records


def _missing(first: int, last: int) -> list[CommitRecord]:
    count = last - first + 1
    if count > _LONGEST_LISTED_GAP:
        problem = f"commits {first} to {last} are missing ({count:,} versions)"
        return [CommitRecord(last, None, problem=problem)]
    missing = "the commit file is missing"
    return [CommitRecord(v, None, problem=missing) for v in range(last, first - 1, -1)]


@dataclass(slots=True)
class _Reading:
    reader: CommitReader
    listing: LogListing
    selection: Selection
    visits: Visits
    partition_keys: Collection[str]
    times: CommitTimes = field(init=False)
    kept: list[CommitRecord] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    num_unread: int = 0
    _needed: dict[str, tuple[CommitRecord, CommitBytes]] = field(default_factory=dict)
    _needed_bytes: int = 0
    _operations: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.times = CommitTimes(self.listing)
        self._operations = frozenset(name.casefold() for name in self.selection.operations)

    def run(self) -> None:
        chosen = self.selection
        records = list_versions(self.listing, chosen.first_version, chosen.last_version)
        timed = chosen.since_ms is not None or chosen.until_ms is not None
        newest = max(self.listing.commits, default=None)
        if newest is not None and (timed or all(r.version != newest for r in records)):
            self._look_at(newest)
        # The listing has the times of the files, so no commit is read only for its time.
        if timed and not self.times.uses_in_commit:
            low, high = self.times.version_range(chosen.since_ms, chosen.until_ms)
            records = [record for record in records if low <= record.version <= high]
            timed = False
        filtered = timed or bool(self._operations)
        if not filtered and chosen.limit is not None:
            self.num_unread = max(len(records) - chosen.limit, 0)
            records = records[: chosen.limit]
        self._keep(records, timed)

    def _look_at(self, version: int) -> None:
        """Find from the latest commit whether in-commit timestamps apply."""
        record = CommitRecord(version, self.listing.commits[version])
        for _, commit in _read_each(self.reader, [record]):
            if commit is not None:
                self._examine(record, commit)

    def _keep(self, records: Sequence[CommitRecord], timed: bool) -> None:
        for position, (record, commit) in enumerate(_read_each(self.reader, records), 1):
            if commit is not None:
                self._examine(record, commit)
            # These times increase with the version, so all older commits are too old as well.
            if timed and self._is_before(record):
                return
            if not self._is_wanted(record, timed):
                continue
            if commit is not None and record.problem is None and self.visits.ask(commit):
                self._need(record, commit)
            self.kept.append(record)
            if len(self.kept) == self.selection.limit:
                self.num_unread = max(self.num_unread, len(records) - position)
                return

    def _need(self, record: CommitRecord, commit: CommitBytes) -> None:
        self._needed[commit.name] = record, commit
        self._needed_bytes += len(commit.data)
        if self._needed_bytes >= _PARSED_BYTES:
            self.parse_needed()

    def parse_needed(self) -> None:
        """Parse the commits that a visitor needs."""
        if not self._needed:
            return
        from deltactl.log.commits.scan import parse_commits

        needed, self._needed, self._needed_bytes = self._needed, {}, 0

        def on_broken(commit: CommitBytes, error: CorruptLogError) -> None:
            needed[commit.name][0].problem = error.message

        commits = [commit for _, commit in needed.values()]
        for parsed in parse_commits(commits, self.partition_keys, on_broken=on_broken):
            self.visits.give(parsed)

    def _examine(self, record: CommitRecord, commit: CommitBytes) -> None:
        try:
            record.info = commit.info
            # A commitInfo that is the only line was parsed.
            if record.info is None or commit.data.find(b"\n", 0, -1) >= 0:
                _refuse_truncated(commit.name, commit.data)
        except CorruptLogError as error:
            record.problem = error.message[:_SHOWN_ERROR]
        if record.info is not None:
            self.times.see(record.version, commit.name, record.info, commit.data)

    def _is_before(self, record: CommitRecord) -> bool:
        since = self.selection.since_ms
        if since is None or record.file is None:
            return False
        return self.times.timestamp_ms(record.version) < since

    def _is_wanted(self, record: CommitRecord, timed: bool) -> bool:
        if self._operations:
            operation = as_text(record.info.get("operation")) if record.info else None
            if operation is None or operation.casefold() not in self._operations:
                return False
        until = self.selection.until_ms
        if not timed or until is None:
            return True
        if record.file is None:
            # A gap has no time. It is in the range if the commit after it is.
            return bool(self.kept)
        return self.times.timestamp_ms(record.version) <= until

    def rows(self) -> _Rows:
        broken = {r.version for r in self.kept if r.problem is not None and r.file is not None}
        wanted = {record.version for record in self.kept}
        rebuildable = find_rebuildable(self.reader.store, self.listing, wanted, broken)
        return _Rows(self.kept, lambda record: self._row(record, rebuildable))

    def _row(self, record: CommitRecord, rebuildable: Container[int]) -> HistoryRow:
        timestamp_ms = None if record.checkpoint is None else record.checkpoint.modified_ms
        if record.file is not None:
            timestamp_ms = self.times.timestamp_ms(record.version)
        return history_row(
            record.version,
            record.info,
            timestamp_ms=timestamp_ms,
            reconstructible=record.version in rebuildable,
            problem=record.problem or self._lack(record),
        )

    def _lack(self, record: CommitRecord) -> str | None:
        if record.file is not None and self.times.lacks_timestamp(record.version):
            return "the commit has no inCommitTimestamp; the time of the commit file is shown"
        return None


def _refuse_truncated(name: str, data: bytes) -> None:
    """Raise an error for a commit that is empty or whose last line is truncated.

    Other lines are not checked.
    """
    whole = data.rstrip()
    if not whole:
        raise CorruptLogError(f"{name} is empty: the write was truncated, or the content was lost")
    # An incomplete write ends in the middle of its last line.
    line = whole[whole.rfind(b"\n") + 1 :]
    try:
        is_object = isinstance(parse_json_line(line), dict)
    except (ValueError, RecursionError) as error:
        number = whole.count(b"\n") + 1
        raise not_json(name, number, line, error) from error
    if not is_object:
        raise CorruptLogError(f"{name}: its last line is not a JSON object")


def _read_each(
    reader: CommitReader, records: Sequence[CommitRecord]
) -> Iterator[tuple[CommitRecord, CommitBytes | None]]:
    """Yield each record with its content. A gap has no content, and deleted files are omitted."""
    contents: Iterator[CommitBytes] | None = None
    refusals = 0
    for position, record in enumerate(records):
        if record.file is None:
            yield record, None
            continue
        if contents is None:
            rest = [r.file for r in records[position:] if r.file is not None]
            contents = reader.read(rest)
        try:
            commit = next(contents)
        except ObjectNotFoundError:
            contents = None  # the error has ended it: the files after this one are requested anew
            continue
        except _NOT_OF_A_FILE:
            raise
        except StorageError as error:
            contents, refusals = None, refusals + 1
            if refusals == min(_MAX_REFUSALS, len(records)):
                raise
            record.problem = error.message[:_SHOWN_ERROR]
            yield record, None
        else:
            refusals = 0
            yield record, commit
