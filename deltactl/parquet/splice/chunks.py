"""Find the bytes of column chunks in a footer, and build the metadata of a chunk at a new place.

Source: parquet.thrift, ``ColumnChunk`` and the structs in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltactl.parquet.format import (
    MAGIC,
    BloomFilterHeader,
    ColumnChunk,
    ColumnMetaData,
    OffsetIndex,
    PageLocation,
)
from deltactl.parquet.splice.pages import Read
from deltactl.parquet.thrift import CompactReader, Kind, ThriftError, ThriftStruct, decode, encode

# More than the header of a Bloom filter needs.
_BLOOM_HEADER_BYTES: Final = 64
_NO_INDEXES: Final = frozenset({
    ColumnChunk.OFFSET_INDEX_OFFSET, ColumnChunk.OFFSET_INDEX_LENGTH,
    ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.COLUMN_INDEX_LENGTH,
})  # fmt: skip
_NO_BLOOM_FILTER: Final = frozenset({
    ColumnMetaData.BLOOM_FILTER_OFFSET, ColumnMetaData.BLOOM_FILTER_LENGTH,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive bytes of a file."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """Return the offset of the first byte after the span."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class Indexes:
    """The parts of a chunk that are not stored between its pages; ``None`` for missing parts."""

    column_index: bytes | None = None
    offset_index: ThriftStruct | None = None
    bloom_filter: bytes | None = None


def chunk_span(chunk: ThriftStruct) -> Span:
    """Return the range of bytes with the pages of a chunk.

    Raises:
        ThriftError: the metadata lack the place of the pages, or are inconsistent.
    """
    column = chunk.struct(ColumnChunk.META_DATA)
    data = column.integer(ColumnMetaData.DATA_PAGE_OFFSET)
    length = column.integer(ColumnMetaData.TOTAL_COMPRESSED_SIZE)
    if data is None or length is None or length < 0:
        raise ThriftError("a column chunk has no offset or no size")
    # Some writers store offset 0 if there is no dictionary page.
    dictionary = column.integer(ColumnMetaData.DICTIONARY_PAGE_OFFSET) or data
    start = min(data, dictionary)
    if start < len(MAGIC) or data > start + length:
        raise ThriftError("the offsets of a column chunk contradict each other")
    return Span(start, length)


def index_ranges(chunk: ThriftStruct) -> list[tuple[int, int]]:
    """Return (offset, length) of each byte range that ``read_indexes`` reads."""
    column = chunk.struct(ColumnChunk.META_DATA)
    parts = (
        (chunk, ColumnChunk.OFFSET_INDEX_OFFSET, ColumnChunk.OFFSET_INDEX_LENGTH),
        (chunk, ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.COLUMN_INDEX_LENGTH),
        (column, ColumnMetaData.BLOOM_FILTER_OFFSET, ColumnMetaData.BLOOM_FILTER_LENGTH),
    )
    ranges = ((struct.integer(start), struct.integer(length)) for struct, start, length in parts)
    return [
        (start, length)
        for start, length in ranges
        if start is not None and length is not None and start >= len(MAGIC) and length >= 0
    ]


def page_offsets(offset_index: ThriftStruct, span: Span) -> set[int]:
    """Return the offsets of the pages that the offset index of a chunk lists.

    Raises:
        ThriftError: a page is not inside the chunk.
    """
    offsets = set()
    for page in offset_index.structs(OffsetIndex.PAGE_LOCATIONS):
        offset = page.integer(PageLocation.OFFSET)
        size = page.integer(PageLocation.COMPRESSED_SIZE) or 0
        if offset is None or size < 0 or not span.start <= offset <= span.end - size:
            raise ThriftError("a page of an offset index is not inside its column chunk")
        offsets.add(offset)
    return offsets


def read_indexes(chunk: ThriftStruct, read: Read) -> Indexes:
    """Read the page indexes and the Bloom filter of a chunk.

    Raises:
        ThriftError: one of these is not valid.
    """
    column = chunk.struct(ColumnChunk.META_DATA)
    offsets = _read_part(
        chunk, ColumnChunk.OFFSET_INDEX_OFFSET, ColumnChunk.OFFSET_INDEX_LENGTH, read
    )
    bounds = _read_part(
        chunk, ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.COLUMN_INDEX_LENGTH, read
    )
    bloom_offset = column.integer(ColumnMetaData.BLOOM_FILTER_OFFSET)
    return Indexes(
        column_index=bounds,
        offset_index=None if offsets is None else decode(offsets),
        bloom_filter=None if bloom_offset is None else _read_bloom(column, bloom_offset, read),
    )


