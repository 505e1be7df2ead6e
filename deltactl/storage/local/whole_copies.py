"""Copy whole local files with the kernel, and sync them in batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from deltactl.storage.errors import mapped_errors
from deltactl.storage.file_copies import FileCopy, ensure_size
from deltactl.storage.local.assembly import copy_range
from deltactl.storage.local.batch_writes import create_batch
from deltactl.storage.local.files import begin_sync, open_new, open_to_read

# The most files that a killed run loses: files get their names after each batch.
_MAX_BATCH_BYTES: Final = 1 << 30
_MAX_BATCH_FILES: Final = 10_000


def copy_together(
    copies: Sequence[FileCopy], place: Callable[[str], str], where: str
) -> Iterator[list[str]]:
    """Copy files in batches; yield the names of each batch. Their directories are not synced.

    Args:
        copies: the files to copy; the address of an origin is its path.
        place: returns the path of a name, and creates its directory.
        where: the store's URI, for errors.

    Raises:
        StorageError: a copy failed; some of the files may have their final names.
    """
    for batch in _batches(copies):
        by_path: dict[str, FileCopy] = {}
        files = ((copy.target_path, partial(_prepare, by_path, copy)) for copy in batch)
        yield create_batch(files, place, where, fill=partial(_copy, by_path, where))


def _prepare(by_path: dict[str, FileCopy], copy: FileCopy, path: str) -> None:
    by_path[path] = copy


def _batches(copies: Sequence[FileCopy]) -> Iterator[list[FileCopy]]:
    batch: list[FileCopy] = []
    size_bytes = 0
    for copy in copies:
        batch.append(copy)
        size_bytes += copy.size_bytes
        if size_bytes >= _MAX_BATCH_BYTES or len(batch) >= _MAX_BATCH_FILES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def _copy(by_path: Mapping[str, FileCopy], where: str, path: str) -> None:
    copy = by_path[path]
    with mapped_errors("copy", copy.source_path, where):
        source = open_to_read(copy.origin.address)
    try:
        ensure_size(os.fstat(source).st_size, copy, copy.source_path)
        target = open_new(path)
        try:
            done = copy_range(source, target, 0, copy.size_bytes)
            # The source may have become shorter meanwhile.
            ensure_size(done, copy, copy.source_path)
            begin_sync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)
