"""Deleting in the folder that was looked at, whatever its name leads to a moment later.

A path is looked up anew by every call. Who may write into a table could put a link in the place of
a folder after it was found to lie inside the root, and have files deleted elsewhere by whoever runs
a vacuum. So the folder is opened first, the kernel is asked where that open folder lies, and files
are deleted relative to it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from deltactl.errors import SafetyError

_WHERE: Final = "/proc/self/fd"
_CAN_HOLD: Final = os.unlink in os.supports_dir_fd and os.path.isdir(_WHERE)


class HeldFolder:
    """Deletes files by path, one folder held at a time: names of one folder should come together.

    Where the system cannot tell where an open folder lies, paths are used as they are.
    """

    __slots__ = ("_descriptor", "_folder", "_root")

    def __init__(self, root: str) -> None:
        """Delete below ``root``, a path without links."""
        self._root = root
        self._folder: str | None = None
        self._descriptor = -1

    def unlink(self, path: str) -> None:
        """Delete a file and the checksum that Hadoop keeps beside it; one that is gone is fine.

        Raises:
            SafetyError: its folder has come to lie outside the root.
            OSError: it cannot be deleted.
        """
        folder, name = os.path.split(path)
        try:
            self._hold(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        for each in (name, f".{name}.crc"):
            with suppress(FileNotFoundError, NotADirectoryError):
                if _CAN_HOLD:
                    os.unlink(each, dir_fd=self._descriptor)
                else:  # pragma: no cover - not on Linux
                    os.unlink(f"{folder}/{each}")

    def _hold(self, folder: str) -> None:
        if not _CAN_HOLD or folder == self._folder:
            return
        self.close()
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        actual = os.readlink(f"{_WHERE}/{self._descriptor}")
        if actual != self._root and not actual.startswith(f"{self._root.rstrip('/')}/"):
            self.close()
            raise SafetyError(
                f"{folder!r} leads out of {self._root!r}: a link took its place during the run",
                hint="nothing was deleted there; find out who may write into the table's folder",
            )
        self._folder = folder

    def close(self) -> None:
        """Let the folder go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._folder = -1, None
