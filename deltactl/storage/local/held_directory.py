"""Delete files in a directory even if a link replaces it.

Every system call resolves a path again. After the check that a directory is inside the root, a user
with write access to the table could replace this directory by a link. Then a vacuum would delete
files outside the root. So the directory is opened first. For the check, the kernel returns the path
of the open directory. Files are then deleted relative to the open directory.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from deltactl.errors import SafetyError

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WHERE: Final = "/proc/self/fd"
_CAN_HOLD: Final = os.unlink in os.supports_dir_fd and os.path.isdir(_WHERE)


class HeldDirectory:
    """Delete files by path, below a root, which is a path without links.

    One directory is open at a time, so callers should sort names by directory. If the system cannot
    return the path of an open directory, files are deleted by their normal paths.
    """

    def __init__(self, root: str) -> None:
        """Delete below ``root``; no directory is open at first."""
        self._root = root
        self._directory: str | None = None
        self._descriptor = -1

    def close(self) -> None:
        """Close the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._directory = -1, None

    def unlink(self, path: str) -> None:
        """Delete a file, and the checksum that Hadoop keeps next to it.

        It is no error if the file does not exist.

        Raises:
            SafetyError: the directory of the file is now outside of the root.
            OSError: the file cannot be deleted.
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
        self._descriptor = os.open(directory, _OPEN)
        actual = os.readlink(f"{_WHERE}/{self._descriptor}")
        if actual != self._root and not actual.startswith(f"{self._root.rstrip('/')}/"):
            self.close()
            raise SafetyError(
                f"{directory!r} was replaced by a link during the run, and now leads to a "
                f"directory outside of {self._root!r}",
                hint="Check who can write to the table directory. Nothing was deleted through "
                "the link.",
            )
        self._directory = directory
