"""Implement `Store` for local and mounted file systems.

The code calls the operating system directly and does not use fsspec, for three reasons:

- The import of fsspec takes at least 0.1 s.
- The local file system of fsspec has neither fsync nor an exclusive create.
- It needs several times as long to read thousands of small log files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice, takewhile
from typing import TYPE_CHECKING, BinaryIO, Final

from deltactl.errors import StorageError
from deltactl.storage.errors import map_error, mapped_errors
from deltactl.storage.file_copies import CopiedFile, FileCopies, FileCopy, Origin, StoredFacts
from deltactl.storage.local.assembly import LocalAssembly
from deltactl.storage.local.batch_writes import put_together, sync_each
from deltactl.storage.local.exclusive import create_exclusively, move_exclusively
from deltactl.storage.local.files import (
    TEMP_PREFIX,
    DurableWriter,
    ReplacingWriter,
    is_temp_name,
    read_parts,
    remove_checksum,
    rename_replace,
    sync_directory,
    temp_path,
    touch,
    write_new,
)
from deltactl.storage.local.held_directory import HeldDirectory
from deltactl.storage.local.listing import (
    device_of,
    is_older,
    list_directories,
    list_directory,
    stat_file,
    walk_directory,
    walk_tree,
)
from deltactl.storage.local.paths import LocalPaths
from deltactl.storage.local.whole_copies import copy_together
from deltactl.storage.names import OWN_DIR, is_absolute_name
from deltactl.storage.store import (
    Assembly,
    Directories,
    Enter,
    FileInfo,
    RangeCopies,
    Replacement,
    Tree,
)

if TYPE_CHECKING:
    import pyarrow as pa

# Hidden files of a batch are in the disk's cache only, and are lost if the process is killed.
_MAX_BATCH_FILES: Final = 10_000


class LocalStore:
    """Files below one directory, the root, which need not exist yet.

    Writes are never outside of the root, neither by ``..`` nor through a link to a directory.
    Hadoop keeps a checksum ``.<name>.crc`` next to a file and relies on it. So when this store
    replaces or deletes a file, it also removes the checksum.
    """

    __slots__ = ("_paths", "_uri")

    versions = None  # file systems keep no versions

    def __init__(self, root: str) -> None:
        """Open the directory ``root``; links in its path are resolved once, now."""
        self._paths = LocalPaths(root)
        self._uri = self._paths.uri

    def __repr__(self) -> str:
        """Show the root."""
        return f"LocalStore({self._uri!r})"

    @property
    def engine_uri(self) -> str:
        """Return the root."""
        return self.uri

    @property
    def uri(self) -> str:
        """Return the root as a ``file:`` URI."""
        return self._uri

    @property
    def directories(self) -> Directories:
        """Return this store."""
        return self

    @property
    def uploads(self) -> None:
        """Return ``None``: incomplete files are found by ``Directories.abandoned_files``."""
        return None

    @property
    def range_copies(self) -> RangeCopies:
        """Return this store."""
        return self

    @property
    def file_copies(self) -> FileCopies:
        """Return this store."""
        return self

    def ensure_content(self) -> None:
        """Check that the root is a directory that is not empty; see ``LocalPaths``."""
        with mapped_errors("list", "", self.uri):
            self._paths.ensure_content()

    def origin_of(self, name: str) -> Origin:
        """Return the path of a file; see ``FileCopies.origin_of``."""
        return Origin("file", self._paths.readable(name))

    def facts_of(self, name: str) -> StoredFacts | None:
        """Return the size of a file; see ``FileCopies.facts_of``."""
        (info,) = self.stat_many([name])
        return None if info is None else StoredFacts(info.size_bytes)

    def copy_files(self, copies: Sequence[FileCopy]) -> list[CopiedFile | None]:
        """Copy local files, many in one batch; see ``FileCopies.copy_files``."""
        for names in copy_together(copies, self._place, self._uri):
            self.sync_directories(names)
        return [CopiedFile(copy.size_bytes, "kernel") for copy in copies]

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """Yield files from ``start`` on; see ``Store.list_from``."""
        directory, name_prefix = self._paths.directory(prefix)
        with mapped_errors("list", prefix, self._uri):
            yield from list_directory(directory, name_prefix, start)

    def list_directories(self, prefix: str = "") -> list[str]:
        """Return directories in a directory; see ``Store.list_directories``."""
        directory, name_prefix = self._paths.directory(prefix)
        with mapped_errors("list", prefix, self._uri):
            return [name_prefix + name for name in list_directories(directory)]

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """Yield names of all files below a directory; see ``Store.walk``."""
        directory, name_prefix = self._paths.directory(prefix)
        with self._walk_errors():
            # A link to a directory is not followed, even if it is the start.
            if is_absolute_name(prefix) or os.path.realpath(directory) == directory:
                yield from walk_directory(directory, name_prefix)

    def walk_tree(self, enter: Enter, *, facts: bool = False) -> Iterator[Tree]:
        """Yield files, directories and links below the root; see ``Store.walk_tree``."""
        with self._walk_errors():
            yield from walk_tree(self._paths.root, enter, facts=facts)

    @contextmanager
    def _walk_errors(self) -> Iterator[None]:
        """Convert errors of a walk; they name the directory that cannot be read."""
        try:
            yield
        except OSError as error:
            root = f"{self._paths.root}/"
            directory = f"{error.filename}/".removeprefix(root).removesuffix("/")
            raise map_error(error, "list", directory, self._uri) from error

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """Return facts of each name; see ``Store.stat_many``."""
        found: list[FileInfo | None] = []
        name = ""
        try:
            for name in names:
                found.append(stat_file(self._paths.readable(name), name))
        except (OSError, UnicodeError) as error:
            raise map_error(error, "look up", name, self._uri) from error
        return found

    def read(self, name: str) -> bytes:
        """Return the whole content of a file; see ``Store.read``."""
        path = self._paths.readable(name)
        with mapped_errors("read", name, self._uri), open(path, "rb", buffering=0) as file:
            return file.readall()

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield whole contents in order, one in memory at a time.

        The kernel reads ahead, so this uses no threads. With threads, 1,000 files of 400 KB were
        not faster, and 20,000 small files were several times slower.
        """
        for name in names:
            yield self.read(name)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, length); see ``Store.read_ranges``."""
        path = self._paths.readable(name)
        with mapped_errors("read", name, self._uri):
            return read_parts(path, ranges)

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """Return facts of a file and its last bytes; see ``Store.read_tail``."""
        (info,) = self.stat_many([name])
        if info is None:
            return None
        length = min(length, info.size_bytes)
        (data,) = self.read_ranges(name, [(info.size_bytes - length, length)])
        return info, data

    def open_input(self, name: str) -> pa.NativeFile:
        """Open an Arrow file for random access; see ``Store.open_input``."""
        import pyarrow as pa

        path = self._paths.readable(name)
        with mapped_errors("open", name, self._uri):
            return pa.OSFile(path, "rb")

    def open_output(self, name: str) -> BinaryIO:
        """Open a writer to a new file with its final name; ``close`` makes the file durable.

        No reader opens a data file before a commit references it, so no temporary name is needed.
        """
        path = self._paths.writable(name)
        with mapped_errors("create", name, self._uri):
            self._paths.make_parents(path)
            return DurableWriter(path, name, self._uri)

    def open_assembly(self, name: str) -> Assembly:
        """Open a writer like ``open_output``; the kernel copies byte ranges."""
        path = self._paths.writable(name)
        with mapped_errors("create", name, self._uri):
            self._paths.make_parents(path)
            return LocalAssembly(path, name, self._uri, self._paths.readable)

    def open_replacement(self, name: str) -> Replacement:
        """Open a writer to a hidden file; ``close`` renames the hidden file to ``name``."""
        path = self._paths.writable(name)
        with mapped_errors("write", name, self._uri):
            self._make_parents_durable(path)
            return ReplacingWriter(path, name, self._uri)

    def put(self, name: str, data: bytes) -> None:
        """Write or replace a whole file, durably; see ``Store.put``."""
        path = self._paths.writable(name)
        with mapped_errors("write", name, self._uri):
            self._make_parents_durable(path)
            directory = os.path.dirname(path)
            temporary = temp_path(directory)
            try:
                write_new(temporary, data)
                rename_replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
            sync_directory(directory)

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """Write or replace each file, many in one batch; see ``Store.put_many``."""
        rest, count = iter(files), 0
        while names := put_together(islice(rest, _MAX_BATCH_FILES), self._place, self._uri):
            self.sync_directories(names)
            count += len(names)
        return count

    def ensure_put_if_absent(self) -> None:
        """Do nothing: if the file system has no put-if-absent, the first commit fails."""

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Create a whole file, durably, or raise; see ``Store.put_if_absent``."""
        path = self._paths.writable(name)
        with mapped_errors("create", name, self._uri):
            self._make_parents_durable(path)
            if not os.path.lexists(path):
                # Hadoop could not read this file with the checksum of a deleted file.
                remove_checksum(path)
            create_exclusively(path, data)

    def sync_directories(self, names: Iterable[str]) -> None:
        """Sync the directories of these files, and their parents up to the root."""
        named: dict[str, str] = {}
        for name in names:
            for directory in self._paths.upwards(os.path.dirname(self._paths.inside(name)), named):
                named[directory] = name
        sync_each(sync_directory, named, "sync the directory of", self._uri)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Delete each name; see ``Store.delete_many``.

        Raises:
            SafetyError: a name is outside of the root: no file is deleted. Or a link replaced a
                directory during the run: no file is deleted in this directory.
        """
        safe_directories: set[str] = set()
        paths = [self._paths.writable(name, safe_directories) for name in names]
        failed: dict[str, StorageError] = {}
        with closing(HeldDirectory(self._paths.root)) as held:
            for name, path in zip(names, paths, strict=True):
                try:
                    held.unlink(path)
                except (OSError, UnicodeError) as error:
                    # The error of unlink for a directory differs from system to system.
                    is_directory = os.path.isdir(path) and not os.path.islink(path)
                    cause = IsADirectoryError("it is a directory") if is_directory else error
                    failed[name] = map_error(cause, "delete", name, self._uri)
        return failed

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Rename each file; see ``Store.move_many``.

        Raises:
            SafetyError: a name is outside the root: nothing is moved.
        """
        safe_directories: set[str] = set()
        paths = [
            (
                self._paths.writable(old, safe_directories),
                self._paths.writable(new, safe_directories),
            )
            for old, new in pairs
        ]
        failed: dict[str, StorageError] = {}
        directories: set[str] = set()
        for (old, new), (path, target) in zip(pairs, paths, strict=True):
            # A file that comes back must not look old, even after a crash. A file that cannot be
            # moved to a quarantine keeps its time: it may stay under both names.
            goes_away = new.startswith(f"{OWN_DIR}/")
            try:
                self._paths.make_parents(target)
                if not goes_away:
                    touch(path)
                move_exclusively(path, target)
                if goes_away:
                    touch(target)
                remove_checksum(path)
                directories |= {os.path.dirname(path), os.path.dirname(target)}
            except StorageError as error:
                failed[old] = error
            except (OSError, UnicodeError) as error:
                failed[old] = map_error(error, "move", old, self._uri)
        seen: set[str] = set()
        with mapped_errors("sync the directories of", pairs[0][0] if pairs else "", self._uri):
            for directory in sorted(directories):
                self._sync_upwards(directory, seen)
        return failed

    def remove_directories(self, names: Sequence[str]) -> list[str]:
        """Remove empty directories; see ``Directories.remove_directories``."""
        paths = [(name, self._paths.writable(name)) for name in names]
        removed = []
        for name, path in paths:
            with suppress(OSError):  # not empty, most likely; rmdir takes no links
                os.rmdir(path)
                removed.append(name)
        if removed:
            self._paths.look_again()
        return removed

    def old_directories(self, names: Sequence[str], before_ms: int) -> list[str]:
        """Return directories that did not change; see ``Directories.old_directories``."""
        return [name for name in names if is_older(self._paths.writable(name), before_ms)]

    def foreign_directories(self, names: Sequence[str]) -> list[str]:
        """Return directories on other file systems; see ``Directories.foreign_directories``."""
        own = device_of(self._paths.root)
        return [name for name in names if device_of(self._paths.inside(name)) not in (own, None)]

    def abandoned_files(self, prefix: str, before_ms: int) -> list[FileInfo]:
        """Return hidden files of killed writes; see ``Directories.abandoned_files``."""
        hidden = takewhile(
            lambda info: info.name.rpartition("/")[2].startswith(TEMP_PREFIX),
            self.list_from(prefix, TEMP_PREFIX),
        )
        return [i for i in hidden if is_temp_name(i.name) and i.modified_ms < before_ms]

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        """Return names with links resolved; see ``Store.real_names``."""
        directories: dict[str, str] = {}
        return [self._paths.real_name(name, directories) for name in names]

    def _place(self, name: str) -> str:
        """Return the path of a new file, and create its directory."""
        # Check each file: a link may replace a directory while hidden files are written.
        path = self._paths.writable(name)
        self._paths.make_parents(path)
        return path

    def _make_parents_durable(self, path: str) -> None:
        """Create the missing directories of a path; they survive a power failure, too."""
        if self._paths.make_parents(path):
            self._sync_upwards(os.path.dirname(os.path.dirname(path)), set())

    def _sync_upwards(self, directory: str, seen: set[str]) -> None:
        """Sync a directory and its parents up to the root, except those in ``seen``."""
        for new in self._paths.upwards(directory, seen):
            seen.add(new)
            sync_directory(new)
