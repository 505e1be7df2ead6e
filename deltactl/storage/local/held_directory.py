"""Check with the kernel where a directory is, and delete files in it even if a link replaces it.

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


class _OpenDirectory:
    """One directory below a root, which stays open until another one is needed."""

    __slots__ = ("_descriptor", "_directory", "_root")

    def __init__(self, root: str) -> None:
        """Open directories below ``root``, a path without links; none is open at first."""
        self._root = root
        self._directory: str | None = None
        self._descriptor = -1

    def close(self) -> None:
        """Close the directory."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._directory = -1, None


class HeldDirectory(_OpenDirectory):
    """Delete files by path.

    One directory is open at a time, so callers should sort names by directory. If the system cannot
    return the path of an open directory, files are deleted by their normal paths.
    """

    __slots__ = ()

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


class CheckedDirectories(_OpenDirectory):
    """Create directories below a root, and check paths for links, in few system calls.

    The last directory stays open: the kernel returns its present path, which is the given path only
    if no part of this is a link. ``False`` as a result means only that this check cannot decide.
    """

    __slots__ = ()

    def ensure(self, directory: str) -> bool:
        """Return whether ``directory`` exists or was created, and the path to it has no links."""
        if not _CAN_HOLD:  # pragma: no cover - not on Linux
            return False
        if self._leads_to(directory):
            return True
        parent, name = os.path.split(directory)
        if directory == self._root or not self._leads_to(parent):
            return False
        try:
            os.mkdir(name, dir_fd=self._descriptor)
        except OSError:
            return False
        return True

    def _leads_to(self, directory: str) -> bool:
        if directory != self._directory:
            try:
                descriptor = os.open(directory, _OPEN)
            except OSError:
                return False
            self.close()
            self._descriptor, self._directory = descriptor, directory
        return os.readlink(f"{_WHERE}/{self._descriptor}") == directory
