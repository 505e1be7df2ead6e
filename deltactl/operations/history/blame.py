"""``describe-history --blame``: the commits that changed a partition."""

from __future__ import annotations

import difflib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, PredicateError, UnsupportedFeatureError, UsageError
from deltactl.log.audit.commit_doubts import CommitDoubts
from deltactl.log.audit.path_actions import FirstActions
from deltactl.log.commits.changes import CommitChange, RowFilter, SelectedChanges
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.columns import HistoryRow
from deltactl.log.history.read import History, Selection
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.partitions import lookup_map, parse_partition_column
from deltactl.protocol.paths import hive_unescape, hive_value, partition_directory
from deltactl.protocol.schema import Field

if TYPE_CHECKING:
    from deltactl.operations.predicate.parse import PartitionPredicate

Partition = Mapping[str, str | None]

# Text that is not in a partition in the form of directory names: a space next to the first "=", a
# value that begins with a quote, operators and keywords of SQL.
_IS_PREDICATE: Final = re.compile(
    r"""\s=|=\s|=['"]|=.*=|[<>!()]|\s(?:and|or|is|in|not|r?like|between)\s""", re.IGNORECASE
)
_MAX_NEAREST: Final = 3
_ONE_FORM: Final = (pa.types.is_string, pa.types.is_integer, pa.types.is_date, pa.types.is_boolean)
"""Types of partition values that all writers write in one form."""


@dataclass(frozen=True, slots=True)
class BlameReport:
    """The commits that changed the partition, newest first, and their changes to its files.

    ``oldest_version`` is that of the oldest commit in the log: older ones may have changed it too.
    ``unknown``, if nothing was found, are values that no partition has or had.
    """

    latest_version: int
    oldest_version: int
    asked: BlameFilter
    rows: list[HistoryRow]
    changes: Mapping[int, CommitChange]
    num_unread: int
    unknown: tuple[UnknownValue, ...] = ()


def blame_partition(
    log: DeltaLog, text: str, selection: Selection, now_ms: int | None = None
) -> BlameReport:
    """Find the commits of a selection that added or removed files of some partitions.

    Every selected commit in the log is read; only matching commits are kept in memory.

    Args:
        log: the log of the table.
        text: ``day=2024-01-31/region=eu``, in the form of directory names, or a predicate over
            partition columns as for ``optimize --where``.
        selection: the commits to search.
        now_ms: the current time, which a predicate may contain.

    Raises:
        UsageError: the table is not partitioned by these columns.
        PredicateError: the predicate cannot be parsed, or is not about partition columns.
        NotATableError: there is no log.
        CorruptLogError: no version can be rebuilt, so the columns are unknown.
    """
    log.ensure_newest(or_warn=True)
    commits = log.commit_files
    snapshot = _newest_snapshot(log)
    fields = snapshot.metadata.known_partition_fields
    asked = _parse_blame(text, fields, log.uri, now_ms)
    blame, history, doubts = _search(log, replace(selection, limit=None), asked)
    doubts.warn(log)
    rows = blame.choose(history, doubts)
    shown = rows[: selection.limit]
    return BlameReport(
        history.latest_version,
        min(commits, default=history.latest_version),
        asked,
        shown,
        blame.found,
        len(rows) - len(shown),
        () if blame.found else _find_unknown(asked, _known_values(log, snapshot, asked)),
    )


def find_changing(log: DeltaLog, predicate: PartitionPredicate, first: int) -> list[int]:
    """Return the versions from ``first`` on that changed files of some partitions, newest first."""
    fields = log.snapshot().metadata.partition_fields
    asked = _filter_by(predicate, fields)
    blame, history, doubts = _search(log, Selection(first_version=first), asked)
    return [row["version"] for row in blame.choose(history, doubts)]


def _search(
    log: DeltaLog, selection: Selection, asked: BlameFilter
) -> tuple[_Blame, History, CommitDoubts]:
    blame, doubts = _Blame(asked), CommitDoubts()
    actions = FirstActions(log.uri, begins=selection.first_version == 0)
    history = log.history(selection, blame, doubts, actions, partition_keys=asked.keys)
    doubts.found = actions.find_unknown_removes() | doubts.found
    return blame, history, doubts


def _newest_snapshot(log: DeltaLog) -> Snapshot:
    """Return the newest version that can be rebuilt."""
    try:
        return log.snapshot()
    except CorruptLogError as error:
        rows = log.history(Selection(limit=None)).rows
        newest = next((row["version"] for row in rows if row["reconstructible"]), None)
        if newest is None:
            raise
        log.warn(f"the partition columns are those of version {newest}: {error.message}")
        return log.snapshot(newest)


