"""Whether the bounds of columns of fixed length are as long as their values.

Arrow ends the process where one is shorter, even when a dataset is scanned with a filter (seen with
pyarrow 26), and does not tell how long it is. So a footer whose lengths are not those that writers
choose by themselves is read here, as Arrow writes it: in Thrift's compact protocol.

Source: parquet.thrift of Apache Parquet; thrift-compact-protocol.md of Apache Thrift.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow.parquet as pq

_MAGIC: Final = 4
_TAIL: Final = 8
# Numbers of fields: FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data,
# ColumnMetaData.statistics, and max, min, max_value, min_value of Statistics.
_ROW_GROUPS, _COLUMNS, _META_DATA, _STATISTICS = 4, 1, 3, 12
_BOUNDS: Final = (1, 2, 5, 6)


def ensure_fixed_bounds(footers: Sequence[pq.FileMetaData]) -> None:
    """Refuse footers of one schema that have a bound shorter than its column's values.

    Raises:
        OSError: there is one.
    """
    lengths = _unusual_lengths(footers[0].schema)
    for footer in footers if lengths else ():
        for chunks in _read_statistics(footer):
            for index, length in lengths.items():
                found = min(len(chunks[index].get(field, b"")) or length for field in _BOUNDS)
                if found < length:
                    raise OSError(f"a bound of column {index} has {found} of {length} bytes")


def _unusual_lengths(schema: pq.ParquetSchema) -> Mapping[int, int]:
    """Lengths by column, but of decimals that are as short as they can be."""
    columns = ((index, schema.column(index)) for index in range(len(schema)))
    return {
        index: column.length
        for index, column in columns
        if column.physical_type == "FIXED_LEN_BYTE_ARRAY"
        and not (
            column.logical_type.type == "DECIMAL"
            and column.length == _least_bytes(column.precision)
        )
    }


def _least_bytes(precision: int) -> int:
    """Bytes that hold every decimal of so many digits, and its sign."""
    most: int = 10**precision
    return (most.bit_length() + 8) // 8


def _read_statistics(footer: pq.FileMetaData) -> Iterator[Sequence[Mapping[int, Any]]]:
    """The fields of each column's statistics, row group by row group."""
    sink = io.BytesIO()
    footer.write_metadata_file(sink)
    fields = _CompactReader(sink.getvalue()[_MAGIC:-_TAIL]).read_struct()
    for group in fields.get(_ROW_GROUPS, ()):
        yield [chunk.get(_META_DATA, {}).get(_STATISTICS, {}) for chunk in group[_COLUMNS]]


class _CompactReader:
    """Values of Thrift's compact protocol; structs become mappings by the numbers of fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read_struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._take(1)[0]) != 0:
            number = number + (head >> 4) if head >> 4 else self._read_signed()
            kind = head & 0x0F
            fields[number] = kind == 1 if kind in (1, 2) else self._read(kind)
        return fields

    def _read(self, kind: int) -> Any:
        match kind:
            case 1 | 2 | 3:  # a boolean of a list takes a byte
                return self._take(1)[0]
            case 4 | 5 | 6:
                return self._read_signed()
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._read_varint())
            case 9 | 10:
                return self._read_list()
            case 12:
                return self.read_struct()
        raise OSError(f"a footer has a field of the unknown kind {kind}")

    def _read_list(self) -> list[Any]:
        head = self._take(1)[0]
        count = head >> 4 if head >> 4 < 15 else self._read_varint()
        return [self._read(head & 0x0F) for _ in range(count)]

    def _read_signed(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _read_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += count
        return found
