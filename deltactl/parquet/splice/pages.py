"""Read the page headers of a column chunk one after the other.

Source: the Parquet format, "Data Pages" and "Column chunks"; ``PageHeader`` of parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from zlib import crc32

from deltactl.parquet.format import DataPageHeader, PageHeader, PageType
from deltactl.parquet.thrift import CompactReader, Kind, ThriftError

Read: TypeAlias = Callable[[int, int], bytes]
"""``read(offset, length) -> bytes``; at the end of the file, it returns fewer bytes."""

# The field of the page header that describes a data page, by the type of the page.
_DATA_HEADERS: Final[Mapping[int, int]] = {
    PageHeader.DATA_PAGE: PageType.DATA,
    PageHeader.DATA_PAGE_V2: PageType.DATA_V2,
}
_HEADER_BYTES: Final = 1024  # enough for most headers; longer ones are read again
_MAX_HEADER_BYTES: Final = 16 << 20  # a header may contain bounds that are long strings


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a chunk.

    ``heads`` has, for each page, the offset from the start of the chunk and the number of bytes
    that were read: the header, and some bytes after it. ``digest`` is a checksum of all bytes that
    were read. ``is_compressed`` is true if the size of a page differs from the size of its values.
    """

    heads: tuple[tuple[int, int], ...]
    num_values: int
    has_dictionary: bool
    is_compressed: bool
    digest: int


def walk_pages(read: Read, start: int, length: int) -> Pages:
    """Return the pages of a chunk; they must fill the chunk.

    Args:
        read: reads the file.
        start: offset of the chunk.
        length: number of bytes of the chunk, with page headers.

    Raises:
        ThriftError: a header is not valid, or the pages do not fill the chunk.
    """
    heads: list[tuple[int, int]] = []
    num_values, position, digest = 0, 0, 0
    has_dictionary = is_compressed = False
    while position < length:
        header, header_bytes, data = _read_header(read, start + position, length - position)
        kind, size = header.kind, header.size_bytes
        if size is None or size < 0 or position + header_bytes + size > length:
            raise ThriftError("a page is longer than its column chunk")
        if kind == PageType.DICTIONARY:
            if heads:
                raise ThriftError("a dictionary page follows other pages")
            has_dictionary = True
        elif kind in (PageType.DATA, PageType.DATA_V2):
            num_values += _count_values(header)
        elif kind != PageType.INDEX:
            raise ThriftError(f"a page has the unknown type {kind}")
        head = data[: header_bytes + size]
        heads.append((position, len(head)))
        is_compressed |= size != header.uncompressed_bytes
        digest = crc32(head, digest)
        position += header_bytes + size
    return Pages(tuple(heads), num_values, has_dictionary, is_compressed, digest)


def has_pages(read: Read, start: int, pages: Pages) -> bool:
    """Return whether the chunk at ``start`` has the headers of these pages at the same offsets."""
    digest = 0
    for offset, length in pages.heads:
        digest = crc32(read(start + offset, length), digest)
    return digest == pages.digest


def ensure_page_header(data: bytes) -> None:
    """Check that ``data`` begins with the header of a page.

    Raises:
        ThriftError: it does not.
    """

    def read(offset: int, length: int) -> bytes:
        return data[offset : offset + length]

    _read_header(read, 0, len(data))


@dataclass(slots=True)
class _Header:
    """The fields of a page header that this module uses.

    ``num_values`` comes from the field for the type of the data page.
    """

    kind: int | None = None
    size_bytes: int | None = None
    uncompressed_bytes: int | None = None
    num_values: dict[int, int] = field(default_factory=dict)


def _read_header(read: Read, offset: int, limit: int) -> tuple[_Header, int, bytes]:
    """Return a header, the length of the header, and the bytes that were read (maybe more)."""
    wanted = _HEADER_BYTES
    while True:
        data = read(offset, min(wanted, limit))
        reader = CompactReader(data)
        try:
            header = _parse_header(reader)
        except ThriftError:
            # If there were fewer bytes than wanted, there are no more to read.
            if len(data) < wanted or wanted >= _MAX_HEADER_BYTES:
                raise
            wanted *= 16
        else:
            return header, reader.position, data


def _parse_header(reader: CompactReader) -> _Header:
    """Read a header. Skip other fields such as statistics, because there are many headers."""
    header = _Header()
    for number, kind in reader.fields():
        if number == PageHeader.TYPE and kind == Kind.I32:
            header.kind = reader.read(kind)
        elif number == PageHeader.COMPRESSED_SIZE and kind == Kind.I32:
            header.size_bytes = reader.read(kind)
        elif number == PageHeader.UNCOMPRESSED_SIZE and kind == Kind.I32:
            header.uncompressed_bytes = reader.read(kind)
        elif number in _DATA_HEADERS and kind == Kind.STRUCT:
            for part, part_kind in reader.fields():
                if part == DataPageHeader.NUM_VALUES and part_kind == Kind.I32:
                    header.num_values[_DATA_HEADERS[number]] = reader.read(part_kind)
                else:
                    reader.skip(part_kind)
        else:
            reader.skip(kind)
    return header


def _count_values(header: _Header) -> int:
    count = header.num_values.get(header.kind or 0)
    if count is None or count < 0:
        raise ThriftError("a data page does not say how many values it has")
    return count
