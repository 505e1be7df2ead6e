"""Delete files in a directory that was checked, even if a link replaces the directory later.

Every system call resolves a path again. A user who may write into a table could replace a directory
by a link after the check that it is inside the root; a vacuum would then delete files elsewhere. So
the directory is opened first, the kernel says where the open directory is, and files are deleted
relative to it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from deltactl.errors import SafetyError

_WHERE: Final = "/proc/self/fd"
_CAN_HOLD: Final = os.unlink in os.supports_dir_fd and os.path.isdir(_WHERE)


class HeldDirectory:
    """Deletes files by path, with one directory open at a time: sort names by directory.

    If the system cannot say where an open directory is, paths are used as they are.
    """

    __slots__ = ("_descriptor", "_directory", "_root")

    def __init__(self, root: str) -> None:
        """Delete below ``root``, a path without links."""
        self._root = root
        self._directory: str | None = None
        self._descriptor = -1

    def unlink(self, path: str) -> None:
        """Delete a file and the checksum that Hadoop keeps next to it; absent files are no error.

        Raises:
            SafetyError: its directory is outside the root by now.
            OSError: it cannot be deleted.
        """
        directory, name = os.path.split(path)
        try:
            self._hold(directory)
        except (FileNotFoundError, NotADirectoryError):
            return
        for each in (name, f".{name}.crc"):
            with suppress(FileNotFoundError, NotADirectoryError):
                if _CAN_HOLD:
                    os.unlink(each, dir_fd=self._descriptor)
                else:  # pragma: no cover - not on Linux
                    os.unlink(f"{directory}/{each}")

    def _hold(self, directory: str) -> None:
        if not _CAN_HOLD or directory == self._directory:
            return
        self.close()
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        actual = os.readlink(f"{_WHERE}/{self._descriptor}")
        if actual != self._root and not actual.startswith(f"{self._root.rstrip('/')}/"):
            self.close()
            raise SafetyError(
                f"{directory!r} leads out of {self._root!r}: a link replaced it during the run",
                hint="Check who may write into the table's directory. Nothing was deleted there.",
            )
        self._directory = directory

    def close(self) -> None:
        """Close the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._directory = -1, None
