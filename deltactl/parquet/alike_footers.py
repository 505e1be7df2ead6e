"""Decode many footers together that differ only in numbers and bounds (files of one writer).

One footer that Arrow has read gives the shape: all its bytes except numbers and bounds. In each
other footer, these bytes must be equal. If a footer differs in other bytes, or has a number that
does not fit, Arrow reads it. So this module neither reports nor accepts invalid footers.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md; parquet.thrift of Apache Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from deltactl.parquet.footer_bytes import Footer
from deltactl.parquet.format import (
    END_BYTES,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
    Statistics,
)
from deltactl.parquet.thrift import CompactReader, Kind, ThriftError

Numbers: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Place: TypeAlias = tuple[int, ...]

_MAX_DEPTH: Final = 12
_MAX_VARINT_BYTES: Final = 9  # a tenth byte could overflow 64 bits
_LONG_RUN: Final = 48
_FEW_BITS: Final[Mapping[int, int]] = {Kind.I16: 15, Kind.I32: 31}
_BOUNDS: Final = frozenset(
    {Statistics.MAX, Statistics.MIN, Statistics.MAX_VALUE, Statistics.MIN_VALUE}
)
# A place is a path of numbers inside the only row group. The empty path is the row count of the
# footer.
_NUM_ROWS: Final[_Place] = ()
# Field numbers of a column chunk; their meaning is the same in all footers of a shape.
_FIXED: Final = frozenset({ColumnMetaData.TYPE, ColumnMetaData.ENCODINGS, ColumnMetaData.CODEC})
_NEEDED: Final = (
    ColumnMetaData.NUM_VALUES,
    ColumnMetaData.TOTAL_COMPRESSED_SIZE,
    ColumnMetaData.DATA_PAGE_OFFSET,
)
# For writers before parquet-mr 1.10 and parquet-cpp 1.3, Arrow decides whether their bounds are
# correct.
_OLD_WRITERS: Final = re.compile(r"parquet-(cpp|mr)\b(?!-)(?! version 1\.\d\d)", re.IGNORECASE)
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8}
_INTEGERS: Final[Mapping[str, type[np.signedinteger[Any]]]] = {"INT32": np.int32, "INT64": np.int64}


class _UnfitError(Exception):
    """A footer that cannot be used as a shape."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A number or a bound, and the bytes ``before`` it, which are the same in all footers.

    ``size`` is the length of the bound in the shape; it is ``None`` for a number.
    """

    before: bytes
    place: _Place
    kind: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Shape:
    """The values of a footer in stored order, and the bytes after the last value."""

    values: tuple[_Value, ...] = field(repr=False)
    end: bytes = field(repr=False)
    types: tuple[str, ...]

    @classmethod
    def of(cls, footer: Footer) -> Shape | None:
        """Return the shape of a footer with one row group; ``None`` if its form is rare."""
        metadata = footer.metadata
        if metadata.num_row_groups != 1 or _OLD_WRITERS.match(metadata.created_by or ""):
            return None
        types = tuple(metadata.schema.column(i).physical_type for i in range(metadata.num_columns))
        try:
            values, end = _Walk(footer.data[:-END_BYTES], len(types)).walk()
        except (_UnfitError, ThriftError):
            return None
        numbers = {value.place for value in values if value.size is None}
        needed = {_meta(index, member) for index in range(len(types)) for member in _NEEDED}
        return cls(values, end, types) if needed | {_NUM_ROWS} <= numbers else None


class _Walk:
    """Find the values of a footer."""

    def __init__(self, data: bytes, num_columns: int) -> None:
        self._data, self._num_columns = data, num_columns
        self._reader = CompactReader(data)
        self._values: list[_Value] = []
        self._start = 0

    def walk(self) -> tuple[tuple[_Value, ...], bytes]:
        """Return the values and the bytes after the last value."""
        seen: set[int] = set()
        for number, kind in self._reader.fields():
            self._see(seen, number)
            if number == FileMetaData.NUM_ROWS and kind == Kind.I64:
                self._take(_NUM_ROWS, kind)
            elif number == FileMetaData.ROW_GROUPS and kind == Kind.LIST:
                if self._reader.read_list_head() != (Kind.STRUCT, 1):
                    raise _UnfitError
                self._walk_struct((), 1)
            else:
                self._reader.skip(kind)
        if self._reader.position != len(self._data):
            raise _UnfitError
        return tuple(self._values), self._data[self._start :]

    def _walk_struct(self, place: _Place, depth: int) -> None:
        seen: set[int] = set()
        for number, kind in self._reader.fields():
            self._see(seen, number)
            self._walk_field((*place, number), kind, depth)

    def _walk_field(self, place: _Place, kind: int, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _UnfitError
        chunk = place[2:]
        if chunk[:1] in ((ColumnChunk.CRYPTO_METADATA,), (ColumnChunk.ENCRYPTED_METADATA,)):
            raise _UnfitError
        if place[0] == RowGroup.SORTING_COLUMNS or (
            len(chunk) >= 2 and chunk[0] == ColumnChunk.META_DATA and chunk[1] in _FIXED
        ):
            self._reader.skip(kind)
        elif kind in (Kind.I16, Kind.I32, Kind.I64) or (kind == Kind.BINARY and _is_bound(chunk)):
            self._take(place, kind)
        elif kind == Kind.STRUCT:
            self._walk_struct(place, depth + 1)
        elif kind == Kind.LIST:
            member, count = self._reader.read_list_head()
            if place == (RowGroup.COLUMNS,) and count != self._num_columns:
                raise _UnfitError
            if member in (Kind.TRUE, Kind.FALSE):
                raise _UnfitError
            for index in range(count):
                self._walk_field((*place, index), member, depth + 1)
        else:
            self._reader.skip(kind)

    def _take(self, place: _Place, kind: int) -> None:
        before = self._data[self._start : self._reader.position]
        size = None
        if kind == Kind.BINARY:
            size = self._reader.skip_binary()
        else:
            self._reader.skip(kind)
        self._values.append(_Value(before, place, kind, size))
        self._start = self._reader.position

    def _see(self, seen: set[int], number: int) -> None:
        if number in seen:
            raise _UnfitError  # if a field is repeated, readers differ in which value they use
        seen.add(number)


def _is_bound(chunk: _Place) -> bool:
    return (
        chunk[:2] == (ColumnChunk.META_DATA, ColumnMetaData.STATISTICS)
        and len(chunk) == 3
        and chunk[2] in _BOUNDS
    )


@dataclass(frozen=True, slots=True)
class Matched:
    """Footers of one shape, and the index of each of them in the given footers."""

    chosen: Sequence[int]
    footers: AlikeFooters = field(repr=False)


def match_footers(shape: Shape, footers: Sequence[bytes], sizes: Sequence[int]) -> Matched:
    """Decode the footers that have a shape.

    Args:
        shape: the shape.
        footers: the bytes of footers as stored, with length and magic.
        sizes: the sizes of their files, in bytes.
    """
    found = AlikeFooters(shape, footers, sizes)
    chosen = np.flatnonzero(found.is_alike).tolist()
    if len(chosen) < len(footers):
        some = [footers[i] for i in chosen], [sizes[i] for i in chosen]
        found = AlikeFooters(shape, *some) if chosen else found
    return Matched(chosen, found)


class AlikeFooters:
    """The values of footers of one shape; ``is_alike`` marks the footers that have the shape."""

    def __init__(self, shape: Shape, footers: Sequence[bytes], sizes: Sequence[int]) -> None:
        """Decode stored ``footers``, with length and magic, of files with these ``sizes``."""
        self._shape = shape
        lengths = np.array([len(data) - END_BYTES for data in footers], np.int64)
        self._text = b"".join([data[:-END_BYTES] for data in footers])
        self._flat: _Bytes = np.frombuffer(self._text, np.uint8)
        self._ends = np.cumsum(lengths)
        self._position: Numbers = self._ends - lengths
        self._ok = np.ones(len(footers), np.bool_)
        self._numbers: dict[_Place, Numbers] = {}
        self._bounds: dict[_Place, tuple[Numbers, Numbers]] = {}
        for value in shape.values:
            self._match(value.before)
            if value.size is None:
                self._numbers[value.place] = self._read_number(_FEW_BITS.get(value.kind, 63))
            else:
                self._read_bound(value)
        self._match(shape.end)
        self._ok &= self._position == self._ends
        for index in range(len(shape.types)):
            self._check_chunk(index, np.array(sizes, np.int64))
        self._ok &= self.num_rows >= 0
        self.is_alike: _Flags = self._ok

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def num_rows(self) -> Numbers:
        """Return the number of rows of each file."""
        return self._numbers[_NUM_ROWS]

    def null_counts(self, index: int) -> list[int | None]:
        """Return, for each file, the null count of a column; ``None`` if unknown."""
        place = _statistic(index, Statistics.NULL_COUNT)
        if place in self._numbers:
            return list(self._numbers[place].tolist())
        # As Arrow does: it writes no statistics for a chunk without values.
        has_statistics = any(value.place[:4] == place[:4] for value in self._shape.values)
        values = self._numbers[_meta(index, ColumnMetaData.NUM_VALUES)].tolist()
        return [0 if count == 0 and not has_statistics else None for count in values]

    def bounds(self, index: int) -> tuple[list[Any], list[Any]]:
        """Return minima and maxima of a column as physical values; ``None`` if unknown."""
        places = [_statistic(index, it) for it in (Statistics.MIN_VALUE, Statistics.MAX_VALUE)]
        if any(place not in self._bounds for place in places):
            return [None] * len(self), [None] * len(self)
        lower, upper = (self._bound(index, *self._bounds[place]) for place in places)
        return lower, upper

    def _bound(self, index: int, starts: Numbers, lengths: Numbers) -> list[Any]:
        kind = self._shape.types[index]
        if kind in _INTEGERS:
            raw = self._flat[starts[:, None] + np.arange(_WIDTHS[kind])]
            little = np.dtype(_INTEGERS[kind]).newbyteorder("<")
            return list(np.frombuffer(raw.tobytes(), little).tolist())
        if kind == "BOOLEAN":
            return list((self._flat[starts] == 1).tolist())
        ends = (starts + lengths).tolist()
        return [self._text[a:b] for a, b in zip(starts.tolist(), ends, strict=True)]

    def _match(self, expected: bytes) -> None:
        """Compare the next bytes of each footer with ``expected``, and skip them."""
        count = len(expected)
        if not count:
            return
        if count > _LONG_RUN:
            text = self._text
            found = [text.startswith(expected, start) for start in self._position.tolist()]
            self._ok &= np.array(found)
        else:
            run = np.frombuffer(expected, np.uint8)
            for offset in range(count):
                self._ok &= self._byte(offset) == run[offset]
        self._position = self._position + count

    def _byte(self, offset: int = 0) -> _Bytes:
        """Return the next byte of each footer; after the end of the buffer, an arbitrary byte."""
        return self._flat.take(self._position + offset, mode="clip")

    def _read_varint(self) -> Numbers:
        value = np.zeros(len(self), np.int64)
        reading: _Flags = np.ones(len(self), np.bool_)
        length = np.zeros(len(self), np.int64)
        for index in range(_MAX_VARINT_BYTES):
            byte = self._byte(index).astype(np.int64)
            value |= np.where(reading, (byte & 127) << 7 * index, 0)
            length += reading
            reading = reading & (byte >= 128)
            if not reading.any():
                break
        self._ok &= ~reading
        self._position = self._position + length
        return value

    def _read_number(self, bits: int) -> Numbers:
        varint = self._read_varint()
        value: Numbers = (varint >> 1) ^ -(varint & 1)
        if bits < 63:
            self._ok &= (value >> bits == 0) | (value >> bits == -1)
        return value

    def _read_bound(self, value: _Value) -> None:
        lengths = self._read_varint()
        fits = (lengths >= 0) & (lengths <= self._ends - self._position)
        kind = self._shape.types[value.place[1]]
        if kind != "BYTE_ARRAY":
            fits &= lengths == _WIDTHS.get(kind, value.size)
        self._ok &= fits
        lengths = np.where(fits, lengths, 0)
        self._bounds[value.place] = (self._position, lengths)
        if kind == "BOOLEAN":
            self._ok &= self._byte() <= 1
        self._position = self._position + lengths

    def _check_chunk(self, index: int, sizes: Numbers) -> None:
        """Reject chunks that may be invalid, so that Arrow reads and checks them."""
        none = np.zeros(len(self), np.int64)

        def number(member: int) -> Numbers:
            return self._numbers.get(_meta(index, member), none)

        length = number(ColumnMetaData.TOTAL_COMPRESSED_SIZE)
        nulls = self._numbers.get(_statistic(index, Statistics.NULL_COUNT), none)
        counts = (number(ColumnMetaData.NUM_VALUES), nulls, length)
        self._ok &= np.logical_and.reduce([count >= 0 for count in counts])
        for member in (ColumnMetaData.DATA_PAGE_OFFSET, ColumnMetaData.DICTIONARY_PAGE_OFFSET):
            offset = number(member)
            self._ok &= (offset >= 0) & (offset <= sizes) & (length <= sizes - offset)


def _meta(index: int, member: int) -> _Place:
    return (RowGroup.COLUMNS, index, ColumnChunk.META_DATA, member)


def _statistic(index: int, member: int) -> _Place:
    return (*_meta(index, ColumnMetaData.STATISTICS), member)
