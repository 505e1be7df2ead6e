"""Write a new local file from written bytes, and from byte ranges that the kernel copies."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Final

from deltactl.errors import StorageError
from deltactl.storage.errors import mapped_errors
from deltactl.storage.local.files import DurableWriter, open_to_read, start_writing, write_all

_AT_ONCE_BYTES: Final = 64 << 20  # so that an interrupt does not wait for a whole file
_READ_BYTES: Final = 1 << 20
# Errors of file systems and kernels that cannot copy between these two files.
_CANNOT_COPY: Final = frozenset({
    errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM,
    errno.ETXTBSY,
})  # fmt: skip


class LocalAssembly(DurableWriter):
    """A writer of a local file. Implements ``storage.store.Assembly``."""

    is_local = True

    def __init__(self, path: str, name: str, where: str, readable: Callable[[str], str]) -> None:
        """Create the file at ``path``; ``readable`` returns the path of the name of a source."""
        super().__init__(path, name, where)
        self._readable = readable
        self._open: tuple[str, int] | None = None

    def copy(self, source: str, offset: int, length: int) -> None:
        """Append bytes of another file; see ``Assembly.copy``."""
        # The kernel appends to the file: what is buffered here comes first.
        self.flush()
        with mapped_errors("copy", source, self._where):
            done = copy_range(self._descriptor_of(source), self.fileno(), offset, length)
        start_writing(self.fileno())  # so that `close` has less to wait for
        if done < length:
            raise StorageError(
                f"{source!r} ends {length - done} bytes before the end of the range to copy"
            )

    def close(self) -> None:
        """Return when the content is durable. It is safe to call this again."""
        self._close_source()
        super().close()

    def discard(self) -> None:
        """Remove the file; do nothing after ``close``."""
        self._close_source()
        super().discard()

    def _descriptor_of(self, source: str) -> int:
        """Return a descriptor of the source. It stays open until another source is copied."""
        if self._open is None or self._open[0] != source:
            self._close_source()
            self._open = source, open_to_read(self._readable(source))
        return self._open[1]

    def _close_source(self) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None


def copy_range(source: int, target: int, offset: int, length: int) -> int:
    """Append bytes of one descriptor to another; return how many bytes the source had.

    The kernel copies. If the file system supports it, both files share the blocks and no bytes are
    copied.
    """
    done = 0
    copy = getattr(os, "copy_file_range", None)
    while done < length:
        count = min(length - done, _AT_ONCE_BYTES)
        if copy is not None:
            try:
                copied = copy(source, target, count, offset + done)
            except OSError as error:
                if error.errno not in _CANNOT_COPY:
                    raise
                copy = None
                continue
            if not copied:  # the end; or a file system that copies nothing, as on some kernels
                copy = None
                continue
        else:
            data = os.pread(source, min(count, _READ_BYTES), offset + done)
            if not data:
                break
            write_all(target, data)
            copied = len(data)
        done += copied
    return done
