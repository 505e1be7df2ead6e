"""A look at what a footer says of its column chunks, before anyone asks for one by one.

Arrow throws in C++ where the metadata of a chunk contradict themselves (a histogram of another
length, say). Where Python asks for ``row_group(i).column(j)`` nothing catches that, and the process
ends; where a reader is prepared, it becomes an error (seen with pyarrow 26).
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

_LEAST_BUFFER = 16


def ensure_sound_columns(metadata: pq.FileMetaData, size_bytes: int) -> None:
    """Refuse a footer that would end the process; reads nothing.

    Args:
        metadata: the footer.
        size_bytes: of the whole file.

    Raises:
        OSError: the metadata of a column chunk are broken.
    """
    source = _Unread(size_bytes)
    reader = pq.ParquetReader()
    reader.open(
        pa.PythonFile(source, mode="r"),
        use_memory_map=False,
        metadata=metadata,
        buffer_size=_LEAST_BUFFER,
    )
    for group in range(metadata.num_row_groups):
        source.was_asked = False
        try:
            # All chunks of the group are looked at before the first byte is asked for.
            next(reader.iter_batches(1, row_groups=[group], use_threads=False), None)
        except pa.ArrowNotImplementedError:
            continue  # a codec that this build lacks: that is for those to say who read rows
        except OSError:
            if not source.was_asked:
                raise
        _ensure_types(metadata, group)


def _ensure_types(metadata: pq.FileMetaData, group: int) -> None:
    """Refuse chunks of another type than their column: to ask for their statistics is the end."""
    schema, chunks = metadata.schema, metadata.row_group(group)
    for index in range(metadata.num_columns):
        stored, declared = chunks.column(index).physical_type, schema.column(index).physical_type
        if stored != declared:
            raise OSError(f"column {index} is declared as {declared} and stored as {stored}")


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
