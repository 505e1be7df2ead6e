"""Many files of a disk put together: all written, then all flushed, then all put in place.

A journal takes all that has happened with one write. A flush after each file makes it write for
each; flushes after all files are written mostly find that it has: 10,000 small files took half the
time. Putting them in place then is a moment in which nothing waits for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from deltactl.storage.errors import mapped_errors
from deltactl.storage.local.files import sync_file, take_place, temp_path, write_new

# A disk answers many flushes at once as fast as one: 16 took a tenth of one after the other.
_SYNCS_AT_ONCE: Final = 16
_FEW: Final = 4


def put_together(
    files: Iterable[tuple[str, bytes]], place: Callable[[str], str], where: str
) -> list[str]:
    """Write or replace files, each whole; gives their names, whose folders are still to be flushed.

    Until the last one is written and flushed nothing is changed but for hidden files, which are
    removed if that fails.

    Args:
        files: names and contents.
        place: gives the path of a name, whose folder it makes.
        where: the store's URI, for errors.

    Raises:
        StorageError: the disk refused; of the files some may be in place.
    """
    staged: list[tuple[str, str, str]] = []
    try:
        for name, data in files:
            with mapped_errors("write", name, where):
                path = place(name)
                hidden = temp_path(os.path.dirname(path))
                staged.append((hidden, path, name))
                write_new(hidden, data, durable=False)
        sync_each(sync_file, {hidden: name for hidden, _, name in staged}, "write", where)
        for hidden, path, name in staged:
            with mapped_errors("write", name, where):
                take_place(hidden, path)
    except BaseException:
        for hidden, *_ in staged:
            with suppress(OSError):
                os.unlink(hidden)
        raise
    return [name for *_, name in staged]


def sync_each(
    sync: Callable[[str], None], paths: Mapping[str, str], action: str, where: str
) -> None:
    """Flush each path, many at once.

    Args:
        sync: flushes a path.
        paths: what each stands for.
        action: what failed if it does, before the name.
        where: the store's URI, for errors.

    Raises:
        StorageError: the disk refused.
    """

    def work(some: Iterable[str]) -> None:
        for path in some:
            with mapped_errors(action, paths[path], where):
                sync(path)

    if len(paths) <= _FEW:
        work(paths)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_SYNCS_AT_ONCE, thread_name_prefix="deltactl-sync") as pool:
        shares = [list(islice(paths, n, None, _SYNCS_AT_ONCE)) for n in range(_SYNCS_AT_ONCE)]
        for _ in pool.map(work, shares):
            pass
