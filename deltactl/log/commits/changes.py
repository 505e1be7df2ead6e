"""Count what commits added and removed, from their own actions, as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.parser import CommitParser
from deltactl.log.commits.partition_keys import list_key_sets
from deltactl.numpy_types import Integers
from deltactl.protocol.arrow_schemas import STRING_MAP
from deltactl.protocol.stats import num_records

_CHUNK_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Number, bytes and live rows of files; ``None`` if unknown."""

    num_files: int = 0
    size_bytes: int | None = 0
    num_rows: int | None = 0
    num_deletion_vectors: int = 0


@dataclass(frozen=True, slots=True)
class CommitChange:
    """What one commit added and removed. ``data_change`` is false if no action changes data."""

    added: FileCounts = FileCounts()
    removed: FileCounts = FileCounts()
    data_change: bool = False


_NOTHING = (FileCounts(), False)


def live_rows(files: pa.Table) -> pa.ChunkedArray:
    """Return the live rows of each file action (without deleted rows); null if unknown."""
    deleted = pc.struct_field(files["deletion_vector"], "cardinality")
    return pc.subtract(num_records(files["stats"]), pc.fill_null(deleted, 0))


@dataclass(frozen=True, slots=True)
class ParsedCommits:
    """File actions of some commits. The column ``commit`` is the index of the row's commit."""

    commits: Sequence[CommitBytes]
    adds: pa.Table
    removes: pa.Table


def parse_commits(commits: Iterable[CommitBytes]) -> Iterator[ParsedCommits | CorruptLogError]:
    """Parse many commits at once, in order. For a commit that cannot be parsed, yield the error."""
    chunk: list[CommitBytes] = []
    size = 0
    for commit in commits:
        chunk.append(commit)
        size += len(commit.data)
        if size >= _CHUNK_BYTES:
            yield from _parse_chunk(chunk)
            chunk, size = [], 0
    if chunk:
        yield from _parse_chunk(chunk)


def _parse_chunk(commits: Sequence[CommitBytes]) -> Iterator[ParsedCommits | CorruptLogError]:
    try:
        parsed = list(CommitParser().parse(commits))
    except CorruptLogError as error:
        if len(commits) == 1:
            yield error
            return
        half = len(commits) // 2
        yield from _parse_chunk(commits[:half])
        yield from _parse_chunk(commits[half:])
        return
    ends = np.concatenate([part.ends for part in parsed])
    adds, removes = (
        _name_commits(t, ends) for t in ([p.adds for p in parsed], [p.removes for p in parsed])
    )
    yield ParsedCommits(commits, adds, removes)


def _name_commits(tables: Sequence[pa.Table], ends: Integers) -> pa.Table:
    """Return file actions with the index of their commit.

    ``ends`` has, for each commit, the number of rows up to and including the commit.
    """
    files = pa.concat_tables(tables)
    commits = np.searchsorted(ends, files["seq"].to_numpy(), side="right")
    return files.append_column("commit", pa.array(commits))


def count_changes(commits: Iterable[CommitBytes]) -> Iterator[CommitChange | CorruptLogError]:
    """Yield what each commit changed, in order; for a commit that cannot be parsed, the error."""
    for parsed in parse_commits(commits):
        if isinstance(parsed, CorruptLogError):
            yield parsed
            continue
        added, removed = _count_by_commit(parsed.adds), _count_by_commit(parsed.removes)
        for index in range(len(parsed.commits)):
            adds, adds_change = added.get(index, _NOTHING)
            removes, removes_change = removed.get(index, _NOTHING)
            yield CommitChange(adds, removes, adds_change or removes_change)


def _count_by_commit(files: pa.Table) -> dict[int, tuple[FileCounts, bool]]:
    """Return the counts of each commit, and whether the commit changed data."""
    groups = _count_groups(files, [files["commit"]])
    return {index: (counts, change) for (index,), counts, change in groups}


def _count_groups(
    files: pa.Table, keys: Sequence[pa.Array | pa.ChunkedArray]
) -> Iterator[tuple[tuple[Any, ...], FileCounts, bool]]:
    """Sum file actions by keys. Yield the keys, the counts and ``data_change`` of each group."""
    names = [f"key{index}" for index in range(len(keys))]
    facts = pa.table(
        {
            **dict(zip(names, keys, strict=True)),
            # Sizes are added as floats, because the sum of very large sizes must not overflow.
            "size": files["size_bytes"].cast(pa.float64(), safe=False),
            "rows": live_rows(files).cast(pa.float64(), safe=False),
            "vector": files["deletion_vector"].is_valid().cast(pa.int64()),
            "change": pc.fill_null(files["data_change"], True),
        }
    )
    every = pc.ScalarAggregateOptions(skip_nulls=False)  # one unknown value makes the sum unknown
    sums = facts.group_by(names).aggregate(
        [
            ("vector", "count"),
            ("size", "sum", every),
            ("rows", "sum", every),
            ("vector", "sum"),
            ("change", "any"),
        ]
    )
    for row in sums.to_pylist():
        counts = FileCounts(
            row["vector_count"], _whole(row["size_sum"]), _whole(row["rows_sum"]), row["vector_sum"]
        )
        yield tuple(row[name] for name in names), counts, row["change_any"]


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """What one commit added to and removed from one partition, by physical column names."""

    partition_values: Mapping[str, str | None]
    added: FileCounts = FileCounts()
    removed: FileCounts = FileCounts()


