"""List directories of a local file system; read sizes and times only when they are needed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

from deltactl.storage.store import Enter, FileInfo, Tree

BATCH_NAMES: Final = 8192


def list_directory(directory: str, name_prefix: str, start: str) -> Iterator[FileInfo]:
    """Yield the files directly in ``directory`` whose name is >= ``start``, sorted by bytes.

    Size and time are read for one file at a time, so that a caller can stop early. Broken links,
    and files that are deleted during the listing, are omitted. A missing directory yields nothing.

    Raises:
        OSError: the directory cannot be read.
    """
    first = os.fsencode(start)
    names: list[bytes] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                encoded = os.fsencode(entry.name)
                if encoded >= first and not entry.is_dir():
                    names.append(encoded)
    except (FileNotFoundError, NotADirectoryError):
        return
    names.sort()
    base = f"{directory.rstrip('/')}/"
    for encoded in names:
        name = os.fsdecode(encoded)
        info = stat_file(base + name, name_prefix + name)
        if info is not None:
            yield info


def list_directories(directory: str) -> list[str]:
    """Return the names of the directories directly in ``directory``, sorted.

    The list is empty if ``directory`` does not exist. A link that cannot be followed, such as one
    in a loop or one to a disk that is not mounted, counts as a directory: who enters it gets the
    error.

    Raises:
        OSError: the directory cannot be read, or a link on its path leads to nothing.
    """
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if _may_be_directory(entry))
    except NotADirectoryError:
        return []
    except FileNotFoundError:
        if _has_broken_link(directory):
            raise
        return []


def _may_be_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:
        return True


def _has_broken_link(path: str) -> bool:
    """Return whether a link on the path of a missing directory leads to nothing."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return not os.path.exists(path)


def walk_directory(directory: str, name_prefix: str) -> Iterator[list[str]]:
    """Yield batches of names of files below ``directory``; links to directories are not followed.

    A directory that is deleted during the listing is no error.

    Raises:
        OSError: a directory cannot be read.
    """
    batch: list[str] = []
    pending = [(directory, name_prefix)]
    while pending:
        path, prefix = pending.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((entry.path, f"{prefix}{entry.name}/"))
                    elif entry.is_file():
                        batch.append(prefix + entry.name)
                        if len(batch) >= BATCH_NAMES:
                            yield batch
                            batch = []
        except (FileNotFoundError, NotADirectoryError):
            continue
    if batch:
        yield batch


def walk_tree(root: str, enter: Enter, *, facts: bool) -> Iterator[Tree]:
    """Yield all files, directories and links below ``root``; links are not followed.

    All other entries (pipes, devices) are omitted. A directory, or with ``facts`` a file, that is
    deleted during the listing is no error.

    Raises:
        OSError: a directory cannot be read.
    """
    part = Tree()
    pending = [(root, "")]
    while pending:
        path, prefix = pending.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name = prefix + entry.name
                    if entry.is_file(follow_symlinks=False):
                        if facts and not _add_facts(part, entry):
                            continue
                        part.files.append(name)
                    elif entry.is_dir(follow_symlinks=False):
                        part.directories.append(name)
                        if enter(name):
                            pending.append((entry.path, f"{name}/"))
                    elif entry.is_symlink():
                        part.links.append(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if len(part.files) >= BATCH_NAMES:
            yield part
            part = Tree()
    yield part


def _add_facts(part: Tree, entry: os.DirEntry[str]) -> bool:
    """Add size and time of a file; return whether it still exists."""
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    part.sizes_bytes.append(found.st_size)
    part.modified_ms.append(found.st_mtime_ns // 1_000_000)
    return True


def is_older(path: str, before_ms: int) -> bool:
    """Return whether ``path`` last changed before ``before_ms``; links are not followed.

    Return False if the time cannot be read.
    """
    try:
        return os.lstat(path).st_mtime_ns // 1_000_000 < before_ms
    except OSError:
        return False


def device_of(path: str) -> int | None:
    """Return the number of the device with the file system of ``path``; ``None`` if unknown."""
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


def stat_file(path: str, name: str) -> FileInfo | None:
    """Return the facts of the file at ``path``, with the name ``name``.

    Return ``None`` if ``path`` is not a file.

    Raises:
        OSError: the file may exist, but its size and time cannot be read.
    """
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return FileInfo(name, facts.st_size, facts.st_mtime_ns // 1_000_000)
