"""Check that the bounds of fixed-length columns are as long as their values.

If a bound is shorter, pyarrow 26 ends the process when it reads statistics, even in a scan of a
dataset with a filter. Arrow does not show the length of a bound, so this module parses the footer.
This takes a hundred times as long as Arrow's parser. So the module checks only columns with an
unusual length.

Source: parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

import pyarrow.parquet as pq

from deltactl.parquet.format import ColumnChunk, ColumnMetaData, FileMetaData, RowGroup, Statistics
from deltactl.parquet.thrift import CompactReader, Kind

_BOUNDS: Final = frozenset(
    {Statistics.MAX, Statistics.MIN, Statistics.MAX_VALUE, Statistics.MIN_VALUE}
)


def find_unusual_lengths(schema: pq.ParquetSchema) -> Mapping[int, int]:
    """Return the length of each fixed-length column that is no decimal of the usual length."""
    columns = ((index, schema.column(index)) for index in range(len(schema)))
    return {
        index: column.length
        for index, column in columns
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY"
        and not (
            column.logical_type.type == "DECIMAL"
            and column.length == _min_decimal_bytes(column.precision)
        )
    }


def ensure_fixed_bounds(data: bytes, lengths: Mapping[int, int]) -> None:
    """Raise an error for a footer that has a bound which is shorter than its column's values.

    Args:
        data: the bytes of the footer, without length and magic.
        lengths: the lengths of the values of the columns to check.

    Raises:
        OSError: a bound is too short.
        ThriftError: the footer is not valid Thrift data.
    """
    for index, found in _find_bounds(data, lengths) if lengths else ():
        if found < lengths[index]:
            raise OSError(
                f"Arrow cannot read a bound of column {index}: the bound has {found} bytes "
                f"instead of {lengths[index]}"
            )


def _min_decimal_bytes(precision: int) -> int:
    """Return how many bytes every decimal of ``precision`` digits needs, with its sign."""
    limit: int = 10**precision
    # A bit for the sign, and seven to round up to whole bytes.
    return (limit.bit_length() + 8) // 8


def _find_bounds(data: bytes, columns: Container[int]) -> Iterator[tuple[int, int]]:
    """Yield column and length of each bound of these columns, row group by row group."""
    reader = CompactReader(data)
    for _ in reader.enter_list(FileMetaData.ROW_GROUPS):
        for index in reader.enter_list(RowGroup.COLUMNS):
            if index not in columns:
                reader.skip(Kind.STRUCT)
                continue
            for _ in reader.enter_struct(ColumnChunk.META_DATA):
                for _ in reader.enter_struct(ColumnMetaData.STATISTICS):
                    for number, kind in reader.fields():
                        if number in _BOUNDS and kind == Kind.BINARY:
                            yield index, reader.skip_binary()
                        else:
                            reader.skip(kind)
