"""Decide which copied columns must be decoded, because their footer does not show NaN. No I/O.

Bounds in footers exclude NaN, and most writers do not count NaN. Readers order NaN differently: if
a file has bounds of its other values, some readers skip it although a NaN matches the filter. So
the log gets no bounds of a column with NaN, and deltactl reads the rows to find out whether there
is a NaN.

Source: docs/adr/0022-copy-row-groups.md.
"""

from __future__ import annotations

from math import isnan
from struct import calcsize, unpack
from typing import Final

from deltactl.parquet.format import ColumnChunk, ColumnMetaData, Statistics
from deltactl.parquet.splice.copy_conditions import (
    PARQUET_MR,
    GroupChoice,
    OutputSchema,
    chunks_of,
    null_count,
)
from deltactl.parquet.splice.source import Group, Source
from deltactl.parquet.thrift import ThriftStruct

_FLOATS: Final = {4: "<f", 5: "<d"}  # FLOAT and DOUBLE, as `struct` reads them


def find_sampled(
    source: Source, group: Group, choice: GroupChoice, target: OutputSchema
) -> list[str]:
    """Return the copied columns whose rows must be read for facts that no footer has.

    These facts are the nulls of lists and maps, and whether a float leaf has NaN.
    """
    sampled = []
    for name in choice.copied:
        kinds = {leaf.kind for leaf in target.by_column.get(name, ())}
        chunks = chunks_of(group, source.columns[name])
        if "nested" in kinds or (
            "float" in kinds and any(_may_have_nan(source, chunk) for chunk in chunks)
        ):
            sampled.append(name)
    return sampled


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
