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
from deltactl.parquet.fixed_bounds import ensure_fixed_bounds, find_unusual_lengths
from deltactl.parquet.footer_bytes import Footer, broken_footer
from deltactl.parquet.format import END_BYTES, FileMetaData
from deltactl.parquet.thrift import CompactReader, ThriftError

_ARROW_SCHEMA: Final = b"ARROW:schema"
_MIN_BUFFER_BYTES: Final = 16


class SchemaGroup:
    """The footers of a batch that have one schema. Keeps the first footer of all batches."""

    def __init__(self, first: Footer) -> None:
        self.schema: pq.ParquetSchema = first.metadata.schema
        self.members: list[int] = []
        self._first = first
        self._head = _schema_bytes(first.data)
        self._arrow_schema = _arrow_schema(first)
        self._types = _list_types(self.schema)
        self._fixed_lengths = find_unusual_lengths(self.schema)
        self._joined: pq.FileMetaData | None = None

    def begin(self) -> None:
        """Begin a batch."""
        self.members, self._joined = [], None

    def take(self, index: int, footer: Footer) -> bool:
        """Add a footer of the batch if it has this schema; return whether it has.

        Arrow compares schemas when it joins footers, but ignores names of groups. So the stored
        bytes up to the end of the schema are compared too, and the Arrow schema in the footer.
        """
        if footer is not self._first:
            same_bytes = footer.data.startswith(self._head)
            if not same_bytes or _arrow_schema(footer) != self._arrow_schema:
                return False
            # A copy, because row groups are appended to it.
            joined = self._joined or self._first.parse_again()
            try:
                joined.append_row_groups(footer.metadata)
            except RuntimeError:  # the footers differ in field ids, for example
                return False
            self._joined = joined
        self.members.append(index)
        return True

    def find_broken(self, footers: Sequence[Footer]) -> dict[int, DataFileError]:
        """Return the index and the problem of each member that has invalid columns.

        To check many footers together takes an eighth of the time that single checks take.
        """
        found: dict[int, DataFileError] = {}
        joined = self._first.metadata if self._joined is None else self._joined
        # The joined footer has chunks of all files, and is checked against one size.
        largest = max(footer.size_bytes for footer in (self._first, *footers))
        are_valid = _has_valid_chunks(joined, largest)
        for index in self.members:
            footer = footers[index]
            try:
                if not are_valid:
                    _ensure_valid_chunks(footer.metadata, footer.size_bytes)
                _ensure_types_and_offsets(footer.metadata, self._types, footer.size_bytes)
                ensure_fixed_bounds(footer.data[:-END_BYTES], self._fixed_lengths)
            except (pa.ArrowException, OSError, ThriftError) as error:
                found[index] = broken_footer(error)
        return found


class SchemaGroups:
    """Group footers by schema, batch by batch."""

    def __init__(self) -> None:
        self._groups: list[SchemaGroup] = []

    def split(self, footers: Sequence[Footer]) -> list[SchemaGroup]:
        """Return the groups that a batch has, in the order in which they were found."""
        for group in self._groups:
            group.begin()
        for index, footer in enumerate(footers):
            if not any(group.take(index, footer) for group in self._groups):
                self._groups.append(SchemaGroup(footer))
                self._groups[-1].take(index, footer)
        return [group for group in self._groups if group.members]


def find_broken_footers(footers: Sequence[Footer]) -> dict[int, DataFileError]:
    """Return the index and the problem of each footer that has invalid columns."""
    found: dict[int, DataFileError] = {}
    for group in SchemaGroups().split(footers):
        found |= group.find_broken(footers)
    return found


def ensure_valid_columns(footer: pq.FileMetaData, size_bytes: int) -> None:
    """Raise an error for a footer that would end the process. Read no data.

    Raises:
        OSError: the metadata of a column chunk are not valid.
    """
    _ensure_valid_chunks(footer, size_bytes)
    _ensure_types_and_offsets(footer, _list_types(footer.schema), size_bytes)


def _arrow_schema(footer: Footer) -> bytes | None:
    return (footer.metadata.metadata or {}).get(_ARROW_SCHEMA)


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


def _list_types(schema: pq.ParquetSchema) -> list[str]:
    return [schema.column(index).physical_type for index in range(len(schema))]


def _has_valid_chunks(footer: pq.FileMetaData, size_bytes: int) -> bool:
    try:
        _ensure_valid_chunks(footer, size_bytes)
    except (pa.ArrowException, OSError):
        return False
    return True


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
        # After a read, the error is that of the missing content; before it, that of the metadata.
        if not source.was_read:
            raise


def _ensure_types_and_offsets(
    footer: pq.FileMetaData, types: Sequence[str], size_bytes: int
) -> None:
    """Refuse chunks whose type is not that of their column: their statistics would end the process.

    Also refuse chunks beyond the end of their file: Arrow compares only with the largest file.
    """
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column
        for index, kind in enumerate(types):
            chunk = column(index)
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