def relocate(chunk: ThriftStruct, shift: int) -> ThriftStruct:
    """Return the metadata of a chunk whose pages were copied ``shift`` bytes further.

    Page indexes and Bloom filter are omitted: ``place_indexes`` adds them.
    """
    moved = ThriftStruct(list(chunk.fields))
    moved.drop(_NO_INDEXES)
    column = ThriftStruct(list(chunk.struct(ColumnChunk.META_DATA).fields))
    column.drop(_NO_BLOOM_FILTER)
    moved.set(ColumnChunk.META_DATA, Kind.STRUCT, column)
    for number in (
        ColumnMetaData.DATA_PAGE_OFFSET,
        ColumnMetaData.INDEX_PAGE_OFFSET,
        ColumnMetaData.DICTIONARY_PAGE_OFFSET,
    ):
        offset = column.integer(number)
        # Some writers store 0 for a page that does not exist.
        if offset:
            column.set(number, Kind.I64, offset + shift)
    # This field is deprecated: 0 says that the metadata are in the footer only.
    moved.set(ColumnChunk.FILE_OFFSET, Kind.I64, 0)
    return moved


def place_indexes(chunk: ThriftStruct, indexes: Indexes, shift: int, position: int) -> bytes:
    """Return the bytes of indexes and Bloom filter, and set their offsets in the metadata.

    Args:
        chunk: the result of ``relocate``; this function changes it.
        indexes: the indexes as they were read from the source.
        shift: the number of bytes by which the pages moved.
        position: the offset at which the caller will write the bytes.
    """
    out = bytearray()
    column = chunk.struct(ColumnChunk.META_DATA)
    if indexes.bloom_filter is not None:
        column.set(ColumnMetaData.BLOOM_FILTER_OFFSET, Kind.I64, position)
        column.set(ColumnMetaData.BLOOM_FILTER_LENGTH, Kind.I32, len(indexes.bloom_filter))
        out += indexes.bloom_filter
    if indexes.column_index is not None:
        chunk.set(ColumnChunk.COLUMN_INDEX_OFFSET, Kind.I64, position + len(out))
        chunk.set(ColumnChunk.COLUMN_INDEX_LENGTH, Kind.I32, len(indexes.column_index))
        out += indexes.column_index
    if indexes.offset_index is not None:
        offsets = encode(_shift_pages(indexes.offset_index, shift))
        chunk.set(ColumnChunk.OFFSET_INDEX_OFFSET, Kind.I64, position + len(out))
        chunk.set(ColumnChunk.OFFSET_INDEX_LENGTH, Kind.I32, len(offsets))
        out += offsets
    return bytes(out)


def _shift_pages(offset_index: ThriftStruct, shift: int) -> ThriftStruct:
    for page in offset_index.structs(OffsetIndex.PAGE_LOCATIONS):
        offset = page.integer(PageLocation.OFFSET)
        if offset is None:
            raise ThriftError("a page of an offset index has no offset")
        page.set(PageLocation.OFFSET, Kind.I64, offset + shift)
    return offset_index


def _read_part(chunk: ThriftStruct, offset: int, length: int, read: Read) -> bytes | None:
    start, size = chunk.integer(offset), chunk.integer(length)
    if start is None or size is None:
        return None
    return _read_exactly(read, start, size)


def _read_bloom(column: ThriftStruct, start: int, read: Read) -> bytes:
    length = column.integer(ColumnMetaData.BLOOM_FILTER_LENGTH)
    if length is None:  # older writers do not store the length: the filter's own header gives it
        reader = CompactReader(read(start, _BLOOM_HEADER_BYTES))
        header: ThriftStruct = reader.read(Kind.STRUCT)
        length = reader.position + (header.integer(BloomFilterHeader.NUM_BYTES) or 0)
    return _read_exactly(read, start, length)


def _read_exactly(read: Read, start: int, length: int) -> bytes:
    if start < len(MAGIC) or length < 0:
        raise ThriftError("an index of a column chunk has an offset or size that is not valid")
    data = read(start, length)
    if len(data) != length:
        raise ThriftError("an index of a column chunk is beyond the end of the file")
    return data
