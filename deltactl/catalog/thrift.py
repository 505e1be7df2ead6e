"""Call a service over Thrift: strict binary protocol, unframed, one connection for each call.

Values go with their types: a struct is a mapping from the ids of fields to pairs of type and value,
a list or set is a pair of the type of its members and the members, and a map is the types of its
keys and values, and pairs of these. So what is read can be written again, with unknown fields.

Source: Apache Thrift, "Thrift Binary protocol encoding".
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, BinaryIO, Final, TypeAlias

from deltactl.errors import StorageError

Typed: TypeAlias = tuple[int, Any]
Fields: TypeAlias = Mapping[int, Typed]
Kind = IntEnum(
    "Kind",
    {"BOOL": 2, "BYTE": 3, "DOUBLE": 4, "I16": 6, "I32": 8, "I64": 10, "STRING": 11, "STRUCT": 12,
     "MAP": 13, "SET": 14, "LIST": 15},
)  # fmt: skip
"""The types of values."""

_NUMBERS: Final = {2: ">?", 3: ">b", 4: ">d", 6: ">h", 8: ">i", 10: ">q"}
_CALL: Final = 0x80010001
_REPLY: Final = 0x80010002
_FAILURE: Final = 0x80010003
_HTTP: Final = int.from_bytes(b"HTTP")
_MOST_BYTES: Final = 1 << 28
_MOST_LEVELS: Final = 32
_CONNECT_SECONDS: Final = 10
_ANSWER_SECONDS: Final = 60


class DeclaredError(Exception):
    """The service answered with an exception that the method declares as a ``field`` of replies."""

    def __init__(self, field: int, message: str) -> None:
        super().__init__(message)
        self.field = field


def call(address: tuple[str, int], method: str, *arguments: Typed) -> Any:
    """Return the result of a method, whose arguments have the ids 1, 2 and so on.

    Raises:
        DeclaredError: the service answered with an exception of the method.
        OSError: there is no connection, or the service closed it.
        StorageError: there is no answer, or it is not valid.
    """
    begin = struct.pack(">I", _CALL) + encode(Kind.STRING, method) + encode(Kind.I32, 1)
    with socket.create_connection(address, _CONNECT_SECONDS) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        connection.sendall(begin + encode(Kind.STRUCT, dict(enumerate(arguments, 1))))
        with connection.makefile("rb") as stream:
            try:
                return read_reply(stream, method)
            except TimeoutError as error:
                raise StorageError(
                    f"no answer to {method} came within {_ANSWER_SECONDS} seconds",
                    hint="Check that this is the port of a Hive metastore without Kerberos or TLS.",
                ) from error


def read_reply(stream: BinaryIO, method: str) -> Any:
    """Return the result in a message; see ``call``."""
    reader = _Reader(stream)
    try:
        [kind] = struct.unpack(">I", reader.take(4))
        if kind == _HTTP:
            raise StorageError(
                f"a server of HTTP answered {method}, not a Hive metastore",
                hint="Give the Thrift port of the metastore, by default 9083.",
            )
        if kind not in (_REPLY, _FAILURE):
            raise ValueError(f"it begins with {kind:#x}")
        reader.read(Kind.STRING)
        reader.read(Kind.I32)
        fields = reader.read(Kind.STRUCT)
    except ValueError as error:
        raise StorageError(f"the answer to {method} is not of Thrift: {error}") from error
    if kind == _FAILURE:
        raise StorageError(f"{method} failed: {_message(fields)}")
    for field, (_, value) in fields.items():
        if field:
            raise DeclaredError(field, _message(value))
    return fields[0][1] if fields else None


def encode(kind: int, value: Any) -> bytes:
    """Return the bytes of a value of a type."""
    if kind in _NUMBERS:
        return struct.pack(_NUMBERS[kind], value)
    if kind == Kind.STRING:
        text: bytes = value.encode("utf-8", "surrogateescape")
        return encode(Kind.I32, len(text)) + text
    if kind == Kind.STRUCT:
        fields = (
            bytes([each]) + encode(Kind.I16, field) + encode(each, member)
            for field, (each, member) in value.items()
        )
        return b"".join(fields) + b"\0"
    *kinds, members = value
    flat = [part for pair in members for part in pair] if kind == Kind.MAP else members
    parts = (encode(kinds[place % len(kinds)], part) for place, part in enumerate(flat))
    return bytes(kinds) + encode(Kind.I32, len(members)) + b"".join(parts)


class _Reader:
    """Reads values; refuses what is longer or deeper than an answer may be."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._left = stream, _MOST_BYTES

    def take(self, count: int) -> bytes:
        self._left -= self._checked(count)
        found = self._stream.read(count)
        if len(found) < count:
            raise ConnectionResetError("the service closed the connection")
        return found

    def read(self, kind: int, level: int = 0) -> Any:
        if kind in _NUMBERS:
            form = _NUMBERS[kind]
            return struct.unpack(form, self.take(struct.calcsize(form)))[0]
        if kind == Kind.STRING:
            return self.take(self.read(Kind.I32)).decode("utf-8", "surrogateescape")
        if level == _MOST_LEVELS or kind not in tuple(Kind):
            raise ValueError(f"it has the type {kind}, or is too deep")
        if kind == Kind.STRUCT:
            fields: dict[int, Typed] = {}
            while each := self.take(1)[0]:
                field = self.read(Kind.I16)
                fields[field] = each, self.read(each, level + 1)
            return fields
        kinds = self.take(2 if kind == Kind.MAP else 1)
        count = self._checked(self.read(Kind.I32))
        members = [self.read(each, level + 1) for _ in range(count) for each in kinds]
        pairs = list(zip(members[::2], members[1::2], strict=True)) if kind == Kind.MAP else members
        return (*kinds, pairs)

    def _checked(self, count: int) -> int:
        if not 0 <= count <= self._left:
            raise ValueError(f"it has a length of {count}")
        return count


def _message(value: Any) -> str:
    kind, text = value.get(1, (0, "")) if isinstance(value, dict) else (0, "")
    return str(text)[:300] if kind == Kind.STRING else "without a message"
