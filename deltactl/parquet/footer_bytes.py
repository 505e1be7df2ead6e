"""Read a Parquet footer, in one request if it has the usual size; free the memory of old footers.

Source: the Parquet format, "File format" and "Modular encryption".
"""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError, first_line
from deltactl.parquet.format import ENCRYPTED_MAGIC, END_BYTES, MAGIC
from deltactl.storage.store import Store

# Most footers are shorter, and are read with one request.
TAIL_BYTES: Final = 64 << 10
_SIGNATURE_BYTES: Final = 28  # after the plain footer of a file with encrypted columns

MAX_WAITING_BYTES: Final = 8 << 20
"""The stored size of footers that may wait for the garbage collector.

In memory, footers need ten times as much. After the schema of a footer is read, footer and schema
reference each other, so only Python's cyclic garbage collector frees them. The collector counts
objects, not bytes, and ``cli/app.py`` makes it run rarely. So gigabytes of footers of a wide table
could otherwise wait for it.
"""


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer as Arrow parsed it, and its bytes as they are stored, with length and magic.

    ``size_bytes`` is the size of the file of the footer.
    """

    metadata: pq.FileMetaData
    data: bytes = field(repr=False)
    size_bytes: int

    def parse_again(self) -> pq.FileMetaData:
        """Return a copy of the parsed footer.

        This parses the bytes again. It does not use Arrow's writer, because some footers make the
        writer end the process.
        """
        return _parse(self.data)


def parse_footer(store: Store, name: str, size_bytes: int, tail: bytes | None = None) -> Footer:
    """Return the footer of a Parquet file; call ``find_broken_footers`` before you read columns.

    Args:
        store: the store of the file.
        name: the file's name in that store.
        size_bytes: size of the whole file.
        tail: the last ``TAIL_BYTES`` of the file, or the whole file, if they were already read.

    Raises:
        DataFileError: the file is not Parquet, broken or encrypted; the message says which of
            these.
        StorageError: the store failed.
    """
    footer = parse_footer_bytes(read_footer_bytes(store, name, size_bytes, tail), size_bytes)
    count_footer(footer.metadata)
    return footer


def read_footer_bytes(store: Store, name: str, size_bytes: int, tail: bytes | None = None) -> bytes:
    """Return the footer of a Parquet file as it is stored, with its length and the magic.

    Arguments and errors are those of :func:`parse_footer`.
    """
    if size_bytes == 0:
        raise DataFileError("is empty (0 bytes)")
    if tail is None:
        tail = _read_end(store, name, size_bytes, TAIL_BYTES)
    if tail[-4:] == ENCRYPTED_MAGIC:
        raise DataFileError("is encrypted")
    if tail[-4:] != MAGIC or len(tail) < END_BYTES + len(MAGIC):
        raise DataFileError("is not a Parquet file, or is truncated")
    needed = int.from_bytes(tail[-8:-4], "little") + END_BYTES
    if needed > size_bytes - len(MAGIC):
        raise DataFileError("is broken: its footer is longer than the file")
    if needed > len(tail):
        tail = _read_end(store, name, size_bytes, needed)
    return tail[-needed:]


def parse_footer_bytes(data: bytes, size_bytes: int) -> Footer:
    """Return a footer from its bytes; call ``find_broken_footers`` before you read columns.

    Unlike ``parse_footer``, this is for callers that never read the schema of the footer.

    Raises:
        DataFileError: the footer is broken, or the file is partly encrypted.
    """
    footer = Footer(_parse(data), data, size_bytes)
    if len(data) - END_BYTES - footer.metadata.serialized_size == _SIGNATURE_BYTES:
        raise DataFileError("is encrypted in part: its footer is signed")
    return footer


def _parse(data: bytes) -> pq.FileMetaData:
    # pq.read_metadata also prepares to read nested columns, and takes twice as long. The function
    # that pickle uses is faster, but a broken footer makes it end the process.
    reader = pq.ParquetReader()
    try:
        reader.open(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise broken_footer(error) from error
    return reader.metadata


def broken_footer(error: Exception) -> DataFileError:
    """Return the error for a footer that Arrow cannot read."""
    return DataFileError(f"is broken: {first_line(error) or type(error).__name__}")


def _read_end(store: Store, name: str, size_bytes: int, length: int) -> bytes:
    size_bytes = max(size_bytes, 0)  # the log may have any number as the size
    length = min(length, size_bytes)
    (data,) = store.read_ranges(name, [(size_bytes - length, length)])
    if len(data) < length:
        raise DataFileError(f"has fewer than the {size_bytes:,} bytes that it should have")
    return data


class _Waiting:
    """The total size of the footers that may wait for the garbage collector."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0

    def add(self, size_bytes: int) -> bool:
        """Add a size; return whether the limit is reached. If it is, start again at zero."""
        with self._lock:
            self._bytes += size_bytes
            if self._bytes < MAX_WAITING_BYTES:
                return False
            self._bytes = 0
            return True


_waiting = _Waiting()


def count_footer(footer: pq.FileMetaData) -> None:
    """Count a footer whose schema will be read. When the limit is reached, free earlier footers."""
    if _waiting.add(footer.serialized_size):
        gc.collect()
