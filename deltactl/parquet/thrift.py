"""Read and write the compact protocol of Thrift, the encoding of footers and page headers.

``decode`` returns a tree. ``encode`` writes this tree back byte for byte if the writer used the
shortest encodings, as Arrow does. ``CompactReader`` reads single fields, for callers that need
few of them.

Input is not trusted. ``ThriftError`` is raised if data end early, are nested deeper than
``MAX_DEPTH``, or contain numbers out of range or unknown types. A list must not have more elements
than there are remaining bytes. So memory is proportional to the input.

Source: Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import IntEnum
from operator import itemgetter
from typing import Any, Final

MAX_DEPTH: Final = 64
"""Maximum depth of structs, lists and maps: the default limit of the Thrift libraries."""

_MAX_VARINT_BITS: Final = 70  # ten bytes of seven bits, for a number of 64 bits
_LONG_LIST: Final = 15  # a length from this on follows as a number of its own
_FALSE_MEMBER: Final = 2  # of a list or map; a member of a struct has its value in its type


class Kind(IntEnum):
    """Types of the compact protocol."""

    TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)


_WIDTHS: Final[Mapping[int, int]] = {int(Kind.BYTE): 1, int(Kind.DOUBLE): 8, int(Kind.UUID): 16}
# Plain numbers: comparisons with members of an enumeration take several times as long.
_BOOLEANS: Final = frozenset({int(Kind.TRUE), int(Kind.FALSE)})
_INTEGERS: Final = frozenset({int(Kind.I16), int(Kind.I32), int(Kind.I64)})


class ThriftError(ValueError):
    """Bytes that are not valid Thrift data."""


@dataclass(slots=True)
class ThriftStruct:
    """A struct: number, type and value of each field, in stored order.

    Values are ``bool``, ``int``, ``bytes``, ``ThriftList`` (lists and sets), ``ThriftMap`` and
    ``ThriftStruct``. BYTE, DOUBLE and UUID are ``bytes``, as they are stored.
    """

    fields: list[tuple[int, int, Any]] = field(default_factory=list)

    def get(self, number: int) -> Any:
        """Return the value of a field, or ``None`` if the struct does not have the field."""
        return next((value for found, _, value in self.fields if found == number), None)

    def members(self, number: int) -> list[Any]:
        """Return the elements of a list field; no elements if it is absent or not a list."""
        found = self.get(number)
        return found.members if isinstance(found, ThriftList) else []

    def structs(self, number: int) -> list[ThriftStruct]:
        """Return the elements of a list of structs; no elements if the field is absent.

        Raises:
            ThriftError: an element is not a struct.
        """
        found = self.members(number)
        if not all(isinstance(member, ThriftStruct) for member in found):
            raise ThriftError(f"the list in field {number} has members that are not structs")
        return found

    def struct(self, number: int) -> ThriftStruct:
        """Return a struct field; an empty struct if the field is absent or not a struct."""
        found = self.get(number)
        return found if isinstance(found, ThriftStruct) else ThriftStruct()

    def integer(self, number: int) -> int | None:
        """Return an integer field; ``None`` if the field is absent or not an integer."""
        found = self.get(number)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def drop(self, numbers: Set[int]) -> None:
        """Remove these fields if they are present."""
        self.fields = [item for item in self.fields if item[0] not in numbers]

    def set(self, number: int, kind: Kind, value: Any) -> None:
        """Add or replace a field. Afterwards the fields are in the order of their numbers."""
        self.drop({number})
        self.fields.append((number, kind, value))
        self.fields.sort(key=itemgetter(0))


@dataclass(slots=True)
class ThriftList:
    """A list or set of members of one type. Booleans are ``TRUE`` or ``FALSE``, as stored."""

    kind: int
    members: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class ThriftMap:
    """A map, as pairs in stored order. An empty map has no types."""

    key_kind: int = 0
    value_kind: int = 0
    items: list[tuple[Any, Any]] = field(default_factory=list)


def decode(data: bytes) -> ThriftStruct:
    """Return the struct that fills ``data``.

    Raises:
        ThriftError: the struct is not valid, or does not fill ``data``.
    """
    reader = CompactReader(data)
    struct: ThriftStruct = reader.read(Kind.STRUCT)
    if reader.position != len(data):
        raise ThriftError(f"{len(data) - reader.position} bytes follow the end of Thrift data")
    return struct


def encode(struct: ThriftStruct) -> bytes:
    """Return the bytes of a struct, in the shortest encodings."""
    out = bytearray()
    _write(out, Kind.STRUCT, struct)
    return bytes(out)


class CompactReader:
    """Read values one after the other; the next one begins at ``position``.

    For each field that ``fields`` yields, read or skip its value before you request the next field.
    All methods raise ``ThriftError`` if the data are not valid.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of the struct that begins at ``position``."""
        number = 0
        while (head := self._read_byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._read_integer()
            if not -(1 << 15) <= number < 1 << 15:
                raise ThriftError(f"a Thrift field has the number {number}, which is out of range")
            yield number, head & 15

    def enter_struct(self, wanted: int) -> Iterator[None]:
        """Move to the start of the struct field ``wanted``. Skip the other fields."""
        for number, kind in self.fields():
            if (number, kind) == (wanted, Kind.STRUCT):
                yield
            else:
                self.skip(kind)

    def enter_list(self, wanted: int) -> Iterator[int]:
        """Stop at each element of the field ``wanted``, a list of structs. Skip other fields."""
        for number, kind in self.fields():
            if (number, kind) == (wanted, Kind.LIST):
                member, count = self.read_list_head()
                if count and member != Kind.STRUCT:
                    raise ThriftError(f"a Thrift list has members of the unexpected type {member}")
                yield from range(count)
            else:
                self.skip(kind)

    def read(self, kind: int, depth: int = MAX_DEPTH) -> Any:
        """Return the value of a field of type ``kind``, in the Python type of ``ThriftStruct``."""
        if kind in _BOOLEANS:
            return kind == Kind.TRUE
        if kind in _INTEGERS:
            return self._read_integer()
        if kind == Kind.BINARY:
            return self._take(self._read_varint())
        if width := _WIDTHS.get(kind):
            return self._take(width)
        _ensure_depth(depth)
        if kind == Kind.STRUCT:
            fields = self.fields()
            return ThriftStruct([(n, each, self.read(each, depth - 1)) for n, each in fields])
        if kind in (Kind.LIST, Kind.SET):
            member, count = self.read_list_head()
            return ThriftList(member, [self._read_member(member, depth) for _ in range(count)])
        if kind == Kind.MAP:
            key, value, count = self._read_map_head()
            pairs = (
                (self._read_member(key, depth), self._read_member(value, depth))
                for _ in range(count)
            )
            return ThriftMap(key, value, list(pairs))
        raise ThriftError(f"Thrift data have a field of the unknown type {kind}")

    def skip(self, kind: int) -> None:
        """Skip the value of a field of type ``kind``."""
        self.read(kind)

    def skip_binary(self) -> int:
        """Skip a value of type BINARY and return its length."""
        length = self._read_varint()
        self._advance(length)
        return length

    def _read_member(self, kind: int, depth: int) -> Any:
        return self._read_byte() == Kind.TRUE if kind in _BOOLEANS else self.read(kind, depth - 1)

    def read_list_head(self) -> tuple[int, int]:
        """Return type and number of the members of the list or set that begins at ``position``."""
        head = self._read_byte()
        count = head >> 4 if head >> 4 < _LONG_LIST else self._read_varint()
        return head & 15, self._ensure_room(count)

    def _read_map_head(self) -> tuple[int, int, int]:
        count = self._ensure_room(self._read_varint())
        kinds = self._read_byte() if count else 0
        return kinds >> 4, kinds & 15, count

    def _read_integer(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _read_varint(self) -> int:
        value = shift = 0
        while shift < _MAX_VARINT_BITS:
            byte = self._read_byte()
            if byte < 128:
                if (value := value | byte << shift) >> 64:
                    break
                return value
            value |= (byte & 127) << shift
            shift += 7
        raise ThriftError("a number in Thrift data has more than 64 bits")

    def _read_byte(self) -> int:
        try:
            byte = self._data[self.position]
        except IndexError:
            raise ThriftError("Thrift data end in the middle of a field") from None
        self.position += 1
        return byte

    def _take(self, count: int) -> bytes:
        start = self.position
        self._advance(count)
        return self._data[start : self.position]

    def _advance(self, count: int) -> None:
        self.position += self._ensure_room(count)

    def _ensure_room(self, count: int) -> int:
        """Return ``count`` if at least as many bytes remain: each element needs one or more."""
        if count > len(self._data) - self.position:
            raise ThriftError("Thrift data end in the middle of a field")
        return count


def _ensure_depth(depth: int) -> None:
    if depth <= 0:
        raise ThriftError(f"Thrift data are nested more than {MAX_DEPTH} levels deep")


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_integer(out, value)
    elif kind == Kind.STRUCT:
        _write_struct(out, value)
    elif kind in (Kind.LIST, Kind.SET):
        _write_list(out, value)
    elif kind == Kind.MAP:
        _write_varint(out, len(value.items))
        if value.items:
            out.append(value.key_kind << 4 | value.value_kind)
        for key, item in value.items:
            _write_member(out, value.key_kind, key)
            _write_member(out, value.value_kind, item)
    elif kind not in _BOOLEANS:
        if kind == Kind.BINARY:
            _write_varint(out, len(value))
        out += value


def _write_list(out: bytearray, values: ThriftList) -> None:
    count = len(values.members)
    out.append(min(count, _LONG_LIST) << 4 | values.kind)
    if count >= _LONG_LIST:
        _write_varint(out, count)
    for member in values.members:
        _write_member(out, values.kind, member)


def _write_struct(out: bytearray, struct: ThriftStruct) -> None:
    last = 0
    for number, kind, value in struct.fields:
        if 0 < number - last <= 15:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_integer(out, number)
        _write(out, kind, value)
        last = number
    out.append(0)


def _write_member(out: bytearray, kind: int, value: Any) -> None:
    if kind in _BOOLEANS:
        out.append(Kind.TRUE if value else _FALSE_MEMBER)
    else:
        _write(out, kind, value)


def _write_integer(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else ~(value << 1))


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
