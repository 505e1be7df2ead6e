"""Group files by typed partition values: texts of one value are mostly one partition.

Manifests are grouped by normal texts instead, as their directory names contain those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, SafetyError
from deltactl.log.commits.contents import CommitBytes, find_actions
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Integers
from deltactl.protocol.arrow_schemas import array_of, partition_type
from deltactl.protocol.partition_texts import zone_mask
from deltactl.protocol.partitions import (
    find_foreign_key,
    lookup_map,
    normalize_partition_column,
    parse_partition_column,
)
from deltactl.protocol.paths import partition_directory
from deltactl.protocol.schema import Field


@dataclass(frozen=True, slots=True)
class PartitionGroups:
    """``ids[row]`` is the partition of a file; ``first_rows[id]`` a file of that partition.

    ``values`` are the normal texts of each partition, by column.
    """

    ids: Integers
    first_rows: Integers
    values: tuple[tuple[str, pa.ChunkedArray], ...]

    @property
    def num_groups(self) -> int:
        """Return the number of partitions."""
        return len(self.first_rows)

    def label(self, group: int) -> str:
        """Return the Hive directory name, such as ``a=1/b=x``; empty for unpartitioned tables."""
        return partition_directory([(name, texts[group].as_py()) for name, texts in self.values])

    def labels(self) -> list[str]:
        """Return the label of each partition, in order."""
        columns = [texts.to_pylist() for _, texts in self.values]
        names = [name for name, _ in self.values]
        if not columns:
            return [""] * self.num_groups
        return [
            partition_directory(list(zip(names, row, strict=True)))
            for row in zip(*columns, strict=True)
        ]

    def newest(self, times: Integers) -> Integers:
        """Return the latest time of each partition."""
        result = np.full(self.num_groups, np.iinfo(np.int64).min)
        np.maximum.at(result, self.ids, times)
        return result


def group_partitions(
    values: pa.ChunkedArray, fields: Sequence[Field], *, by_text: bool = False
) -> PartitionGroups:
    """Group files by their typed partition values.

    ``values`` are ``partition_values`` of each file. With ``by_text``, values are compared by
    :func:`normalize_partition_column`. It makes the labels in any case, so that all groupings of
    the files of a table have the same.

    Raises:
        CorruptLogError: a value does not parse as its column's type.
        SafetyError: a file has a value of another column, so that its own value may be lost.
    """
    keys = {field.physical_name for field in fields}
    if (foreign := find_foreign_key(values, keys)) is not None:
        raise SafetyError(
            f"partitionValues of a file has the key {foreign!r}, which is not a partition column",
            hint="Run `deltactl check TABLE` to see the commits. Let their writer correct the "
            "table.",
        )
    ids, first_rows = _number_groups(np.zeros(len(values), dtype=np.int64))
    columns = [(field, lookup_map(values, field.physical_name)) for field in fields]
    for field, texts in columns:
        typed = _normalize(texts, field) if by_text else _comparable(texts, field)
        dictionary = typed.combine_chunks().dictionary_encode(null_encoding="encode")
        column = np.asarray(dictionary.indices)
        # Compact after each column so that the product of cardinalities never overflows.
        ids, first_rows = _number_groups(ids * len(dictionary.dictionary) + column)
    rows = array_of(first_rows)
    labelled = [(field.name, _normalize(texts.take(rows), field)) for field, texts in columns]
    return PartitionGroups(ids, first_rows, tuple(labelled))


def _normalize(texts: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    return normalize_partition_column(texts, partition_type(field), column=field.name)


def _number_groups(codes: Integers) -> tuple[Integers, Integers]:
    """Renumber codes without gaps, in order; return them and the first row of each."""
    _, first_rows, ids = np.unique(codes, return_index=True, return_inverse=True)
    return ids, first_rows


def _comparable(texts: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    kind = partition_type(field)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        # Readers disagree on "" and on escapes in binary values. A file has one value string: if
        # files of different strings were merged, rows would change for some reader.
        return texts
    typed = parse_partition_column(texts, kind, column=field.name)
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return typed
    # Without a zone in the string Spark uses that of its session, other readers UTC: the same value
    # with and without is one time for some and two for others.
    zoned = zone_mask(texts).cast(pa.int64())
    return pc.add(pc.multiply(typed.cast(pa.int64()), 2), zoned)


def find_touched(log: DeltaLog, snapshot: Snapshot, since: int) -> set[str] | None:
    """Return directories of partitions that commits after ``since`` changed; ``None``: unknown."""
    first, last = since + 1, snapshot.version
    if since > last:
        log.warn(f"there is no version {since} yet: all partitions are considered")
        return None
    if not log.has_commits(first, last):
        log.warn(
            f"commits after version {since} were deleted from the log: all partitions are "
            f"considered"
        )
        return None
    fields = snapshot.metadata.partition_fields
    touched = _TouchedPartitions(fields)
    keys = [field.physical_name for field in fields]
    log.scan(range(first, last + 1), touched, partition_keys=keys)
    return touched.labels if touched.is_known else None


class _TouchedPartitions(Visitor):
    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__()
        self.labels: set[str] = set()
        self.is_known = True
        self._fields = fields

    def see(self, commit: CommitBytes) -> bool:
        """Find a metaData action: perhaps with other partitions."""
        if next(find_actions(commit.name, commit.data, "metaData"), None) is not None:
            self.is_known = False
        return self.is_known

    def visit(self, commits: ParsedCommits) -> None:
        """Take the partitions of all file actions."""
        bare = commits.removes["partition_values"].is_null()
        if self._fields and pc.any(bare).as_py():
            self.is_known = False
        for actions in (commits.adds, commits.removes) if self.is_known else ():
            try:
                groups = group_partitions(actions["partition_values"], self._fields, by_text=True)
            except CorruptLogError:
                # An action that is not in force any more may have an invalid value.
                self.is_known = False
            else:
                self.labels |= set(groups.labels())
