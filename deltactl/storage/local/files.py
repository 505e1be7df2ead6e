"""Read single files of a local file system, and write them durably."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from deltactl.storage.errors import map_error, mapped_errors

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TEMP_PREFIX: Final = ".deltactl-"
TEMP_SUFFIX: Final = ".tmp"
_TEMP_NAME: Final = re.compile(rf"{re.escape(TEMP_PREFIX)}[0-9a-f]{{32}}{re.escape(TEMP_SUFFIX)}")
# The default of Python, 8 KiB, would need many more calls of the kernel.
_BUFFER_BYTES: Final = 1 << 20
_EARLY_BYTES: Final = 16 << 20  # so that the flush at the end has little left to write
_READ: Final = os.O_RDONLY | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def temp_path(directory: str) -> str:
    """Return a new hidden path in ``directory``; it is short, so that names of any length fit."""
    return f"{directory}/{TEMP_PREFIX}{uuid.uuid4().hex}{TEMP_SUFFIX}"


def is_temp_name(name: str) -> bool:
    """Return whether ``temp_path`` made this name: its write is in progress, or was killed."""
    return _TEMP_NAME.fullmatch(name.rpartition("/")[2]) is not None


def write_new(path: str, data: bytes, *, durable: bool = True) -> None:
    """Create ``path``, which must not exist, with ``data``; return when the content is durable.

    With ``durable=False``, only start to write the content to the disk; ``sync_file`` makes it
    durable.
    """
    descriptor = open_new(path)
    try:
        write_all(descriptor, data)
        if durable:
            os.fsync(descriptor)
        else:
            begin_sync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes: one call of the kernel may write only some of them."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def begin_sync(descriptor: int) -> None:
    """Start to write the content of a file to the disk; ``sync_file`` waits for the end."""
    if hasattr(os, "posix_fadvise"):
        # Linux begins to write changed pages when it is told that they are not needed soon.
        with suppress(OSError):  # only advice; not every file system accepts it
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


_SYNC_FILE_RANGE_WRITE: Final = 2


def start_writing(descriptor: int) -> bool:
    """Start to write the content of a file to the disk; return whether the kernel supports this.

    Unlike ``begin_sync``, this keeps the content in the cache, because the file is read again.
    """
    start = _find_sync_file_range()
    return start is not None and start(descriptor, 0, 0, _SYNC_FILE_RANGE_WRITE) == 0


@cache
def _find_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return a function of the C library of Linux that Python does not offer, or ``None``."""
    if sys.platform != "linux":
        return None
    import ctypes

    try:
        found = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError):  # pragma: no cover - another C library
        return None
    found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


def open_new(path: str) -> int:
    """Return a descriptor that writes to ``path``, which must not exist."""
    return os.open(path, _CREATE, 0o666)


def open_to_read(path: str) -> int:
    """Return a descriptor that reads ``path``."""
    return os.open(path, _READ)


def sync_file(path: str) -> None:
    """Sync the content of a file that ``write_new`` wrote with ``durable=False``."""
    # Opened again, because a process cannot keep thousands of files open (ADR 19).
    descriptor = os.open(path, _READ)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Sync the entries of a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no fsync for directories: the server makes entries durable.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


class DurableWriter(io.BufferedWriter):
    """A new file whose ``close`` returns when the content is durable.

    The kernel starts to write a large file to the disk before ``close``, which then waits less.
    """

    def __init__(self, path: str, name: str, where: str) -> None:
        """Create the file at ``path``; errors show ``name`` and the store ``where``."""
        super().__init__(io.FileIO(open_new(path), "wb"), _BUFFER_BYTES)
        self._written_to = path
        self._name = name
        self._where = where
        self._cached_bytes = 0

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        try:
            count = super().write(buffer)
        except OSError as error:
            raise map_error(error, "write", self._name, self._where) from error
        self._cached_bytes += count
        if self._cached_bytes >= _EARLY_BYTES:
            self._cached_bytes = 0
            start_writing(self.fileno())
        return count

    def close(self) -> None:
        """Return when the content is durable. It is safe to call this again."""
        if self.closed:
            return
        with mapped_errors("write", self._name, self._where):
            try:
                self.flush()
                os.fsync(self.fileno())
            finally:
                super().close()

    def discard(self) -> None:
        """Remove the file; do nothing after ``close``."""
        if self.closed:
            return
        with suppress(OSError, ValueError):
            # Closing the buffer itself would first write what it holds.
            self.detach().close()
        with suppress(OSError):
            os.unlink(self._written_to)

    @property
    def closed(self) -> bool:
        """Return whether the writer was closed or discarded."""
        try:
            return super().closed
        except ValueError:  # detached
            return True


class ReplacingWriter(DurableWriter):
    """A writer to a hidden file; when it is closed, the hidden file replaces ``path``."""

    def __init__(self, path: str, name: str, where: str) -> None:
        """Create the hidden file; ``path`` does not change before ``close``."""
        self._path = path
        super().__init__(temp_path(os.path.dirname(path)), name, where)

    def close(self) -> None:
        """Return when the content is durable under its name. It is safe to call this again."""
        if self.closed:
            return
        try:
            super().close()
            with mapped_errors("write", self._name, self._where):
                rename_replace(self._written_to, self._path)
                sync_directory(os.path.dirname(self._path))
        except BaseException:
            with suppress(OSError):
                os.unlink(self._written_to)
            raise

    def __del__(self) -> None:
        """Discard if not closed: an incomplete file must not replace another."""
        self.discard()


def read_parts(path: str, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
    """Return the bytes of each range (offset, length) of a file; fewer bytes at its end.

    Raises:
        OSError: the file cannot be opened or read.
    """
    parts = []
    with open(path, "rb") as file:
        for offset, length in ranges:
            file.seek(offset)
            parts.append(file.read(length))
    return parts


def rename_replace(hidden: str, path: str) -> None:
    """Rename a file to ``path``, and replace the file there, if any."""
    # Remove the checksum before the rename, so that Hadoop never finds new content with an old
    # checksum after a crash.
    remove_checksum(path)
    os.replace(hidden, path)
    # Remove the checksum again: another writer may have written one since then.
    remove_checksum(path)


def touch(path: str) -> None:
    """Set the times of a file, or of a link itself, to now, if this is possible."""
    with suppress(OSError):  # not the owner, or no times in this file system
        os.utime(path, follow_symlinks=False)


def remove_checksum(path: str) -> None:
    """Remove the file in which Hadoop keeps the checksum of ``path``, if there is one."""
    directory, name = os.path.split(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(f"{directory}/.{name}.crc")
