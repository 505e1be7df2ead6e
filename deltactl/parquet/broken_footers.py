"""Find invalid footers before their column chunks are read.

If the metadata of a chunk are inconsistent (for example, a histogram has a wrong length), Arrow
throws an exception in C++. In ``row_group(i).column(j)`` nothing catches this exception, and the
process ends. When Arrow prepares a reader, the exception becomes a Python error (seen with pyarrow
26). So this module prepares a reader first.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError
from deltactl.parquet.footer_bytes import Footer, broken_footer
from deltactl.parquet.format import FileMetaData
from deltactl.parquet.thrift import CompactReader, ThriftError

_ARROW_SCHEMA: Final = b"ARROW:schema"
_MIN_BUFFER_BYTES: Final = 16


def group_by_schema(footers: Sequence[Footer]) -> list[list[int]]:
    """Return the indices of footers, grouped by schema, in the order of each group's first footer.

    Parquet's comparison ignores names of groups. So the stored bytes up to the end of the schema
    are compared too, and the Arrow schema in the footer.
    """
    groups: list[tuple[Footer, bytes, bytes | None, list[int]]] = []
    for index, footer in enumerate(footers):
        metadata = footer.metadata
        schema = metadata.schema
        stored = (metadata.metadata or {}).get(_ARROW_SCHEMA)
        for known, head, known_stored, members in groups:
            if (
                footer.data.startswith(head)
                and stored == known_stored
                and schema.equals(known.metadata.schema)
            ):
                members.append(index)
                break
        else:
            groups.append((footer, _schema_bytes(footer.data), stored, [index]))
    return [members for *_, members in groups]


def _schema_bytes(data: bytes) -> bytes:
    """Return the bytes of a footer up to the end of its schema."""
    reader = CompactReader(data)
    try:
        for number, kind in reader.fields():
            reader.skip(kind)
            if number == FileMetaData.SCHEMA:
                return data[: reader.position]
    except ThriftError:
        pass  # Arrow accepts more: then no other footer has these bytes
    return data


def find_broken_footers(footers: Sequence[Footer]) -> dict[int, DataFileError]:
    """Return the index and the problem of each footer that has invalid columns.

    Args:
        footers: footers with the same schema. To check many footers together takes an eighth of the
            time that single checks take.
    """
    metadata = [footer.metadata for footer in footers]
    sizes = [footer.size_bytes for footer in footers]
    try:
        first = footers[0].parse_again() if len(footers) > 1 else None
        ensure_valid_columns(metadata, sizes, first)
    except (pa.ArrowException, OSError) as error:
        if len(footers) == 1:
            return {0: broken_footer(error)}
        alone = (find_broken_footers([footer]) for footer in footers)
        return {index: found[0] for index, found in enumerate(alone) if found}
    return {}


def ensure_valid_columns(
    footers: Sequence[pq.FileMetaData],
    sizes: Sequence[int],
    first: pq.FileMetaData | None = None,
) -> None:
    """Raise an error for footers that would end the process. Read no data.

    Args:
        footers: footers with the same schema.
        sizes: the sizes of their files, in bytes.
        first: a copy of the first footer; the row groups of all others are added to it. If it is
            ``None``, each footer is checked alone.

    Raises:
        OSError: the metadata of a column chunk are not valid.
    """
    for footer in footers if first is None else _join(first, footers):
        _ensure_valid_chunks(footer, max(sizes))
    _ensure_types_and_offsets(footers, sizes)


def _join(first: pq.FileMetaData, footers: Sequence[pq.FileMetaData]) -> Sequence[pq.FileMetaData]:
    """Return one footer with the row groups of all footers, or ``footers`` if schemas differ."""
    try:
        for footer in footers[1:]:
            first.append_row_groups(footer)
    except RuntimeError:  # the footers differ in field ids, for example
        return footers
    return [first]


def _ensure_valid_chunks(footer: pq.FileMetaData, size_bytes: int) -> None:
    if not footer.num_row_groups:
        return
    source = _UnreadFile(size_bytes)
    reader = pq.ParquetReader()
    reader.open(
        pa.PythonFile(source, mode="r"),
        use_memory_map=False,
        metadata=footer,
        buffer_size=_MIN_BUFFER_BYTES,
        pre_buffer=True,
    )
    try:
        # To plan its requests, Arrow checks all chunks before it reads the first byte.
        groups = range(footer.num_row_groups)
        next(reader.iter_batches(1, row_groups=groups, use_threads=False), None)
    except pa.ArrowNotImplementedError:
        pass  # a codec that this build of Arrow lacks: reported when rows are read
    except OSError:
        if not source.was_read:
            raise


def _ensure_types_and_offsets(footers: Sequence[pq.FileMetaData], sizes: Sequence[int]) -> None:
    """Refuse chunks whose type is not that of their column: their statistics would end the process.

    Also refuse chunks beyond the end of their file: Arrow compares only with the largest file.
    """
    schema = footers[0].schema
    declared = [schema.column(index).physical_type for index in range(footers[0].num_columns)]
    for footer, size_bytes in zip(footers, sizes, strict=True):
        for group in range(footer.num_row_groups):
            chunks = footer.row_group(group)
            for index, kind in enumerate(declared):
                chunk = chunks.column(index)
                stored = chunk.physical_type
                if stored != kind:
                    raise OSError(f"column {index} is declared as {kind} and stored as {stored}")
                start = chunk.data_page_offset
                dictionary = chunk.dictionary_page_offset
                if dictionary and dictionary < start:
                    start = dictionary
                if start < 0 or start + chunk.total_compressed_size > size_bytes:
                    raise OSError(f"column {index} is beyond the end of the file")


class _UnreadFile(io.RawIOBase):
    """A file that has a size and no content; ``was_read`` is true after a read."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._position = 0
        self.was_read = False

    def readable(self) -> bool:
        """Return True; pyarrow requires it."""
        return True

    def seekable(self) -> bool:
        """Return True; pyarrow requires it."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position and return it."""
        self._position = (0, self._position, self._size_bytes)[whence] + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return no bytes."""
        self.was_read = True
        return b""
