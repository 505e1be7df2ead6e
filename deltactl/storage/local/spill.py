"""Keep rows in memory, by number; above a limit, keep them in a file on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import IO, Final, NoReturn, Self

import pyarrow as pa

from deltactl.errors import StorageError
from deltactl.storage.local.row_streams import decode_rows, encode_rows
from deltactl.units import format_size

TMPDIR_HINT: Final = "Set TMPDIR to a directory with more space, then rerun."
"""The hint in errors of commands that have no option for the directory."""


class Spill:
    """Keeps rows by number, in the order in which they are added. Thread-safe.

    At the end of a ``with`` block, the rows are freed. All rows beyond ``memory_bytes`` go to one
    file in ``folder``, as Arrow IPC streams, one after another. The file has no name: the operating
    system removes it when the process ends, even if the process is killed.
    """

    def __init__(
        self,
        schema: pa.Schema,
        memory_bytes: int,
        folder: str | None = None,
        *,
        hint: str = TMPDIR_HINT,
    ) -> None:
        """Keep rows with the columns of ``schema``.

        ``folder`` is by default the directory for temporary files. ``hint`` says in errors how to
        get more space.
        """
        self.schema, self._memory_bytes = schema, memory_bytes
        self._folder, self.hint = folder, hint
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._held_bytes = 0
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._file: IO[bytes] | None = None
        self._leaving_bytes = 0  # rows that are written to the file: their memory is not free yet
        self._lock = threading.Lock()
        self._written = threading.Condition(self._lock)
        self.spilled_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Close the file if the owner never calls ``close``, such as a version of a table."""
        if self._file is not None:
            self._file.close()

    def __reduce__(self) -> NoReturn:
        """Refuse a copy for another process: it would not have the file."""
        raise TypeError("rows in memory or in a temporary file cannot be copied or pickled")

    @property
    def folder(self) -> str:
        """Return the directory of the file."""
        return _folder_of(self._folder)

    def close(self) -> None:
        """Free all rows."""
        self._held.clear()
        self._places.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def keep(self, pieces: Sequence[tuple[int, pa.RecordBatch]], size_bytes: int) -> None:
        """Add pieces of rows, each with its number; ``size_bytes`` is their total size.

        Raises:
            StorageError: the disk is too small, full or failed.
        """
        with self._lock:
            for number, piece in pieces:
                self._held.setdefault(number, []).append(piece)
            self._held_bytes += size_bytes
            # Otherwise threads could add rows faster than the disk can store them.
            while self._leaving_bytes and self._is_full():
                self._written.wait()
            leaving = self._leave() if self._is_full() else {}
        if leaving:
            self._spill(leaving)

    def _is_full(self) -> bool:
        """Return whether too many rows are in memory.

        If there is a file, half of the memory is for rows that are added while others are written.
        """
        if self._held_bytes + self._leaving_bytes > self._memory_bytes:
            return True
        return (
            self._file is not None
            and not self._leaving_bytes
            and self._held_bytes > self._memory_bytes // 2
        )

    def _leave(self) -> dict[int, list[pa.RecordBatch]]:
        """Return all rows that are in memory; the caller writes them to the file."""
        leaving, self._held = self._held, {}
        self._leaving_bytes, self._held_bytes = self._held_bytes, 0
        return leaving

    def end_adding(self) -> None:
        """If some rows are in the file, write all others to it too, to free memory for other work.

        Raises:
            StorageError: the disk is too small, full or failed.
        """
        with self._lock:
            leaving = self._leave() if self._file is not None else {}
        if leaving:
            self._spill(leaving)

    def read(self, number: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a number, with the given columns or all; keep the rows.

        Columns are in the order of the schema.

        Raises:
            StorageError: the file cannot be read.
        """
        chosen = [name for name in self.schema.names if columns is None or name in columns]
        fields = None if columns is None else [self.schema.names.index(it) for it in chosen]
        for offset, length in self._places.get(number, ()):
            yield from self._read(offset, length, fields)
        for batch in self._held.get(number, ()):
            yield batch.select(chosen)

    def take(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a number, and free those of them that are in memory.

        Raises:
            StorageError: the file cannot be read.
        """
        for offset, length in self._places.pop(number, ()):
            yield from self._read(offset, length)
        with self._lock:
            held = self._held.pop(number, [])
        yield from held

    def _read(
        self, offset: int, length: int, fields: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        assert self._file is not None  # noqa: S101 - places are known only after a write
        # Memory of Arrow, which is used again: that of ``bytes`` is returned to the kernel.
        data = pa.allocate_buffer(length)
        rest = memoryview(data)
        try:
            while rest:
                # With an offset: threads that read at the same time share the position.
                count = os.preadv(self._file.fileno(), [rest], offset + length - len(rest))
                if not count:
                    raise StorageError(
                        f"the spill file in {self.folder!r} is shorter than what was written to it"
                    )
                rest = rest[count:]
        except OSError as error:
            raise self._failure("read", error) from error
        yield from decode_rows(data, fields)

    def _spill(self, leaving: dict[int, list[pa.RecordBatch]]) -> None:
        """Write rows to the end of the file. Meanwhile, other threads may add rows."""
        try:
            ensure_space(self._folder, self._leaving_bytes, hint=self.hint)
            if self._file is None:
                import tempfile  # not needed by most runs, whose rows fit the memory

                self._file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115
            for number in sorted(leaving):
                self._append(number, leaving[number])
        except OSError as error:
            raise self._failure("write", error) from error
        finally:
            # First, because the threads that wait will use this memory.
            leaving.clear()
            with self._lock:
                self._leaving_bytes = 0
                self._written.notify_all()

    def _append(self, number: int, pieces: list[pa.RecordBatch]) -> None:
        assert self._file is not None  # noqa: S101 - opened by the caller
        rest = memoryview(encode_rows(pieces, self.schema))
        self._places.setdefault(number, []).append((self.spilled_bytes, len(rest)))
        while rest:  # the kernel may write only some of the bytes
            written = os.pwrite(self._file.fileno(), rest, self.spilled_bytes)
            self.spilled_bytes += written
            rest = rest[written:]

    def _failure(self, what: str, error: OSError) -> StorageError:
        return StorageError(
            f"cannot {what} the spill file in {self.folder!r}: {error.strerror or error}",
            hint=self.hint,
        )


def _folder_of(folder: str | None) -> str:
    if folder is not None:
        return folder
    import tempfile

    return tempfile.gettempdir()


def ensure_space(folder: str | None, needed_bytes: int, *, hint: str = TMPDIR_HINT) -> None:
    """Raise an error if the disk has less free space than ``needed_bytes``.

    Raises:
        StorageError: the message has the directory, the needed and the free space.
    """
    import shutil

    chosen = _folder_of(folder)
    try:
        free = shutil.disk_usage(chosen).free
    except OSError as error:
        raise StorageError(
            f"cannot use {chosen!r} for spilled rows: {error.strerror or error}", hint=hint
        ) from error
    if free < needed_bytes:
        raise StorageError(
            f"this run may have to spill about {format_size(needed_bytes)} of rows to {chosen!r}, "
            f"which has only {format_size(free)} free",
            hint=hint,
        )
