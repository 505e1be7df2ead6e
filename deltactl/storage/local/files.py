"""Single files of a local file system: read whole, written so that the disk has them."""

from __future__ import annotations

import errno
import io
import os
import re
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from deltactl.storage.errors import map_error, mapped_errors

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TEMP_PREFIX: Final = ".deltactl-"
TEMP_SUFFIX: Final = ".tmp"
_TEMP_NAME: Final = re.compile(rf"{re.escape(TEMP_PREFIX)}[0-9a-f]{{32}}{re.escape(TEMP_SUFFIX)}")
_BUFFER_BYTES: Final = 1 << 20
_PLAIN: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ: Final = os.O_RDONLY | _PLAIN
# Windows flushes what is open for writing alone; elsewhere reading is enough.
_FLUSH: Final = (os.O_RDWR if os.name == "nt" else os.O_RDONLY) | _PLAIN
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN


def temp_path(folder: str) -> str:
    """Give a fresh hidden path in ``folder``, short, so that long final names still fit."""
    return f"{folder}/{TEMP_PREFIX}{uuid.uuid4().hex}{TEMP_SUFFIX}"


def is_temp_name(name: str) -> bool:
    """Whether a name is one of ``temp_path``: a write that goes on, or that was killed."""
    return _TEMP_NAME.fullmatch(name.rpartition("/")[2]) is not None


def write_new(path: str, data: bytes, *, durable: bool = True) -> None:
    """Create ``path``, which must not exist, with ``data``; wait until the disk has it.

    Not ``durable``: begin to write it, and leave the waiting to ``sync_file``.
    """
    descriptor = os.open(path, _CREATE, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
        elif hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # an advice, which not every file system takes
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def sync_file(path: str) -> None:
    """Make the content of a file of ours durable, which was written without."""
    descriptor = os.open(path, _FLUSH)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Make the entries of a folder durable; Windows has no such call and keeps them itself."""
    if os.name == "nt":  # pragma: no cover
        return
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no fsync for folders: their server keeps entries itself.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


class DurableWriter(io.BufferedWriter):
    """A new file whose ``close`` returns once the disk has the content."""

    def __init__(self, path: str, name: str, where: str) -> None:
        """Create the file at ``path``; errors speak of ``name`` in the store ``where``."""
        super().__init__(io.FileIO(os.open(path, _CREATE, 0o666), "wb"), _BUFFER_BYTES)
        self._name = name
        self._where = where

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Take some bytes."""
        try:
            return super().write(buffer)
        except OSError as error:
            raise map_error(error, "write", self._name, self._where) from error

    def close(self) -> None:
        """Return once the content is durable; safe to call again."""
        if self.closed:
            return
        with mapped_errors("write", self._name, self._where):
            try:
                self.flush()
                os.fsync(self.fileno())
            finally:
                super().close()


class ReplacingWriter(DurableWriter):
    """A hidden file beside ``path`` that takes its place when it is closed."""

    def __init__(self, path: str, name: str, where: str) -> None:
        """Create the hidden file; ``path`` is not touched before ``close``."""
        self._path = path
        self._hidden = temp_path(os.path.dirname(path))
        super().__init__(self._hidden, name, where)

    def close(self) -> None:
        """Return once the content is durable under its name; safe to call again."""
        if self.closed:
            return
        try:
            super().close()
            with mapped_errors("write", self._name, self._where):
                take_place(self._hidden, self._path)
                sync_folder(os.path.dirname(self._path))
        except BaseException:
            with suppress(OSError):
                os.unlink(self._hidden)
            raise

    def discard(self) -> None:
        """Remove the hidden file; nothing after ``close``."""
        if self.closed:
            return
        with suppress(OSError, ValueError):
            self.detach().close()
        with suppress(OSError):
            os.unlink(self._hidden)

    @property
    def closed(self) -> bool:
        """Whether it was closed or discarded."""
        try:
            return super().closed
        except ValueError:  # detached
            return True

    def __del__(self) -> None:
        """One that was given up half way must not take the place of anything."""
        self.discard()


def read_whole(path: str) -> bytes:
    """Give the content of a file in as few calls as there can be.

    Raises:
        OSError: it cannot be opened or read.
    """
    descriptor = os.open(path, _READ)
    try:
        size = os.fstat(descriptor).st_size
        # One byte more than expected: fewer than asked means the end, without another call.
        data = os.read(descriptor, size + 1)
        if len(data) == size:
            return data
        parts = [data]
        while data:
            data = os.read(descriptor, max(size, _BUFFER_BYTES))
            parts.append(data)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def take_place(hidden: str, path: str) -> None:
    """Give a file the name ``path``, in place of what may be there."""
    # Before: new content under an old checksum cannot be read by Hadoop, should we crash in
    # between. After: another writer may have put its own there meanwhile.
    remove_checksum(path)
    os.replace(hidden, path)
    remove_checksum(path)


def remove_checksum(path: str) -> None:
    """Remove the side file in which Hadoop keeps the checksum of ``path``, if there is one."""
    folder, name = os.path.split(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(f"{folder}/.{name}.crc")
