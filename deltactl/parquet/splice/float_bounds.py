"""Decide which copied columns must be decoded, because their footer does not show NaN. No I/O.

Bounds in footers exclude NaN, and most writers do not count NaN. Readers order NaN differently: if
a file has bounds of its other values, some readers skip it although a NaN matches the filter. So
the log gets no bounds of a column with NaN, and deltactl reads the rows to find out whether there
is a NaN.

The rows need not be read if ``add.stats`` of the input has bounds, because every reader already
skips the input by these bounds. The bounds of the output include the bounds of the input. So
readers do not skip the output where they did not skip the input.

Source: docs/adr/0022-copy-row-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from math import isnan
from struct import calcsize, unpack
from typing import Final

from deltactl.parquet.data_file import LoggedFloats
from deltactl.parquet.format import ColumnChunk, ColumnMetaData, Statistics
from deltactl.parquet.splice.copy_conditions import (
    PARQUET_MR,
    GroupChoice,
    OutputSchema,
    chunks_of,
    null_count,
)
from deltactl.parquet.splice.source import Group, Source
from deltactl.parquet.stored_columns import LeafPath
from deltactl.parquet.thrift import ThriftStruct
from deltactl.protocol.stats import FieldPath

_FLOATS: Final = {4: "<f", 5: "<d"}  # FLOAT and DOUBLE, as `struct` reads them


def find_sampled(
    source: Source,
    group: Group,
    choice: GroupChoice,
    target: OutputSchema,
    skipped_by: Set[LeafPath],
) -> list[str]:
    """Return the copied columns whose rows must be read for facts that no footer has.

    These facts are the nulls of lists and maps, and whether a float leaf has NaN. Leaves in
    ``skipped_by`` need no search for NaN.
    """
    sampled = []
    for name in choice.copied:
        kinds = {leaf.kind for leaf in target.by_column.get(name, ())}
        column = source.columns[name]
        chunks = zip(column.leaves, chunks_of(group, column), strict=True)
        if "nested" in kinds or (
            "float" in kinds
            and any(
                path not in skipped_by and _may_have_nan(source, chunk) for path, chunk in chunks
            )
        ):
            sampled.append(name)
    return sampled


def find_skipped_by(
    source: Source, choices: Iterable[GroupChoice], logged: LoggedFloats | None
) -> frozenset[LeafPath]:
    """Return the float leaves by whose bounds in the log readers already skip this file.

    For these leaves, the bounds in the footer include the bounds in the log, and are written for
    the output. In a column without NaN, encoding would write the same bounds. In a column with NaN,
    readers used these bounds before.

    Args:
        source: the file; it has no deletion vector.
        choices: the decision for each row group of the file that has rows; all of these are copied.
        logged: the statistics of the file in the log.
    """
    if logged is None or logged.num_records != source.metadata.num_rows:
        return frozenset()
    if not source.has_orders or source.has_total_order:
        # Readers of this file know that its bounds exclude NaN, but readers of the output do not
        # know this.
        return frozenset()
    copied = frozenset(source.columns).intersection(*(choice.copied for choice in choices))
    found = set()
    for path, bounds in logged.leaves.items():
        if path[0] in copied and _contains(source, path, bounds):
            found.add(_stored(path))
    return frozenset(found)


def _contains(source: Source, path: FieldPath, logged: tuple[float, float, int]) -> bool:
    """Return whether the footer's bounds of a leaf include those in the log.

    Otherwise, or if the null counts differ, return false.
    Both zeros are equal: the log gets -0.0 as a minimum and 0.0 as a maximum.
    """
    column = source.columns[path[0]]
    if _stored(path) not in column.leaves:
        return False
    number = column.first_leaf + column.leaves.index(_stored(path))
    lower, upper, nulls = [], [], 0
    for group in source.groups:
        chunk = group.chunks[number]
        metadata = chunk.struct(ColumnChunk.META_DATA)
        chunk_nulls = null_count(chunk)
        if chunk_nulls is None:
            return False
        nulls += chunk_nulls
        if chunk_nulls == metadata.integer(ColumnMetaData.NUM_VALUES):
            continue
        statistics = metadata.struct(ColumnMetaData.STATISTICS)
        if statistics.integer(Statistics.NAN_COUNT) is not None:
            return False  # the footer itself shows whether there is a NaN
        lower.append(_read_float(metadata, statistics.get(Statistics.MIN_VALUE)))
        upper.append(_read_float(metadata, statistics.get(Statistics.MAX_VALUE)))
    least, most = _known(lower), _known(upper)
    if not least or not most or nulls != logged[2]:
        return False
    return min(least) <= logged[0] and logged[1] <= max(most)


def _known(bounds: Sequence[float | None]) -> list[float]:
    """Return the bounds; an empty list if one of them is unknown or NaN."""
    known = [bound for bound in bounds if bound is not None and not isnan(bound)]
    return known if len(known) == len(bounds) else []


def _stored(path: FieldPath) -> LeafPath:
    return tuple(name.encode() for name in path)


def _read_float(metadata: ThriftStruct, bound: object) -> float | None:
    form = _FLOATS.get(metadata.integer(ColumnMetaData.TYPE) or 0)
    if form is None or not isinstance(bound, bytes) or len(bound) != calcsize(form):
        return None
    value: float = unpack(form, bound)[0]
    return value


def _may_have_nan(source: Source, chunk: ThriftStruct) -> bool:
    """Return whether a chunk has NaN, or its footer does not show whether it has one."""
    metadata = chunk.struct(ColumnChunk.META_DATA)
    if metadata.integer(ColumnMetaData.TYPE) not in _FLOATS:
        return False
    if null_count(chunk) == metadata.integer(ColumnMetaData.NUM_VALUES):
        return False
    statistics = metadata.struct(ColumnMetaData.STATISTICS)
    count = statistics.integer(Statistics.NAN_COUNT)
    if count is not None:
        return count != 0
    # parquet-mr orders NaN after all other values: if there is a NaN, it is the upper bound.
    # Writers with the order of IEEE 754 count NaN instead, and exclude it from bounds.
    if source.has_total_order or not PARQUET_MR.match(source.created_by):
        return True
    bound = statistics.get(Statistics.MAX_VALUE)
    if not isinstance(bound, bytes):
        return False  # no bounds, so no bounds that exclude a NaN
    value = _read_float(metadata, bound)
    return value is None or isnan(value)
