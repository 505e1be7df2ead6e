"""Keep the rows of an exchange in memory, and above a limit in a file on disk."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import IO, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltactl.errors import StorageError
from deltactl.units import format_size

PLACE: Final = pa.field("place", pa.int64(), nullable=False)
"""The last column of rows on their way: their place at the destination."""

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class Spool:
    """Keeps rows and their places by destination; thread-safe. Leaving the block frees them.

    All rows beyond ``memory_bytes`` go to one file in ``folder``, as Arrow IPC streams compressed
    with lz4, one after another. The file has no name: the operating system removes it when the
    process ends, even if it is killed.
    """

    def __init__(
        self, schema: pa.Schema, destinations: int, memory_bytes: int, folder: str | None = None
    ) -> None:
        """Take the columns of the rows; ``folder`` is by default that for temporary files.

        ``schema``: the same columns, and ``PLACE``.
        """
        self.schema, self._memory_bytes = schema.append(PLACE), memory_bytes
        self.folder = folder or tempfile.gettempdir()
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.rows = np.zeros(destinations, np.int64)
        """The number of rows of each destination."""
        self.spilled_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free all rows."""
        self._held.clear()
        self._places.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(
        self,
        batch: pa.RecordBatch,
        destinations: npt.NDArray[np.int64],
        within: npt.NDArray[np.int64],
    ) -> None:
        """Take the rows of a batch; for each a destination, and its place there.

        Raises:
            StorageError: the disk is full, or failed.
        """
        self.keep(list(divide(batch, destinations, within)), int(batch.nbytes))

    def keep(self, pieces: Sequence[tuple[int, pa.RecordBatch]], size_bytes: int) -> None:
        """Take rows with their places by destination; together they have so many bytes.

        Raises:
            StorageError: the disk is full or failed.
        """
        with self._lock:
            for destination, piece in pieces:
                self._held.setdefault(destination, []).append(piece)
                self.rows[destination] += piece.num_rows
            self._held_bytes += size_bytes
            if self._held_bytes > self._memory_bytes:
                self._spill()

    def end_adding(self) -> None:
        """Spill all rows if some are spilled: the memory is for the rows to write from now on.

        Raises:
            StorageError: the disk is full, or failed.
        """
        with self._lock:
            if self._file is not None and self._held:
                self._spill()

    def take(self, destination: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a destination; rows in memory are freed.

        Raises:
            StorageError: the file cannot be read.
        """
        for offset, length in self._places.pop(destination, ()):
            yield from self._read(offset, length)
        with self._lock:
            held = self._held.pop(destination, [])
        yield from held

    def _read(self, offset: int, length: int) -> Iterator[pa.RecordBatch]:
        assert self._file is not None  # noqa: S101 - places are known only after a write
        try:
            data = os.pread(self._file.fileno(), length, offset)
        except OSError as error:
            raise self._failure("read", error) from error
        if len(data) != length:
            raise StorageError(f"the spill file in {self.folder!r} is shorter than was written")
        yield from decode_rows(data)

    def _spill(self) -> None:
        """Write all rows that are in memory to the end of the file."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115
            for destination in sorted(self._held):
                self._append(destination, self._held[destination])
        except OSError as error:
            raise self._failure("write", error) from error
        self._held.clear()
        self._held_bytes = 0

    def _append(self, destination: int, pieces: list[pa.RecordBatch]) -> None:
        assert self._file is not None  # noqa: S101 - opened by the caller
        data = memoryview(encode_rows(pieces, self.schema))
        offset, written = self.spilled_bytes, 0
        while written < len(data):
            written += os.pwrite(self._file.fileno(), data[written:], offset + written)
        self.spilled_bytes += written
        self._places.setdefault(destination, []).append((offset, written))

    def _failure(self, what: str, error: OSError) -> StorageError:
        return StorageError(
            f"cannot {what} the spill file in {self.folder!r}: {error.strerror or error}",
            hint="Choose a directory with more space with --spill-dir, then rerun.",
        )


def divide(
    batch: pa.RecordBatch,
    destinations: npt.NDArray[np.int64],
    within: npt.NDArray[np.int64],
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a batch and their places by destination, in ascending order of these.

    Rows of a destination are in the order of ``within``: a later sort then reads consecutive
    memory, which is faster than single rows.
    """
    order = _sort(destinations, within)
    ordered = destinations[order]
    rows = batch.append_column(PLACE, pa.array(within)).take(pa.array(order))
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
    for first, end in zip(firsts, [*firsts[1:], len(ordered)], strict=True):
        yield int(ordered[first]), rows.slice(first, end - first)


def _sort(
    destinations: npt.NDArray[np.int64], within: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the rows by destination, and about by place: what both have room for in 63 bits."""
    if not len(within):
        return np.empty(0, np.int64)
    bits, room = int(within.max()).bit_length(), 63 - int(destinations.max()).bit_length()
    keys = (destinations << min(bits, room)) | (within >> max(0, bits - room))
    return np.argsort(keys)


def encode_rows(pieces: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Buffer:
    """Return rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches(pieces, schema).combine_chunks()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as stream:
        stream.write_table(table)
    return sink.getvalue()


def decode_rows(data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        yield from stream


def ensure_space(folder: str | None, needed_bytes: int) -> None:
    """Refuse to begin if the disk for spilled rows is too small.

    Raises:
        StorageError: the message has the directory, the needed and the free space.
    """
    chosen = folder or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(chosen).free
    except OSError as error:
        raise StorageError(
            f"cannot use {chosen!r} for spilled rows: {error.strerror or error}",
            hint="Give an existing directory with --spill-dir.",
        ) from error
    if free < needed_bytes:
        raise StorageError(
            f"about {format_size(needed_bytes)} of rows may be spilled to {chosen!r}, "
            f"which has {format_size(free)} free",
            hint="Choose a directory with more space with --spill-dir, or rerun with more --memory "
            "or with --where for a part of the table.",
        )
