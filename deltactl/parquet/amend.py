"""Makes of a Parquet footer that Arrow wrote one that readers draw the right conclusions from.

Two things that Spark's reader believes lose rows of queries on floats:

- Bounds leave NaN out, which is greater than all else in Spark: ``x > 5`` skips row groups that
  hold NaN. Spark's own writer keeps no bounds then.
- Of a column with dictionary pages only, Spark looks ``x = 0`` up in the dictionary, where -0.0 is
  not 0.0. Without the counts of pages by encoding it cannot know that there are no others.

And one is missing: that a group of two binaries is a variant, which only the table's schema tells.

Arrow has no switch for any of them. So the footer, which comes last, is parsed as what it is, a
Thrift struct in the compact protocol, and written again, amended.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias

from deltactl.errors import DataFileError
from deltactl.parquet.file_end import MAGIC

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ThriftStruct: TypeAlias = list[tuple[int, int, Any]]
"""Number, type and value of each field."""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_VARINTS: Final = frozenset({4, 5, 6})

# Numbers of fields in parquet.thrift.
_SCHEMA, _NAME, _NUM_CHILDREN, _LOGICAL_TYPE = 2, 4, 5, 10
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_COLUMN_INDEX: Final = frozenset({6, 7})
_STATISTICS, _ENCODING_STATS = 12, 13
_BOUNDS: Final = frozenset({1, 2, 5, 6, 7, 8})
_LISTS: Final = frozenset({_SCHEMA, _ROW_GROUPS, _COLUMNS})

# LogicalType.VARIANT, of the first version of its specification.
_VARIANT: Final[ThriftStruct] = [(16, _STRUCT, [(1, _BYTE, b"\x01")])]


def amend_footer(
    tail: bytes,
    *,
    unbounded: Set[int] = frozenset(),
    opaque: Set[int] = frozenset(),
    variants: Set[tuple[str, ...]] = frozenset(),
) -> bytes:
    """The end of a Parquet file with an amended footer.

    Args:
        tail: the last bytes of the file, the whole footer among them.
        unbounded: indexes of leaf columns that lose bounds and column index.
        opaque: those that lose the counts of pages by encoding.
        variants: paths of groups that are said to be variants.

    Raises:
        DataFileError: there is no footer there.
    """
    if len(tail) < 8 or tail[-4:] != MAGIC:
        raise DataFileError("the Parquet file does not end in a footer")
    (length,) = struct.unpack("<I", tail[-8:-4])
    start = len(tail) - 8 - length
    footer = _Parser(tail[max(start, 0) : -8]).parse_struct()
    for group in _member(footer, _ROW_GROUPS)[1]:
        for index, chunk in enumerate(_member(group, _COLUMNS)[1]):
            column = _member(chunk, _META_DATA)
            if index in unbounded:
                _drop(chunk, _COLUMN_INDEX)
                _drop(_member(column, _STATISTICS), _BOUNDS)
            if index in opaque:
                _drop(column, frozenset({_ENCODING_STATS}))
    _annotate(iter(_member(footer, _SCHEMA)[1]), None, variants)
    out = bytearray()
    _write_struct(out, footer)
    return tail[:start] + bytes(out) + struct.pack("<I", len(out)) + MAGIC


def _annotate(
    elements: Iterator[ThriftStruct], above: tuple[str, ...] | None, variants: Set[tuple[str, ...]]
) -> None:
    """Annotate the next element of a schema, which is written depth first, and those below it.

    ``above`` is the path of its parent; the first one, the root, is in no path.
    """
    element = next(elements, [])
    name = bytes(_member(element, _NAME)).decode(errors="replace")
    path = () if above is None else (*above, name)
    if path in variants:
        element.append((_LOGICAL_TYPE, _STRUCT, _VARIANT))
    for _ in range((_member(element, _NUM_CHILDREN) or 0) >> 1):
        _annotate(elements, path, variants)


def _member(node: ThriftStruct, number: int) -> Any:
    """The value of a field; an empty list or struct where it is absent."""
    for found, _, value in node:
        if found == number:
            return value
    return (_STRUCT, []) if number in _LISTS else []


def _drop(node: ThriftStruct, numbers: Set[int]) -> None:
    node[:] = [field for field in node if field[0] not in numbers]


class HeldSink(io.RawIOBase):
    """Passes bytes on, until asked to keep them back."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._held: bytearray | None = None

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Take some bytes."""
        if self._held is None:
            return self._sink.write(data)
        self._held += data
        return memoryview(data).nbytes

    def hold(self) -> None:
        """Keep back what is written from now on."""
        self._held = bytearray()

    def release(self) -> bytes:
        """What was kept back."""
        return bytes(self._held or b"")


class _Parser:
    """Thrift's compact protocol as nested lists; numbers stay as they are encoded."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def parse_struct(self) -> ThriftStruct:
        fields: ThriftStruct = []
        number = 0
        while head := self._byte():
            kind, delta = head & 15, head >> 4
            if delta:
                number += delta
            else:
                encoded = self._varint()
                number = (encoded >> 1) ^ -(encoded & 1)
            fields.append((number, kind, self._value(kind)))
        return fields

    def _value(self, kind: int, *, in_list: bool = False) -> Any:
        if kind in _VARINTS:
            return self._varint()
        if kind in {_TRUE, _FALSE}:
            # The type of a field is its value; in a list each takes a byte.
            return self._byte() if in_list else None
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.parse_struct()
        if kind in {_LIST, _SET}:
            return self._list()
        if kind in {_BYTE, _DOUBLE}:
            return self._take(1 if kind == _BYTE else 8)
        raise DataFileError(f"a Parquet footer holds a Thrift type {kind}, which is not expected")

    def _list(self) -> tuple[int, list[Any]]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self._varint()
        return kind, [self._value(kind, in_list=True) for _ in range(count)]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        taken = self._data[self._position : self._position + count]
        if len(taken) < count:
            raise DataFileError("a Parquet footer ends within itself")
        self._position += count
        return taken

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7


def _write_struct(out: bytearray, fields: ThriftStruct) -> None:
    last = 0
    for number, kind, value in fields:
        if 0 < number - last <= 15:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, number << 1 if number >= 0 else ~(number << 1))
        _write_value(out, kind, value)
        last = number
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in _VARINTS:
        _write_varint(out, value)
    elif kind in {_TRUE, _FALSE}:
        if value is not None:
            out.append(value)
    elif kind == _STRUCT:
        _write_struct(out, value)
    elif kind in {_LIST, _SET}:
        inner, members = value
        out.append(min(len(members), 15) << 4 | inner)
        if len(members) >= 15:
            _write_varint(out, len(members))
        for member in members:
            _write_value(out, inner, member)
    else:
        if kind == _BINARY:
            _write_varint(out, len(value))
        out += value


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