def _known_values(
    log: DeltaLog, snapshot: Snapshot, asked: BlameFilter
) -> Iterator[pa.ChunkedArray]:
    """Yield the ``partition_values`` of live files and of all commits that can be read."""
    for batch in snapshot.file_batches(["partition_values"]):
        yield batch["partition_values"]
    for commits in log.parsed_commits(log.commit_files, asked.keys, on_broken=lambda *_: None):
        yield commits.adds["partition_values"]
        yield commits.removes["partition_values"]


class _Blame(SelectedChanges):
    """Collect the changes of commits to the partition."""

    def __init__(self, asked: BlameFilter) -> None:
        super().__init__(asked.is_selected)
        self._asked = asked

    def see(self, commit: CommitBytes) -> bool:
        """Return whether the values occur in a commit."""
        return all(any(it in commit.data for it in traces) for traces in self._asked.traces)

    def choose(self, history: History, doubts: CommitDoubts) -> list[HistoryRow]:
        """Return the commits that changed the partition.

        One that is missing or broken, or lost actions, may have changed it.
        """
        rows = []
        for row in history.rows:
            doubt = doubts.found.get(row["version"])
            if row["problem"] is None and doubt is not None:
                row["problem"] = f"the commit may be damaged: {doubt}"
            if row["version"] in self.found or row["problem"]:
                rows.append(row)
        return rows


@dataclass(frozen=True, slots=True)
class BlameFilter:
    """The filter of ``--blame`` for file actions.

    Attributes:
        partition: the requested partition, by logical names; ``None`` for a predicate.
        sql: the predicate; ``None`` for a partition.
        columns: the partition columns that it uses.
        is_selected: selects file actions by their ``partition_values``.
        traces: for each condition, strings of which a selected commit contains at least one.
        sought: the requested value strings, by logical names.
    """

    partition: Partition | None
    sql: str | None
    columns: tuple[Field, ...]
    is_selected: RowFilter = field(repr=False)
    traces: tuple[tuple[bytes, ...], ...] = ()
    sought: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the physical names of the columns."""
        return tuple(column.physical_name for column in self.columns)


def parse_partition(text: str) -> dict[str, str | None]:
    """Parse ``day=2024-01-31/region=eu``, the form of directory names; columns may be omitted.

    Raises:
        UsageError: it does not have this form.
    """
    values: dict[str, str | None] = {}
    for part in text.strip("/").split("/"):
        name, equals, value = part.partition("=")
        if not (name and equals):
            raise UsageError(
                f"{text!r} is not a partition",
                hint="Write the partition as a directory, such as day=2024-01-31/region=eu.",
            )
        values[hive_unescape(name)] = hive_value(value)
    return values


def _parse_blame(
    text: str, partition_fields: tuple[Field, ...], where: str, now_ms: int | None
) -> BlameFilter:
    """Parse the value of ``--blame``: a partition in the form of directory names or a predicate."""
    if any(_IS_PREDICATE.search(part) for part in text.strip("/").split("/")):
        from deltactl.operations.predicate.parse import parse_predicate

        try:
            return _filter_by(parse_predicate(text, partition_fields, now_ms), partition_fields)
        except PredicateError:
            if not _is_printed(text, partition_fields):
                raise
    return _by_partition(parse_partition(text), partition_fields, where)


def _is_printed(text: str, partition_fields: tuple[Field, ...]) -> bool:
    """Return whether a text is the directory of a partition as deltactl prints it."""
    try:
        values = parse_partition(text)
    except UsageError:
        return False
    is_whole = list(values) == [column.name for column in partition_fields]
    return is_whole and partition_directory(list(values.items())) == text


def _filter_by(predicate: PartitionPredicate, partition_fields: tuple[Field, ...]) -> BlameFilter:
    return BlameFilter(
        None,
        predicate.sql,
        tuple(f for f in partition_fields if f.name in predicate.columns),
        predicate.evaluate,
        sought=predicate.sought_values(),
    )


def _by_partition(
    partition: Partition, partition_fields: tuple[Field, ...], where: str
) -> BlameFilter:
    known = {column.name: column for column in partition_fields}
    for name in partition:
        if name not in known:
            raise UsageError(
                f"{name!r} is not a partition column of {where}",
                hint=f"Use these partition columns: {', '.join(known)}."
                if known
                else "Omit --blame: the table has no partition columns.",
            )
    wanted = [(known[name], value) for name, value in partition.items()]
    return BlameFilter(
        partition,
        None,
        tuple(column for column, _ in wanted),
        lambda partition_values: _equal_values(partition_values, wanted),
        tuple(_traces(*pair) for pair in wanted),
        {name: [value] for name, value in partition.items() if value is not None},
    )


def _equal_values(
    partition_values: pa.ChunkedArray, wanted: Sequence[tuple[Field, str | None]]
) -> pa.ChunkedArray:
    """Return which rows have the values, in any form."""
    mask = pa.chunked_array([pa.repeat(True, len(partition_values))])
    for column, text in wanted:
        found = _are_equal(lookup_map(partition_values, column.physical_name), column, text)
        mask = pc.and_(mask, pc.fill_null(found, False))
    return mask


def _are_equal(texts: pa.ChunkedArray, column: Field, text: str | None) -> pa.ChunkedArray:
    """Return which texts are the value; texts that are no values of the type are compared as texts.

    An empty text means null, as for readers (PROTOCOL.md, "Partition Value Serialization").
    """
    if not text:
        return pc.or_kleene(pc.is_null(texts), pc.equal(texts, ""))
    found = pc.equal(texts, text)
    value = _parse(column, text)
    if value is not None:
        distinct = pc.unique(texts)
        try:
            values = parse_partition_column(distinct, value.type)
        except CorruptLogError:  # a damaged log: only then one by one
            parsed = [_parse(column, it) for it in distinct.to_pylist()]
            values = pa.array([None if it is None else it.as_py() for it in parsed], value.type)
        equal = distinct.filter(pc.fill_null(pc.equal(values, value), False))
        found = pc.or_kleene(found, pc.is_in(texts, value_set=equal))
    return found


def _parse(column: Field, text: str | None) -> pa.Scalar | None:
    """Return a text as a value of a column; ``None`` if it is none."""
    try:
        value = parse_partition_column(pa.array([text], pa.string()), arrow_type(column.type))[0]
    except (CorruptLogError, UnsupportedFeatureError):
        return None
    return value if value.is_valid else None


def _traces(column: Field, text: str | None) -> tuple[bytes, ...]:
    """Return strings that a commit with the value contains, in the forms of writers in JSON."""
    if not text:
        return (b"null", b'""')
    if not text.isascii() or '"' in text or "\\" in text or "/" in text:
        return (b"",)  # it has more than one spelling
    value, traces = _parse(column, text), {text}
    if value is not None:
        if not any(is_type(value.type) for is_type in _ONE_FORM):
            return (b"",)
        traces.add(value.cast(pa.string()).as_py())
    return tuple(json.dumps(it).encode() for it in sorted(traces))


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value that no partition has or had; ``nearest`` are the most similar ones that exist."""

    column: str
    value: str
    nearest: tuple[str, ...]


