"""Map names of a local store to paths, and check that writes stay inside its root.

See ``storage/store.py`` for the names that may be read or written.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Container, Iterator
from contextlib import suppress

from deltactl.errors import SafetyError, UsageError
from deltactl.storage.errors import mapped_errors, no_root_error, not_a_directory
from deltactl.storage.local.files import sync_directory
from deltactl.storage.local.uris import path_to_uri, strip_file_scheme
from deltactl.storage.names import (
    is_absolute_name,
    is_plain_name,
    refuse_nul,
    resolve_name,
    resolve_prefix,
)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the working directory cannot be read: {error.strerror}",
            hint="Change to another directory, or give an absolute path.",
        ) from error


def ensure_utf8_names(encoding: str) -> None:
    """Check that Python reads the names of files as UTF-8, as the log and Arrow do.

    Raises:
        UsageError: by its locale, this process has another encoding for names.
    """
    if encoding != "utf-8":
        raise UsageError(
            f"this process reads the names of files as {encoding}, by its locale, but the paths of "
            "a table are UTF-8: it would look for files under wrong names",
            hint="Set PYTHONUTF8=1 or LC_ALL=C.UTF-8 in the environment before Python starts.",
        )


class LocalPaths:
    """Paths of names below one directory, the root, which need not exist yet.

    ``root`` is the path of this directory; links in it were resolved once. ``uri`` is the same path
    as a ``file:`` URI. A root that was there is not created again, and must not become empty: the
    table was moved or deleted, or an empty mount point is left of its file system.
    """

    __slots__ = ("_base", "_had_content", "_is_there", "root", "uri")

    def __init__(self, root: str) -> None:
        """Map names below ``root``.

        Raises:
            UsageError: ``root`` is relative, and the working directory was deleted; or the names of
                files are not UTF-8 in this process.
        """
        ensure_utf8_names(sys.getfilesystemencoding())
        refuse_nul(root)
        if not os.path.isabs(root):
            root = os.path.join(_working_directory(), root)
        self.root = os.path.realpath(root)
        self._base = f"{self.root.rstrip('/')}/"
        self.uri = path_to_uri(self.root)
        self.look_again()

    def readable(self, name: str) -> str:
        """Return the path of a name, which may be absolute."""
        if is_plain_name(name):
            return self._base + name
        if is_absolute_name(name):
            refuse_nul(name)
            return _absolute_path(name)
        return self.inside(name)

    def inside(self, name: str) -> str:
        """Return the path of a relative name. If it has links, it can be outside of the root."""
        return self._base + resolve_name(name)

    def directory(self, prefix: str) -> tuple[str, str]:
        """Return the path of a directory, and the prefix of the names in it."""
        if is_absolute_name(prefix):
            return self.readable(prefix), f"{prefix.rstrip('/')}/"
        relative = resolve_prefix(prefix)
        return (self._base + relative, f"{relative}/") if relative else (self.root, "")

    def writable(self, name: str, safe_directories: set[str] | None = None) -> str:
        """Return the path of a relative name, after a check that its directory is in the root.

        ``safe_directories`` caches checked directories, for callers with many names.
        """
        path = self.inside(name)
        directory = os.path.dirname(path)
        if safe_directories is not None and directory in safe_directories:
            return path
        with mapped_errors("resolve", name, self.uri):
            actual = os.path.realpath(directory)
        if actual != self.root and not actual.startswith(self._base):
            raise SafetyError(
                f"{name!r} leads out of {self.uri} through a symbolic link",
                hint="Replace the link with a directory. Nothing was changed through it.",
            )
        if safe_directories is not None:
            safe_directories.add(directory)
        return path

    def real_name(self, name: str, directories: dict[str, str]) -> str | None:
        """Return a name with all links resolved, or ``None`` if the result is outside the root.

        ``directories`` caches resolved directories, for callers with many names.
        """
        refuse_nul(name)
        is_absolute = is_absolute_name(name)
        path = _absolute_path(name) if is_absolute else os.path.normpath(self._base + name)
        directory, last = os.path.split(path)
        if directory not in directories:
            directories[directory] = os.path.realpath(directory)
        real = os.path.join(directories[directory], last)
        # Only the last part can still be a link.
        if os.path.islink(real):
            real = os.path.realpath(real)
        if real == self.root:
            return ""
        return real[len(self._base) :] if real.startswith(self._base) else None

    def upwards(self, directory: str, seen: Container[str]) -> Iterator[str]:
        """Yield a directory and its parents up to the root, or up to the first in ``seen``."""
        while directory not in seen and len(directory) >= len(self.root):
            yield directory
            directory = os.path.dirname(directory)

    def look_again(self) -> None:
        """Note what the root is, at the start and after directories were removed from it."""
        self._is_there = os.path.isdir(self.root)
        self._had_content = False
        with suppress(OSError):
            self._had_content = _has_content(self.root)

    def ensure_content(self) -> None:
        """Check that the root is a directory that is not empty.

        Raises:
            StorageError: it is missing or empty.
            OSError: the system cannot say.
        """
        if not _has_content(self.root):
            raise no_root_error(self.uri)

    def make_parents(self, path: str) -> bool:
        """Create the missing directories of ``path``; return whether any was missing.

        Raises:
            StorageError: the root is missing or empty, but was not before.
            OSError: a directory cannot be created.
        """
        directory = os.path.dirname(path)
        if directory != self.root and os.path.isdir(directory):
            return False
        is_new = self._make_root()
        if directory == self.root:
            return is_new
        # Not with makedirs: the root may disappear at any time, and must not be created again.
        for parent in reversed([*self.upwards(directory, {self.root})]):
            if not os.path.isdir(parent):
                _make_directory(parent)
        self._had_content = True
        return True

    def _make_root(self) -> bool:
        """Create the root unless it exists, or did; return whether it was missing."""
        if self._had_content:
            self.ensure_content()
            return False
        was_there = self._is_there  # before the look: another thread may create the root after it
        is_missing = not _is_directory(self.root)
        if is_missing:
            if was_there:
                raise no_root_error(self.uri)
            try:
                os.makedirs(self.root, exist_ok=True)
            except FileExistsError as error:
                os.stat(self.root)  # raises a better error for a directory that cannot be read
                raise not_a_directory(self.root) from error
            sync_directory(os.path.dirname(self.root))
        self._is_there = True
        return is_missing


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path)
    except FileExistsError as error:
        os.stat(path)  # raises a better error for a directory that cannot be read
        if not os.path.isdir(path):  # or another writer created it meanwhile
            raise not_a_directory(path) from error


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _has_content(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is not None
    except PermissionError:
        return True  # it can be used without the right to list it
    except (FileNotFoundError, NotADirectoryError):
        return False


def _absolute_path(name: str) -> str:
    """Return the path in an absolute name; ``..`` removes the part before it, even a link.

    So does Delta on Spark: Hadoop makes the path normal before it opens the file.
    """
    return os.path.normpath(strip_file_scheme(name))
