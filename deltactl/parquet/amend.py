"""Amend a Parquet footer that Arrow wrote, so that readers interpret it correctly.

With two properties of such a footer, queries of Spark on floats lose rows:

- Bounds exclude NaN, but in Spark NaN is greater than all other values: ``x > 5`` skips row groups
  that contain NaN. The writer of Spark writes no bounds in this case.
- In a column with dictionary pages only, Spark looks up ``x = 0`` in the dictionary, where -0.0 is
  not 0.0. Spark does this only if the footer has counts of pages by encoding; without them, there
  can be other pages.

One annotation is missing: only the schema of the table shows that a group of two binaries is a
variant.

Arrow has no options for these changes. So this module decodes the footer, which is at the end of
the file, and writes it again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, BinaryIO, Final

from deltactl.errors import DataFileError
from deltactl.parquet.format import (
    BOUNDS,
    END_BYTES,
    MAGIC,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
    SchemaElement,
)
from deltactl.parquet.thrift import Kind, ThriftError, ThriftStruct, decode, encode

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_COLUMN_INDEX: Final = frozenset({ColumnChunk.COLUMN_INDEX_OFFSET, ColumnChunk.COLUMN_INDEX_LENGTH})

# LogicalType.VARIANT, with version 1 of its specification.
_VARIANT: Final = ThriftStruct([(16, Kind.STRUCT, ThriftStruct([(1, Kind.BYTE, b"\x01")]))])


def amend_footer(
    tail: bytes,
    *,
    unbounded: Set[int] = frozenset(),
    opaque: Set[int] = frozenset(),
    variants: Set[tuple[str, ...]] = frozenset(),
) -> bytes:
    """Return the end of a Parquet file with an amended footer.

    Args:
        tail: the last bytes of the file, with the whole footer.
        unbounded: indexes of leaf columns whose bounds and column index are removed.
        opaque: indexes of leaf columns whose counts of pages by encoding are removed.
        variants: paths of groups to annotate as variants.

    Raises:
        DataFileError: ``tail`` has no valid footer.
    """
    if len(tail) < END_BYTES or tail[-len(MAGIC) :] != MAGIC:
        raise DataFileError("the Parquet file does not end in a footer")
    start = len(tail) - END_BYTES - int.from_bytes(tail[-END_BYTES : -len(MAGIC)], "little")
    try:
        footer = decode(tail[max(start, 0) : -END_BYTES])
    except ThriftError as error:
        raise DataFileError(f"the Parquet footer is not valid: {error}") from error
    for group in footer.members(FileMetaData.ROW_GROUPS):
        for index, chunk in enumerate(group.members(RowGroup.COLUMNS)):
            column = chunk.struct(ColumnChunk.META_DATA)
            if index in unbounded:
                # The column index has bounds of pages, which exclude NaN too.
                chunk.drop(_COLUMN_INDEX)
                column.struct(ColumnMetaData.STATISTICS).drop(BOUNDS)
            if index in opaque:
                column.drop({ColumnMetaData.ENCODING_STATS})
    _annotate(iter(footer.members(FileMetaData.SCHEMA)), None, variants)
    amended = encode(footer)
    return tail[:start] + amended + len(amended).to_bytes(4, "little") + MAGIC


def _annotate(
    elements: Iterator[ThriftStruct], parent: tuple[str, ...] | None, variants: Set[tuple[str, ...]]
) -> None:
    """Annotate the next element of a schema, and all elements below it.

    The elements are stored depth first. ``parent`` is the path of the element's parent; paths do
    not contain the root.
    """
    element = next(elements, ThriftStruct())
    name = (element.get(SchemaElement.NAME) or b"").decode(errors="replace")
    path = () if parent is None else (*parent, name)
    if path in variants:
        element.set(SchemaElement.LOGICAL_TYPE, Kind.STRUCT, _VARIANT)
    for _ in range(element.get(SchemaElement.NUM_CHILDREN) or 0):
        _annotate(elements, path, variants)


class HeldSink(io.RawIOBase):
    """A sink that passes bytes on until ``hold`` is called, and keeps bytes after that."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._held: bytearray | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Pass bytes on, or keep them."""
        if self._held is None:
            return self._sink.write(data)
        self._held += data
        return memoryview(data).nbytes

    def hold(self) -> None:
        """Keep the bytes that are written from now on."""
        self._held = bytearray()

    def release(self) -> bytes:
        """Return the kept bytes."""
        return bytes(self._held or b"")
