"""Derive statistics of the log from Parquet footers.

Footers and statistics of the log differ. A footer has null counts of leaves: for lists and maps, it
counts null elements, not null lists. Its float bounds exclude NaN. The code that reads or writes
the rows provides the missing facts as :class:`RowFacts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError
from deltactl.parquet.nested import walk_leaves
from deltactl.protocol.stats import FileStats, LeafStats, Path, Value
from deltactl.protocol.stats_columns import StatsColumns

TIME_UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


# Earlier versions of Arrow do not count a null list of structs as a null.
COUNTS_NULL_LISTS: Final = int(pa.__version__.partition(".")[0]) >= 26


@dataclass(frozen=True, slots=True)
class RowFacts:
    """Facts that a footer lacks: which leaves have no NaN, and null counts of lists and maps."""

    nan_free: Set[Path] = frozenset()
    nested_null_counts: Mapping[Path, int] = field(default_factory=dict)


NO_FACTS = RowFacts()


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """A leaf of the file: its index among all leaves, and its Arrow type."""

    index: int
    type: pa.DataType


def read_file_stats(
    metadata: pq.FileMetaData, columns: StatsColumns, facts: RowFacts = NO_FACTS
) -> FileStats:
    """Return statistics of a whole file for the leaves in ``columns``.

    If a row group has no bound for a leaf, the bound of the file is unknown. Leaves that the file
    does not have are omitted.
    """
    found = index_leaves(metadata.schema.to_arrow_schema())
    leaves = {}
    for leaf in columns.leaves:
        if leaf.kind == "nested":
            leaves[leaf.path] = LeafStats(facts.nested_null_counts.get(leaf.path))
            continue
        if leaf.kind == "void":
            # No file stores void columns: they are null in every row.
            leaves[leaf.path] = LeafStats(metadata.num_rows)
            continue
        # Every variant has metadata. So a variant is null if and only if its metadata are null.
        column = found.get((*leaf.path, "metadata") if leaf.kind == "variant" else leaf.path)
        if column is None:
            continue
        with_bounds = leaf.has_bounds and (leaf.kind != "float" or leaf.path in facts.nan_free)
        leaves[leaf.path] = _merge_row_groups(metadata, column, with_bounds)
    return FileStats(metadata.num_rows, leaves)


def index_leaves(schema: pa.Schema) -> dict[Path, LeafColumn]:
    """Return leaves outside lists and maps by path; dotted paths in footers are ambiguous."""
    leaves = (leaf for member in schema for leaf in walk_leaves(member.type, (member.name,)))
    return {
        leaf.path: LeafColumn(index, leaf.type)
        for index, leaf in enumerate(leaves)
        if not leaf.repeated
    }


def _merge_row_groups(
    metadata: pq.FileMetaData, column: LeafColumn, with_bounds: bool
) -> LeafStats:
    null_count: int | None = 0
    lower: list[Value | None] = []
    upper: list[Value | None] = []
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column.index)
        stats = chunk.statistics
        nulls = count_chunk_nulls(chunk)
        null_count = None if nulls is None or null_count is None else null_count + nulls
        if not with_bounds or nulls == chunk.num_values:
            continue
        has_bounds = stats is not None and stats.has_min_max
        lower.append(_decode(stats.min_raw, column.type) if has_bounds else None)
        upper.append(_decode(stats.max_raw, column.type, upper=True) if has_bounds else None)
    return LeafStats(null_count, _bound(lower, min), _bound(upper, max))


def _bound(values: list[Value | None], choose: Callable[[list[Any]], Any]) -> Value | None:
    if not values or any(value is None or value != value for value in values):  # noqa: PLR0124
        return None  # unknown for a row group, or NaN
    bound: Value = choose(values)
    return bound


def _decode(raw: Any, type_: pa.DataType, *, upper: bool = False) -> Value | None:
    """Return a physical value of the footer in the form of :class:`LeafStats`."""
    if pa.types.is_decimal(type_):
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        # Create the decimal from a string: arithmetic would round to the digits of the decimal
        # context.
        return Decimal(f"{unscaled}e{-type_.scale}")
    if pa.types.is_timestamp(type_) and isinstance(raw, int):
        times, over = TIME_UNITS[type_.unit]
        return -(-raw * times // over) if upper else raw * times // over
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        with suppress(UnicodeDecodeError):
            return bytes(raw).decode()
    if isinstance(raw, (int, float)):
        return raw
    return None  # for example INT96, whose bounds have no defined order


def read_null_counts(metadata: pq.FileMetaData) -> dict[str, int]:
    """Return the null count of each top-level column, counted as :func:`count_nulls` counts rows.

    If Arrow is too old to count the nulls of columns with lists or maps, these columns are omitted.

    Raises:
        DataFileError: the footer has no null count.
    """
    counts: dict[str, int] = {}
    index = 0
    for member in metadata.schema.to_arrow_schema():
        first, index = index, index + sum(1 for _ in walk_leaves(member.type))
        repeated = any(metadata.schema.column(i).max_repetition_level for i in range(first, index))
        if COUNTS_NULL_LISTS or not repeated:
            counts[member.name] = sum(
                _null_slots(metadata, i, member.name) for i in range(first, index)
            )
    return counts


def _null_slots(metadata: pq.FileMetaData, index: int, name: str) -> int:
    total = 0
    for group in range(metadata.num_row_groups):
        nulls = count_chunk_nulls(metadata.row_group(group).column(index))
        if nulls is None:
            raise DataFileError(f"the Parquet footer has no null count of column {name!r}")
        total += nulls
    return total


def count_chunk_nulls(chunk: pq.ColumnChunkMetaData) -> int | None:
    """Return the null count of a column chunk; ``None`` if the footer has none."""
    if chunk.num_values == 0:
        return 0  # an empty row group: Arrow writes no statistics for it
    stats = chunk.statistics
    return int(stats.null_count) if stats is not None and stats.has_null_count else None


def count_nulls(array: pa.Array | pa.ChunkedArray) -> int:
    """Return the nulls of a column: null rows, or for nested types the nulls that Parquet counts.

    For a nested type, this is the number of places without a value, summed over all leaves. A place
    has no value if the leaf is null, if a struct above it is null, or if a list or map above it is
    null or empty.
    """
    type_ = array.type
    if isinstance(array, pa.ChunkedArray) and (type_.num_fields or _is_extension(type_)):
        return sum(map(count_nulls, array.chunks))
    if isinstance(array, pa.ExtensionArray):
        return count_nulls(array.storage)
    if pa.types.is_struct(type_):
        return sum(count_nulls(member) for member in array.flatten())
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_map(type_):
        return _count_nulls_of_lists(array)
    return int(array.null_count)


def _is_extension(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.BaseExtensionType)


def _count_nulls_of_lists(array: pa.Array) -> int:
    # Drop null rows: they may have values below them, which must not be counted.
    present = array.drop_null() if array.null_count else array
    offsets = present.offsets.to_numpy(zero_copy_only=False)
    empty = int(np.count_nonzero(offsets[1:] == offsets[:-1])) + int(array.null_count)
    values = present.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    num_leaves = sum(1 for _ in walk_leaves(values.type))
    return empty * num_leaves + count_nulls(values)
