"""A look at what a footer says of its column chunks, before anyone asks for one by one.

Arrow throws in C++ where the metadata of a chunk contradict themselves (a histogram of another
length, say). Where Python asks for ``row_group(i).column(j)`` nothing catches that, and the process
ends; where a reader is prepared, it becomes an error (seen with pyarrow 26).
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

_LEAST_BUFFER = 16
_NOWHERE = 1 << 63


def ensure_sound_columns(
    footers: Sequence[pq.FileMetaData],
    sizes: Sequence[int],
    first: pq.FileMetaData | None = None,
) -> None:
    """Refuse footers that would end the process; reads nothing.

    Args:
        footers: of one schema. Looked at together, each costs an eighth of what it costs alone.
        sizes: of the files, in bytes.
        first: a copy of the first footer, which takes the row groups of all others; without it
            each is looked at alone.

    Raises:
        OSError: the metadata of a column chunk are broken.
    """
    for footer in footers if first is None else _join(first, footers):
        _ensure_sound_chunks(footer, max(sizes))
    _ensure_types_and_places(footers, sizes)


def _join(first: pq.FileMetaData, footers: Sequence[pq.FileMetaData]) -> Sequence[pq.FileMetaData]:
    """One footer with the row groups of all, where Arrow finds their schemas the same."""
    try:
        for footer in footers[1:]:
            first.append_row_groups(footer)
    except RuntimeError:  # they differ in field ids, say
        return footers
    return [first]


def _ensure_sound_chunks(footer: pq.FileMetaData, size_bytes: int) -> None:
    if not footer.num_row_groups:
        return
    source = _Unread(size_bytes)
    reader = pq.ParquetReader()
    reader.open(
        pa.PythonFile(source, mode="r"),
        use_memory_map=False,
        metadata=footer,
        buffer_size=_LEAST_BUFFER,
        pre_buffer=True,
    )
    try:
        # To find out what to fetch ahead, all chunks are looked at before the first byte is asked.
        groups = range(footer.num_row_groups)
        next(reader.iter_batches(1, row_groups=groups, use_threads=False), None)
    except pa.ArrowNotImplementedError:
        pass  # a codec that this build lacks: that is for those to say who read rows
    except OSError:
        if not source.was_asked:
            raise


def _ensure_types_and_places(footers: Sequence[pq.FileMetaData], sizes: Sequence[int]) -> None:
    """Refuse chunks of another type than their column: to ask for their statistics is the end.

    And those that lie beyond the end of their own file, which Arrow compared with the largest.
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
                start = min(chunk.data_page_offset, chunk.dictionary_page_offset or _NOWHERE)
                if start < 0 or start + chunk.total_compressed_size > size_bytes:
                    raise OSError(f"column {index} lies beyond the end of the file")


class _Unread(io.RawIOBase):
    """A file of a size, that notes when it is read."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._position = 0
        self.was_asked = False

    def readable(self) -> bool:
        """It seems so."""
        return True

    def seekable(self) -> bool:
        """It seems so."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        self._position = (0, self._position, self._size_bytes)[whence] + offset
        return self._position

    def tell(self) -> int:
        """The place."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Nothing."""
        self.was_asked = True
        return b""
