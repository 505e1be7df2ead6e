"""Count what commits added and removed, from their own actions, as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.json_lines import list_key_sets
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.scan import parse_commits
from deltactl.log.commits.visitors import Visitor, Visits
from deltactl.protocol.arrow_schemas import replace_column
from deltactl.protocol.stats import num_records


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

    def to_dict(self) -> dict[str, int | None]:
        """Return the JSON form."""
        return _flatten(self.added, self.removed)


def _flatten(added: FileCounts, removed: FileCounts) -> dict[str, int | None]:
    sides = (("added", added), ("removed", removed))
    return {f"{side}_{fact}": count for side, of in sides for fact, count in asdict(of).items()}


_NOTHING = (FileCounts(), False)


def live_rows(files: pa.Table) -> pa.ChunkedArray:
    """Return the live rows of each file action (without deleted rows); null if unknown."""
    deleted = pc.struct_field(files["deletion_vector"], "cardinality")
    return pc.subtract(num_records(files["stats"]), pc.fill_null(deleted, 0))


def sum_rows(files: pa.Table) -> int | None:
    """Return the live rows of all files; ``None`` if they are not known for one."""
    rows = live_rows(files)
    return None if rows.null_count else pc.sum(rows).as_py() or 0


def count_changes(
    added: pa.Table, removed: pa.Table, versions: Iterable[int]
) -> dict[int, CommitChange]:
    """Return what each commit changed, by version."""
    sides = _count_by_commit(added), _count_by_commit(removed)
    changes = {}
    for version in versions:
        (adds, adds_change), (removes, removes_change) = (s.get(version, _NOTHING) for s in sides)
        changes[version] = CommitChange(adds, removes, adds_change or removes_change)
    return changes


def _count_by_commit(files: pa.Table) -> dict[int, tuple[FileCounts, bool]]:
    """Return the counts of each commit, and whether the commit changed data."""
    groups = _count_groups(files, [files["version"]])
    return {version: (counts, change) for (version,), counts, change in groups}


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
            # The number of files, because the column has no nulls.
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
    """What was added to and removed from one partition."""

    partition_values: Mapping[str, str | None]
    added: FileCounts = FileCounts()
    removed: FileCounts = FileCounts()

    def rename(self, names: Mapping[str, str]) -> PartitionChange:
        """Return it with other names, in their order; other columns keep their names."""
        values = self.partition_values
        known = {name: values[key] for key, name in names.items() if key in values}
        others = {key: value for key, value in values.items() if key not in names}
        return replace(self, partition_values=known | others)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"partition_values": self.partition_values, **_flatten(self.added, self.removed)}


def read_changes(commit: CommitBytes, *visitors: Visitor) -> tuple[list[PartitionChange], pa.Table]:
    """Return what a commit changed in each partition, sorted by partition value, and its files.

    If the table has no partition columns, the list has one entry. The table has a row for each
    add and remove action: ``action``, ``path``, ``size_bytes``, ``num_rows`` (live rows; null if
    unknown) and ``deletion_vector`` (whether it has one). The ``visitors`` get the commit too.

    Raises:
        CorruptLogError: the commit cannot be parsed.
    """
    # The parser needs all keys.
    keys = sorted(frozenset().union(*list_key_sets(commit.data)))
    visits = Visits(visitors)
    visits.ask(commit)
    parsed = list(parse_commits([commit], keys))
    for commits in parsed:
        visits.give(commits)
    added = pa.concat_tables([p.adds for p in parsed])
    removed = _with_rows(pa.concat_tables([p.removes for p in parsed]), added)
    actions = pa.concat_tables([_list_actions("add", added), _list_actions("remove", removed)])
    names = {key: key for key in keys}
    return _count_each_partition((added, names), (removed, names)), actions


def _list_actions(action: str, files: pa.Table) -> pa.Table:
    return pa.table(
        {
            "action": pa.repeat(action, files.num_rows),
            "path": files["path"],
            "size_bytes": files["size_bytes"],
            "num_rows": live_rows(files),
            "deletion_vector": files["deletion_vector"].is_valid(),
        }
    )


RowFilter = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""Selects file actions: takes their ``partition_values``, and returns booleans without nulls."""


