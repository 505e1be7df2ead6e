"""Reading a file's footer with as few requests as can be: one, where the footer is of usual size.

Source: the Parquet format, "File format" and "Modular encryption".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError, first_line
from deltactl.parquet.fixed_bounds import ensure_fixed_bounds
from deltactl.parquet.footer_garbage import count_footer
from deltactl.parquet.format import ENCRYPTED_MAGIC, END_BYTES, MAGIC
from deltactl.parquet.thrift import ThriftError
from deltactl.storage.store import Store

TAIL_BYTES: Final = 64 << 10
_SIGNATURE_BYTES: Final = 28  # behind a footer that is not encrypted itself, where columns are


@dataclass(frozen=True, slots=True)
class Footer:
    """A footer: what Arrow made of it, and as it is stored, with its length and the magic.

    ``size_bytes`` are those of its file.
    """

    metadata: pq.FileMetaData
    data: bytes = field(repr=False)
    size_bytes: int

    def parse_again(self) -> pq.FileMetaData:
        """A copy. Not by way of Arrow's own writing, which ends the process on some footers."""
        return _parse(self.data)


def parse_footer(store: Store, name: str, size_bytes: int, tail: bytes | None = None) -> Footer:
    """The footer of a Parquet file; nobody may ask for its columns before ``find_unsound``.

    Args:
        store: where it lies.
        name: in that store.
        size_bytes: of the whole file.
        tail: its last ``TAIL_BYTES``, or all of it, where somebody has them already.

    Raises:
        DataFileError: it is no Parquet file, or a broken or encrypted one; says which.
        StorageError: the store failed.
    """
    if size_bytes == 0:
        raise DataFileError("is empty (0 bytes)")
    if tail is None:
        tail = _read_end(store, name, size_bytes, TAIL_BYTES)
    if tail[-4:] == ENCRYPTED_MAGIC:
        raise DataFileError("is encrypted")
    if tail[-4:] != MAGIC or len(tail) < END_BYTES + len(MAGIC):
        raise DataFileError("is not a Parquet file, or was not written to its end")
    needed = int.from_bytes(tail[-8:-4], "little") + END_BYTES
    if needed > size_bytes - len(MAGIC):
        raise DataFileError("is broken: its footer is longer than the file")
    if needed > len(tail):
        tail = _read_end(store, name, size_bytes, needed)
    footer = Footer(_parse(tail[-needed:]), tail[-needed:], size_bytes)
    count_footer(footer.metadata)
    try:
        ensure_fixed_bounds(footer.metadata, footer.data[:-END_BYTES])
    except (pa.ArrowException, OSError, ThriftError) as error:
        raise broken_footer(error) from error
    if needed - END_BYTES - footer.metadata.serialized_size == _SIGNATURE_BYTES:
        raise DataFileError("is encrypted in part: its footer is signed")
    return footer


def _parse(data: bytes) -> pq.FileMetaData:
    # pq.read_metadata does the same, then prepares reading nested columns: half as fast. What
    # pickle calls for metadata is faster still, but a broken footer ends the process there.
    reader = pq.ParquetReader()
    try:
        reader.open(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise broken_footer(error) from error
    return reader.metadata


def broken_footer(error: Exception) -> DataFileError:
    """What is wrong with a footer that Arrow could not read."""
    return DataFileError(f"is broken: {first_line(error) or type(error).__name__}")


def _read_end(store: Store, name: str, size_bytes: int, length: int) -> bytes:
    length = min(length, size_bytes)
    (data,) = store.read_ranges(name, [(size_bytes - length, length)])
    return data
