"""Whether the bounds of columns of fixed length are as long as their values.

Arrow ends the process where one is shorter and somebody asks for the statistics, even to scan a
dataset with a filter, and cannot read the rows (seen with pyarrow 26). It does not tell how long a
bound is, so the footer is looked through here, in Thrift's compact protocol. That takes a hundred
times as long as to parse it: only columns whose length is not what their type needs are looked at.

Source: parquet.thrift of Apache Parquet; thrift-compact-protocol.md of Apache Thrift.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

import pyarrow.parquet as pq

# Numbers of fields: FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data,
# ColumnMetaData.statistics, and max, min, max_value, min_value of Statistics.
_ROW_GROUPS, _COLUMNS, _META_DATA, _STATISTICS = 4, 1, 3, 12
_BOUNDS: Final = frozenset({1, 2, 5, 6})
_FIXED_LENGTH: Final = b"\x15\x0e"  # SchemaElement.type, first of its fields, and what it is


class _Kind(IntEnum):
    """Types of the compact protocol."""

    TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)


def ensure_fixed_bounds(footer: pq.FileMetaData, data: bytes) -> None:
    """Refuse a footer that has a bound shorter than its column's values.

    Args:
        footer: as Arrow has parsed it.
        data: its bytes, without length and magic.

    Raises:
        OSError: there is one.
    """
    if _FIXED_LENGTH not in data:
        return  # to ask for the schema of each of many files takes half of the time to parse them
    lengths = _unusual_lengths(footer.schema)
    for index, found in _find_bounds(data, lengths) if lengths else ():
        if found < lengths[index]:
            raise OSError(
                f"Arrow cannot read a bound of column {index}, "
                f"which has {found} of {lengths[index]} bytes"
            )


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


def _find_bounds(data: bytes, columns: Container[int]) -> Iterator[tuple[int, int]]:
    """The length of each bound of these columns, row group by row group."""
    reader = _CompactReader(data)
    for _ in reader.enter_list(_ROW_GROUPS):
        for index in reader.enter_list(_COLUMNS):
            if index not in columns:
                reader.skip(_Kind.STRUCT)
                continue
            for _ in reader.enter_struct(_META_DATA):
                for _ in reader.enter_struct(_STATISTICS):
                    for number, kind in reader.fields():
                        if number in _BOUNDS and kind == _Kind.BINARY:
                            yield index, reader.skip_binary()
                        else:
                            reader.skip(kind)


class _CompactReader:
    """Goes through Thrift's compact protocol; whoever is given a field has to go past its value."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and type of each field of the struct that begins here."""
        number = 0
        while (head := self._read_byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._read_signed()
            yield number, head & 0x0F

    def enter_struct(self, wanted: int) -> Iterator[None]:
        """Stop where the wanted field, a struct, begins; the others are gone past."""
        for number, kind in self.fields():
            if (number, kind) == (wanted, _Kind.STRUCT):
                yield
            else:
                self.skip(kind)

    def enter_list(self, wanted: int) -> Iterator[int]:
        """Stop at each member of the wanted field, a list of structs; the others are gone past."""
        for number, kind in self.fields():
            if (number, kind) == (wanted, _Kind.LIST):
                count, _ = self._read_list_head()
                yield from range(count)
            else:
                self.skip(kind)

    def skip_binary(self) -> int:
        """Go past bytes, and tell how many."""
        length = self._read_varint()
        self._at += length
        return length

    def skip(self, kind: int) -> None:
        """Go past the value of a field."""
        match kind:
            case _Kind.TRUE | _Kind.FALSE:
                pass  # the type is the value
            case _Kind.BYTE:
                self._at += 1
            case _Kind.I16 | _Kind.I32 | _Kind.I64:
                self._read_varint()
            case _Kind.DOUBLE:
                self._at += 8
            case _Kind.BINARY:
                self.skip_binary()
            case _Kind.LIST | _Kind.SET:
                count, member = self._read_list_head()
                self._skip_members(count, [member])
            case _Kind.MAP:
                count = self._read_varint()
                both = self._read_byte() if count else 0
                self._skip_members(count, [both >> 4, both & 0x0F])
            case _Kind.STRUCT:
                for _, member in self.fields():
                    self.skip(member)
            case _:
                raise OSError(f"its footer has a field of the unknown type {kind}")

    def _skip_members(self, count: int, kinds: Sequence[int]) -> None:
        for _ in range(count):
            for kind in kinds:
                self.skip(_Kind.BYTE if kind in (_Kind.TRUE, _Kind.FALSE) else kind)

    def _read_list_head(self) -> tuple[int, int]:
        head = self._read_byte()
        return (head >> 4 if head >> 4 < 15 else self._read_varint()), head & 0x0F

    def _read_signed(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _read_varint(self) -> int:
        value = shift = 0
        while (byte := self._read_byte()) >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _read_byte(self) -> int:
        if self._at >= len(self._data):
            raise OSError("its footer ends in the middle of a field")
        byte = self._data[self._at]
        self._at += 1
        return byte