def _find_unknown(
    asked: BlameFilter, known: Iterable[pa.ChunkedArray | pa.Array]
) -> tuple[UnknownValue, ...]:
    """Return the requested values that are not among ``known``.

    ``known`` are batches of ``partition_values``, which may repeat.
    """
    texts: dict[str, set[str]] = {column.name: set() for column in asked.columns}
    for batch in known:
        for column in asked.columns:
            found = pc.unique(lookup_map(batch, column.physical_name)).drop_null()
            texts[column.name].update(found.to_pylist())
    unknown = []
    for column in asked.columns:
        order = _Order(column, texts[column.name] - {""})
        for value in asked.sought.get(column.name, ()):
            if not order.has(value):
                unknown.append(UnknownValue(column.name, value, order.nearest(value)))
    return tuple(unknown)


class _Order:
    """The value strings of a partition column, in the order of its type."""

    def __init__(self, column: Field, texts: set[str]) -> None:
        self._type = arrow_type(column.type)
        self._is_text = pa.types.is_string(self._type) or pa.types.is_binary(self._type)
        self._texts = sorted(texts)
        self._values = self._typed(self._texts)

    def _typed(self, texts: Sequence[str]) -> pa.Array | None:
        """Return values of the column's type; ``None`` if one cannot be parsed."""
        try:
            return parse_partition_column(pa.array(texts, pa.string()), self._type)
        except CorruptLogError:
            return None

    def has(self, text: str) -> bool:
        """Return whether a known string is the same value."""
        value = self._typed([text])
        if self._values is None or value is None:
            return text in self._texts
        return bool(pc.is_in(value, value_set=self._values)[0].as_py())

    def nearest(self, text: str) -> tuple[str, ...]:
        """Return up to three known strings: similar ones, or else adjacent ones in order."""
        similar = difflib.get_close_matches(text, self._texts, _MAX_NEAREST)
        value = None if self._is_text else self._typed([text])
        if value is None or self._values is None:
            return tuple(similar) or self._around(bisect_left(self._texts, text), self._texts)
        order = pc.sort_indices(self._values)
        place = pc.sum(pc.less(self._values, value[0])).as_py() or 0
        return self._around(place, [self._texts[i] for i in order.to_pylist()])

    @staticmethod
    def _around(place: int, texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(texts[max(0, place - 1) : place + 1])
