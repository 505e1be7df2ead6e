"""Keep local copies of Parquet files of the log, so that each file is downloaded once.

A snapshot reads the same checkpoint several times, each time with other columns. One request for
the whole file is cheaper than many requests for parts of it. A copy is valid as long as listings
show that the file did not change.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from deltactl.storage.store import FileInfo

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIX: Final = ".parquet"
_LARGEST_FILE_BYTES: Final = 1 << 30
_MOST_BYTES: Final = 2 << 30
# Copies may use this fraction of the free space in the directory for temporary files.
_LARGEST_SHARE: Final = 0.5


class _Copy:
    """A temporary file that is removed when this object is garbage collected.

    In a forked process, the file is kept: it is the parent's.
    """

    def __init__(self) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="deltactl-", suffix=_SUFFIX)
        os.close(descriptor)
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: str, process: int) -> None:
    if process == os.getpid():
        with suppress(OSError):
            os.unlink(path)


class ListedCopies:
    """Copies of listed files, in the directory for temporary files. Threads may share it."""

    def __init__(self) -> None:
        """Start without copies."""
        self._lock = threading.Lock()
        self._listed: dict[str, FileInfo] = {}
        self._copies: OrderedDict[str, tuple[FileInfo, _Copy]] = OrderedDict()

    def note(self, directory: str, infos: Iterable[FileInfo]) -> None:
        """Record a new listing of a directory (a prefix of names); drop copies of changed files."""
        now = {info.name: info for info in infos if info.name.endswith(_SUFFIX)}
        with self._lock:
            for name in [name for name in self._listed if name.rpartition("/")[0] == directory]:
                if now.get(name) != self._listed[name]:
                    self._drop(name)
            self._listed |= now

    def forget(self, name: str) -> None:
        """Drop the copy of a file that is about to change."""
        with self._lock:
            self._drop(name)

    def open(self, name: str, download: Callable[[str], None]) -> pa.NativeFile | None:
        """Open a copy of a listed file; ``download(path)`` makes the copy if there is none.

        Return ``None`` for a file that was not listed, and if there is no space for a copy.
        """
        import pyarrow as pa

        with self._lock:
            info = self._listed.get(name)
            if info is None or info.size_bytes > _LARGEST_FILE_BYTES:
                return None
            if name in self._copies:
                self._copies.move_to_end(name)
                return pa.OSFile(self._copies[name][1].path)
        if info.size_bytes > _LARGEST_SHARE * shutil.disk_usage(tempfile.gettempdir()).free:
            return None
        copy = _Copy()
        download(copy.path)
        with self._lock:
            # If the file changed meanwhile, this copy is for this caller only.
            if self._listed.get(name) == info:
                self._copies[name] = (info, copy)
                self._shrink()
        # The open file can be read even after its name is removed.
        return pa.OSFile(copy.path)

    def _drop(self, name: str) -> None:
        self._listed.pop(name, None)
        self._copies.pop(name, None)

    def _shrink(self) -> None:
        # The newest stays: it was requested just now.
        while len(self._copies) > 1 and self._size_bytes() > _MOST_BYTES:
            self._copies.popitem(last=False)

    def _size_bytes(self) -> int:
        return sum(info.size_bytes for info, _ in self._copies.values())
