"""Walk the page headers of a column chunk.

Source: the Parquet format, "Data Pages" and "Column chunks"; ``PageHeader`` of parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias
from zlib import crc32

from deltactl.parquet.format import DataPageHeader, PageHeader, PageType
from deltactl.parquet.thrift import CompactReader, Kind, ThriftError, ThriftStruct

Read: TypeAlias = Callable[[int, int], bytes]
"""``read(offset, length) -> bytes``: fewer at the end of the file."""

_HEADER_BYTES: Final = 256
_MAX_HEADER_BYTES: Final = 16 << 20  # a header may hold bounds of long strings


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a chunk.

    ``heads`` has the offset of each from the start of the chunk, and the length of what was read of
    it: the header, and some bytes after it. ``digest`` is a checksum of all that was read.
    """

    heads: tuple[tuple[int, int], ...]
    num_values: int
    has_dictionary: bool
    digest: int


def walk_pages(read: Read, start: int, length: int) -> Pages:
    """Return the pages that fill a chunk.

    Args:
        read: reads the file.
        start: offset of the chunk.
        length: its bytes, with page headers.

    Raises:
        ThriftError: a header is not valid, or the pages do not fill the chunk.
    """
    heads: list[tuple[int, int]] = []
    num_values, position, has_dictionary, digest = 0, 0, False, 0
    while position < length:
        header, header_bytes, data = _read_header(read, start + position, length - position)
        size = header.integer(PageHeader.COMPRESSED_SIZE)
        kind = header.integer(PageHeader.TYPE)
        if size is None or size < 0 or position + header_bytes + size > length:
            raise ThriftError("a page is longer than its column chunk")
        if kind == PageType.DICTIONARY:
            if heads:
                raise ThriftError("a dictionary page follows other pages")
            has_dictionary = True
        elif kind in (PageType.DATA, PageType.DATA_V2):
            num_values += _count_values(header, kind)
        elif kind != PageType.INDEX:
            raise ThriftError(f"a page has the unknown type {kind}")
        head = data[: header_bytes + size]
        heads.append((position, len(head)))
        digest = crc32(head, digest)
        position += header_bytes + size
    return Pages(tuple(heads), num_values, has_dictionary, digest)


def has_pages(read: Read, start: int, pages: Pages) -> bool:
    """Return whether a chunk has the headers of these pages at the same places."""
    digest = 0
    for offset, length in pages.heads:
        digest = crc32(read(start + offset, length), digest)
    return digest == pages.digest


def read_page_header(read: Read, offset: int, limit: int) -> tuple[ThriftStruct, int]:
    """Return the page header at an offset, of at most ``limit`` bytes, and its length.

    Raises:
        ThriftError: there is no valid header.
    """
    header, length, _ = _read_header(read, offset, limit)
    return header, length


def _read_header(read: Read, offset: int, limit: int) -> tuple[ThriftStruct, int, bytes]:
    wanted = _HEADER_BYTES
    while True:
        data = read(offset, min(wanted, limit))
        reader = CompactReader(data)
        try:
            header: ThriftStruct = reader.read(Kind.STRUCT)
        except ThriftError:
            if len(data) < wanted or wanted >= _MAX_HEADER_BYTES:
                raise
            wanted *= 16
        else:
            return header, reader.position, data


def _count_values(header: ThriftStruct, kind: int) -> int:
    number = PageHeader.DATA_PAGE if kind == PageType.DATA else PageHeader.DATA_PAGE_V2
    count = header.struct(number).integer(DataPageHeader.NUM_VALUES)
    if count is None or count < 0:
        raise ThriftError("a data page does not say how many values it has")
    return count