class SelectedChanges(Visitor):
    """What commits changed in selected partitions, by version; only those that did.

    Some writers omit the statistics of removed files. Then the rows are those of their adds, if
    these are in the same commits or in commits that are given later.
    """

    def __init__(self, is_selected: RowFilter) -> None:
        """Begin without commits."""
        super().__init__()
        self._is_selected = is_selected
        self._open: pa.Table | None = None  # the removed files of commits with unknown rows
        self.found: dict[int, CommitChange] = {}

    def visit(self, commits: ParsedCommits) -> None:
        """Count the changes of further commits."""
        added = commits.adds.filter(self._is_selected(commits.adds["partition_values"]))
        removed = commits.removes.filter(self._is_selected(commits.removes["partition_values"]))
        versions = {*added["version"].to_pylist(), *removed["version"].to_pylist()}
        self.found |= count_changes(added, removed, versions)
        removed = removed if self._open is None else pa.concat_tables([self._open, removed])
        removed = _with_rows(removed, added)
        unknown: list[int] = []
        for version, (counts, _) in _count_by_commit(removed).items():
            self.found[version] = replace(self.found[version], removed=counts)
            unknown += [version] if counts.num_rows is None else []
        self._open = removed.filter(pc.is_in(removed["version"], pa.array(unknown, pa.int64())))


def _with_rows(removed: pa.Table, added: pa.Table) -> pa.Table:
    """Give removed files without a number of rows that of an add of the same data file."""
    known = num_records(removed["stats"])
    if not known.null_count or not added.num_rows:
        return removed
    # Any add of the file will do: numRecords includes deleted rows, so it is the same in all.
    places = pc.index_in(removed["path"], value_set=added["path"].combine_chunks())
    texts = num_records(added["stats"]).take(places).cast(pa.string())
    # Null where the add has no number either, so that the number stays unknown.
    found = pc.binary_join_element_wise('{"numRecords":', texts, "}", "")
    stats = pc.if_else(pc.is_null(known), found, removed["stats"])
    return replace_column(removed, "stats", stats)


def _count_total(added: pa.Table, removed: pa.Table) -> CommitChange:
    sides = []
    for files in (added, removed):
        everything = [pa.array(np.zeros(files.num_rows, np.int8))]
        sides.append(next(((c, d) for _, c, d in _count_groups(files, everything)), _NOTHING))
    return CommitChange(sides[0][0], sides[1][0], sides[0][1] or sides[1][1])


NamedFiles = tuple[pa.Table, Mapping[str, str]]
"""Files, and the names of their partition columns by physical name."""


def count_added_removed(
    added: NamedFiles, removed: NamedFiles
) -> tuple[CommitChange, list[PartitionChange]]:
    """Return counts of the added and removed files, in total and by partition."""
    return _count_total(added[0], removed[0]), _count_each_partition(added, removed)


def _count_each_partition(adds: NamedFiles, removes: NamedFiles) -> list[PartitionChange]:
    added, removed = _count_by_partition(*adds), _count_by_partition(*removes)
    order = sorted(
        added.keys() | removed.keys(),
        key=lambda values: [(it is not None, it or "") for _, it in values],
    )
    return [
        PartitionChange(
            dict(values), added.get(values, FileCounts()), removed.get(values, FileCounts())
        )
        for values in order
    ]


def _count_by_partition(
    files: pa.Table, names: Mapping[str, str]
) -> dict[tuple[tuple[str, str | None], ...], FileCounts]:
    keys = sorted(names, key=names.__getitem__)
    shown = [names[key] for key in keys]
    # The constant is for tables without partitions, because Arrow groups by at least one column.
    columns = [pa.array(np.zeros(files.num_rows, np.int8))]
    columns += [pc.map_lookup(files["partition_values"], key, "first") for key in keys]
    return {
        tuple(zip(shown, values, strict=True)): counts
        for (_, *values), counts, _ in _count_groups(files, columns)
    }
