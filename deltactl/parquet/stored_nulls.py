"""Read the null counts of a footer, and nothing else of its statistics.

Arrow decodes the bounds of a chunk together with its null count, and ends the process if a bound is
not as long as a value. ``CompactReader`` takes four times as long as this module, and longer than
the rows of a small file.

Source: parquet.thrift of Apache Parquet; Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from typing import Final

from deltactl.parquet.format import ColumnChunk, ColumnMetaData, FileMetaData, RowGroup, Statistics
from deltactl.parquet.thrift import Kind, ThriftError

# Plain numbers: an enumeration takes much longer here.
_FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (
    int(kind)
    for kind in (
        Kind.FALSE, Kind.BYTE, Kind.I16, Kind.I64, Kind.DOUBLE, Kind.BINARY, Kind.LIST, Kind.SET,
        Kind.STRUCT,
    )
)  # fmt: skip
_LONG_LIST: Final = 15


def read_stored_nulls(data: bytes) -> list[list[int | None]]:
    """Return the null count of each leaf in each row group; ``None`` if the footer has none.

    Args:
        data: the footer, without length and magic, which Arrow has already parsed.

    Raises:
        ThriftError: the footer is not valid.
    """
    try:
        return _read_groups(data)
    except (IndexError, RecursionError):
        raise ThriftError("a footer ends in the middle of a field") from None


def _read_groups(data: bytes) -> list[list[int | None]]:
    groups: list[list[int | None]] = []
    at, found = _find(data, 0, FileMetaData.ROW_GROUPS, _LIST)
    if not found:
        return groups
    count, at = _list_head(data, at)
    for _ in range(count):
        groups.append([])
        at, found = _find(data, at, RowGroup.COLUMNS, _LIST)
        if found:
            length, at = _list_head(data, at)
            for _ in range(length):
                nulls, at = _read_chunk(data, at)
                groups[-1].append(nulls)
            at = _end(data, at)
    return groups


def _read_chunk(data: bytes, at: int) -> tuple[int | None, int]:
    """Return the null count of the chunk at a position, and the position after the chunk."""
    nulls = None
    at, found = _find(data, at, ColumnChunk.META_DATA, _STRUCT)
    if found:
        at, found = _find(data, at, ColumnMetaData.STATISTICS, _STRUCT)
        if found:
            at, found = _find(data, at, Statistics.NULL_COUNT, _I64)
            if found:
                number, at = _varint(data, at)
                nulls, at = (number >> 1) ^ -(number & 1), _end(data, at)
            at = _end(data, at)
        at = _end(data, at)
    return nulls, at


def _find(data: bytes, at: int, wanted: int, wanted_kind: int) -> tuple[int, bool]:
    """Return the position of a field of the struct at a position; if none, that after the struct.

    The fields of a footer are in the order of their numbers.
    """
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head < 16:
            number, at = _varint(data, at)
            number = (number >> 1) ^ -(number & 1)
        else:
            number += head >> 4
        if number == wanted and kind == wanted_kind:
            return at, True
        at = _skip(data, at, kind)
    return at + 1, False


def _end(data: bytes, at: int) -> int:
    """Return the position after a struct that has more fields from a position on."""
    while head := data[at]:
        at += 1
        if head < 16:
            _, at = _varint(data, at)
        at = _skip(data, at, head & 15)
    return at + 1


def _skip(data: bytes, at: int, kind: int) -> int:
    if kind <= _FALSE:
        return at
    if _I16 <= kind <= _I64:
        while data[at] >= 128:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind == _STRUCT:
        return _end(data, at)
    if kind in (_LIST, _SET):
        member = data[at] & 15
        count, at = _list_head(data, at)
        for _ in range(count):
            at = _skip(data, at, max(member, _BYTE))
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    raise ThriftError(f"a footer has a field of the unexpected type {kind}")


def _list_head(data: bytes, at: int) -> tuple[int, int]:
    count = data[at] >> 4
    return (count, at + 1) if count < _LONG_LIST else _varint(data, at + 1)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) >= 128:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1
