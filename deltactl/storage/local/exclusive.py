"""Put-if-absent on file systems: create a complete file, or fail if the name exists.

The content is written and made durable under a hidden temporary name in the same directory. Then
one system call decides which writer is first. This call is a hard link, which fails if the name
exists. On file systems without links, it is a rename that refuses to replace a file. Code must
never check and then write in two steps: this loses commits.
"""

from __future__ import annotations

import ctypes
import errno
import filecmp
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from deltactl.errors import StorageError
from deltactl.storage.local.files import sync_directory, temp_path, write_new

_NO_LINKS: Final = frozenset({
    errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV,
})  # fmt: skip
# For a file system that does not know the flag, renameat2 returns EINVAL. EXDEV has its own reason:
# unlike links, renames fail so only between file systems.
_NO_EXCLUSIVE_RENAME: Final = _NO_LINKS - {errno.EXDEV} | {errno.EINVAL}

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1  # Linux, linux/fs.h
_RENAME_EXCL: Final = 4  # macOS, sys/stdio.h


def create_exclusively(path: str, data: bytes) -> None:
    """Create ``path``, complete and durable, or change nothing.

    Raises:
        FileExistsError: the file of another writer has the name.
        StorageError: this file system has no system call that creates a file exclusively.
        OSError: any other error; the outcome is unknown.
    """
    directory = os.path.dirname(path)
    temporary = temp_path(directory)
    try:
        write_new(temporary, data)
        _publish_exclusively(temporary, path)
    finally:
        # This also suppresses errors after success: if only the removal fails, the commit must not
        # be reported as failed.
        with suppress(OSError):
            os.unlink(temporary)
    # After this, a power failure cannot remove the commit, so it may be reported.
    sync_directory(directory)


def _publish_exclusively(temporary: str, path: str) -> None:
    """Rename the file at ``temporary`` to ``path`` unless ``path`` exists."""
    try:
        os.link(temporary, path)
    except OSError as error:
        # Over NFS, the reply to a successful link can get lost. Then the client repeats the call,
        # which says "exists" or fails. The number of links does not show this: a backup that makes
        # hard links may have linked the temporary name.
        if _are_same(temporary, path):
            return
        if error.errno not in _NO_LINKS:
            raise
        _rename_exclusively(temporary, path)


def _are_same(path: str, other: str) -> bool:
    """Return whether one file has both names. Two paths that lead to one name are not two names.

    Some file systems have one number for all files, so the contents are compared, too.
    """
    try:
        if not os.path.samestat(os.lstat(path), os.lstat(other)):
            return False
        folders = os.stat(os.path.dirname(path)), os.stat(os.path.dirname(other))
        if os.path.basename(path) == os.path.basename(other) and os.path.samestat(*folders):
            return False
        return filecmp.cmp(path, other, shallow=False)
    except OSError:
        return False


def move_exclusively(path: str, target: str) -> None:
    """Rename a file unless the new name is taken; safe to call again after a crash.

    Raises:
        FileExistsError: another file has the new name.
        FileNotFoundError: no file has the old name.
        StorageError: the file system has neither links nor exclusive renames.
        OSError: any other error.
    """
    try:
        # A link is moved itself, not the file to which it leads.
        os.link(path, target, follow_symlinks=False)
    except FileExistsError:
        # Some network file systems give all files one inode number, but no file two links.
        if not _are_same(path, target) or os.lstat(target).st_nlink < 2:
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            _rename_exclusively(path, target)
        except StorageError:
            if _has_links(os.path.dirname(target)):
                raise error from None  # only this file cannot have another name
            raise
        return
    # Last: if the process ends before this, the file has both names, and none is lost.
    os.unlink(path)


def _has_links(directory: str) -> bool:
    """Return whether a new file in a directory can have a second name."""
    names = temp_path(directory), temp_path(directory)
    try:
        write_new(names[0], b"", durable=False)
        os.link(*names)
    except OSError:
        return False
    finally:
        for name in names:
            with suppress(OSError):
                os.unlink(name)
    return True


def _rename_exclusively(temporary: str, path: str) -> None:
    """Rename with the system call that refuses to replace a file."""
    rename = _find_exclusive_rename()
    if rename is None:
        raise _refusal(path)
    try:
        rename(temporary, path)
    except OSError as error:
        if error.errno in _NO_EXCLUSIVE_RENAME:
            raise _refusal(path) from error
        if error.errno == errno.EXDEV:
            raise OSError(error.errno, "its directory is on another file system") from error
        raise


def _refusal(path: str) -> StorageError:
    return StorageError(
        f"cannot create {os.path.basename(path)!r} safely in {os.path.dirname(path)!r}: this "
        "file system has no hard links. Its renames always replace an existing file, so two "
        "writers could overwrite each other's commits",
        hint="Keep the table on a file system with hard links, or on an object store with "
        "conditional writes.",
    )


def _find_exclusive_rename() -> Callable[[str, str], None] | None:
    """Return this system's function for a rename that fails if the target exists, or ``None``."""
    # Python's os module offers neither of the two calls.
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":  # pragma: no cover
        function = getattr(library, "renamex_np", None)
        excl = ctypes.c_uint(_RENAME_EXCL)
        return _checked(lambda old, new: function(old, new, excl)) if function else None
    function = getattr(library, "renameat2", None)
    here, excl = ctypes.c_int(_AT_FDCWD), ctypes.c_uint(_RENAME_NOREPLACE)
    return _checked(lambda old, new: function(here, old, here, new, excl)) if function else None


def _checked(call: Callable[[bytes, bytes], int]) -> Callable[[str, str], None]:
    def rename(old: str, new: str) -> None:
        if call(os.fsencode(old), os.fsencode(new)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), new)

    return rename
