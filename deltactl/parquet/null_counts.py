"""Count nulls in footers, and in rows as Parquet counts them, to compare the two."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError
from deltactl.parquet.format import ColumnChunk, ColumnMetaData, FileMetaData, RowGroup, Statistics
from deltactl.parquet.nested import walk_leaves
from deltactl.parquet.thrift import CompactReader, Kind

# Earlier versions of Arrow do not count a null list of structs as a null.
COUNTS_NULL_LISTS: Final = int(pa.__version__.partition(".")[0]) >= 26


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


def read_stored_nulls(data: bytes) -> list[list[int | None]]:
    """Return the null count of each leaf in each row group; ``None`` if the footer has none.

    Arrow decodes the bounds of a chunk together with its null count, and ends the process if a
    bound is not as long as a value.

    Args:
        data: the footer, without length and magic.

    Raises:
        ThriftError: the footer is not valid.
    """
    groups: list[list[int | None]] = []
    reader = CompactReader(data)
    for _ in reader.enter_list(FileMetaData.ROW_GROUPS):
        groups.append([])
        for _ in reader.enter_list(RowGroup.COLUMNS):
            nulls = None
            for _ in reader.enter_struct(ColumnChunk.META_DATA):
                for _ in reader.enter_struct(ColumnMetaData.STATISTICS):
                    for number, kind in reader.fields():
                        if (number, kind) == (Statistics.NULL_COUNT, Kind.I64):
                            nulls = reader.read(kind)
                        else:
                            reader.skip(kind)
            groups[-1].append(nulls)
    return groups


def count_nulls(array: pa.Array | pa.ChunkedArray) -> int:
    """Return the nulls of a column: null rows, or for nested types the nulls that Parquet counts.

    For a nested type, this is the number of places without a value, summed over all leaves. A place
    has no value if the leaf is null, if a struct above it is null, or if a list or map above it is
    null or empty.
    """
    type_ = array.type
    is_extension = isinstance(type_, pa.BaseExtensionType)
    if isinstance(array, pa.ChunkedArray) and (type_.num_fields or is_extension):
        return sum(map(count_nulls, array.chunks))
    if isinstance(array, pa.ExtensionArray):
        return count_nulls(array.storage)
    if pa.types.is_struct(type_):
        return sum(count_nulls(member) for member in array.flatten())
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_map(type_):
        return _count_nulls_of_lists(array)
    return int(array.null_count)


def _count_nulls_of_lists(array: pa.Array) -> int:
    # Drop null rows: they may have values below them, which must not be counted.
    present = array.drop_null() if array.null_count else array
    offsets = present.offsets.to_numpy(zero_copy_only=False)
    empty = int(np.count_nonzero(offsets[1:] == offsets[:-1])) + int(array.null_count)
    values = present.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    num_leaves = sum(1 for _ in walk_leaves(values.type))
    return empty * num_leaves + count_nulls(values)
