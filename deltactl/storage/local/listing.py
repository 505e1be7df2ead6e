"""Listing folders of a local file system, names first and facts only where they are asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

from deltactl.storage.store import Enter, FileInfo, Tree

BATCH_NAMES: Final = 8192


def list_folder(folder: str, name_prefix: str, start: str) -> Iterator[FileInfo]:
    """Give the files directly in ``folder`` whose name is >= ``start``, sorted by bytes.

    Facts are read as the caller gets there, so stopping early costs nothing; a file that vanishes
    in between is left out, as is a link that leads nowhere. A missing folder yields nothing.

    Raises:
        OSError: the folder cannot be read.
    """
    first = os.fsencode(start)
    names: list[bytes] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                encoded = os.fsencode(entry.name)
                if encoded >= first and not entry.is_dir():
                    names.append(encoded)
    except (FileNotFoundError, NotADirectoryError):
        return
    names.sort()
    base = f"{folder.rstrip('/')}/"
    for encoded in names:
        name = os.fsdecode(encoded)
        info = stat_file(base + name, name_prefix + name)
        if info is not None:
            yield info


def list_folders(folder: str) -> list[str]:
    """Give the names of the folders directly in ``folder``, sorted; a missing one has none.

    Raises:
        OSError: the folder cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def walk_folder(folder: str, name_prefix: str) -> Iterator[list[str]]:
    """Give batches of the names of all files below ``folder``; linked folders are not entered.

    Raises:
        OSError: a folder cannot be read. One that vanishes meanwhile is no error.
    """
    batch: list[str] = []
    pending = [(folder, name_prefix)]
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


def walk_tree(root: str, enter: Enter) -> Iterator[Tree]:
    """Give all files, folders and links below ``root``; only folders are entered, if at all.

    What is none of these (a pipe, a device) is left out.

    Raises:
        OSError: a folder cannot be read. One that vanishes meanwhile is no error.
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
                        part.files.append(name)
                    elif entry.is_dir(follow_symlinks=False):
                        part.folders.append(name)
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


def is_older(path: str, instant_ms: int) -> bool:
    """Tell whether what is at ``path`` was last changed before an instant; links are not followed.

    What cannot be looked at is not.
    """
    try:
        return os.lstat(path).st_mtime_ns // 1_000_000 < instant_ms
    except OSError:
        return False


def stat_file(path: str, name: str) -> FileInfo | None:
    """Give the facts of the file at ``path``, under ``name``; None for folders and absent names.

    Raises:
        OSError: the file may be there, but cannot be asked about.
    """
    try:
        facts = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return FileInfo(name, facts.st_size, facts.st_mtime_ns // 1_000_000)