def count_partitions(commit: CommitBytes) -> list[PartitionChange]:
    """Return what a commit changed in each partition, sorted by partition value.

    If the table has no partition columns, the list has one entry.

    Raises:
        CorruptLogError: the commit cannot be parsed.
    """
    keys = sorted(_partition_keys(commit.data))
    parsed = list(CommitParser(keys).parse([commit]))
    return _count_each_partition([p.adds for p in parsed], [p.removes for p in parsed], keys)


RowFilter = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""Selects file actions: takes their ``partition_values``, and returns booleans without nulls."""


def count_selected(
    commit: CommitBytes, keys: Collection[str], is_selected: RowFilter
) -> CommitChange | None:
    """Return what a commit changed in selected partitions; ``None`` if it changed nothing in them.

    Args:
        commit: the commit.
        keys: physical names of the partition columns that ``is_selected`` reads.
        is_selected: selects the file actions.

    Raises:
        CorruptLogError: the commit cannot be parsed.
    """
    adds, removes = _read_files(commit, keys)
    added = adds.filter(is_selected(adds["partition_values"]))
    removed = removes.filter(is_selected(removes["partition_values"]))
    if not (added.num_rows or removed.num_rows):
        return None
    return _count_total(added, removed)


def partition_values_of(commit: CommitBytes, keys: Collection[str]) -> pa.ChunkedArray:
    """Return the ``partition_values`` of all file actions of a commit.

    Raises:
        CorruptLogError: the commit cannot be parsed.
    """
    adds, removes = _read_files(commit, keys)
    chunks = [*adds["partition_values"].chunks, *removes["partition_values"].chunks]
    return pa.chunked_array(chunks, STRING_MAP)


def _read_files(commit: CommitBytes, keys: Collection[str]) -> tuple[pa.Table, pa.Table]:
    parser = CommitParser(sorted({*_partition_keys(commit.data), *keys}))
    parsed = list(parser.parse([commit]))
    return pa.concat_tables(p.adds for p in parsed), pa.concat_tables(p.removes for p in parsed)


def _count_total(added: pa.Table, removed: pa.Table) -> CommitChange:
    sides = []
    for files in (added, removed):
        everything = [pa.array(np.zeros(files.num_rows, np.int8))]
        sides.append(next(((c, d) for _, c, d in _count_groups(files, everything)), _NOTHING))
    return CommitChange(sides[0][0], sides[1][0], sides[0][1] or sides[1][1])


def count_added_removed(
    added: pa.Table, removed: pa.Table, keys: Sequence[str]
) -> tuple[CommitChange, list[PartitionChange]]:
    """Return counts of the added and removed files, in total and by partition.

    ``keys`` are the physical names of the partition columns.
    """
    return _count_total(added, removed), _count_each_partition([added], [removed], keys)


def _count_each_partition(
    adds: Sequence[pa.Table], removes: Sequence[pa.Table], keys: Sequence[str]
) -> list[PartitionChange]:
    added = _count_by_partition(adds, keys)
    removed = _count_by_partition(removes, keys)
    order = sorted(
        added.keys() | removed.keys(),
        key=lambda values: [(it is not None, it or "") for it in values],
    )
    return [
        PartitionChange(
            dict(zip(keys, values, strict=True)),
            added.get(values, FileCounts()),
            removed.get(values, FileCounts()),
        )
        for values in order
    ]


def _count_by_partition(
    tables: Sequence[pa.Table], keys: Sequence[str]
) -> dict[tuple[str | None, ...], FileCounts]:
    files = pa.concat_tables(tables)
    # The constant is for tables without partitions, because Arrow groups by at least one column.
    columns = [pa.array(np.zeros(files.num_rows, np.int8))]
    columns += [pc.map_lookup(files["partition_values"], key, "first") for key in keys]
    return {tuple(values): counts for (_, *values), counts, _ in _count_groups(files, columns)}


def _partition_keys(data: bytes) -> frozenset[str]:
    """Return all keys of ``partitionValues`` in a commit, because the parser needs them."""
    return frozenset().union(*list_key_sets(data))
