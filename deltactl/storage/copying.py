"""Copy files from one store to another, in the cheapest way that both support.

The kernel copies local files. An object service copies objects if both stores are on this service.
All other files are read in pieces and written, in bounded memory. A new file is visible only when
it is complete and durable. Parts of an interrupted upload are handled as for any upload
(``Uploads.observed``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from deltactl.errors import ObjectNotFoundError, StorageError
from deltactl.storage.file_copies import (
    CopiedFile,
    FileCopy,
    FileToCopy,
    StoredFacts,
    compare_facts,
    ensure_size,
)
from deltactl.storage.parallel import each_in_parallel, map_requests
from deltactl.storage.store import Store

__all__ = ["CopiedFile", "FileToCopy", "copy_many", "has_same_bytes"]

_PIECE_BYTES: Final = 8 << 20
_AHEAD: Final = 2  # pieces that are read while one is written
# Each large file that is streamed needs memory for three pieces, and for two parts of an upload.
_STREAMS_AT_ONCE: Final = 4
# Copy as many small files at once as there are parallel requests: they mostly wait for answers.
_SMALL_BYTES: Final = 1 << 20
_COMPARED_BYTES: Final = 16 << 20


def has_same_bytes(store: Store, file: FileToCopy, other: Store) -> bool:
    """Return whether a file of a store and its copy, both of the size of ``file``, are equal.

    They are read if the stores have no checksums of the same algorithm.

    Raises:
        StorageError: one of them cannot be read.
    """
    if store.file_copies is not None and other.file_copies is not None:
        before = store.file_copies.facts_of(file.source_path)
        after = other.file_copies.facts_of(file.target_path)
        mine, others = (it.checksums if it is not None else {} for it in (before, after))
        if common := mine.keys() & others.keys():
            return all(mine[it] == others[it] for it in common)
    size = file.size_bytes
    spans = ([(at, min(_COMPARED_BYTES, size - at))] for at in range(0, size, _COMPARED_BYTES))
    return all(
        store.read_ranges(file.source_path, span) == other.read_ranges(file.target_path, span)
        for span in spans
    )


def copy_many(
    source: Store,
    files: Sequence[FileToCopy],
    target: Store,
    *,
    count_bytes: Callable[[int], None] = lambda count: None,
) -> list[CopiedFile]:
    """Copy files, over files of the same names; return the copies in the order of ``files``.

    All are durable when this returns.

    The sizes of each file and its copy are compared. Their checksums are compared if both stores
    have a checksum of the same algorithm. If this raises an error, some files may be copied, each
    of them completely.

    Args:
        source: its reading methods get the names of the files, which may be absolute.
        files: the files to copy; each name in the target once.
        target: gets the copies; names are below its root.
        count_bytes: is called with the size of each file that was copied, from any thread.

    Raises:
        ObjectNotFoundError: a file of the source does not exist.
        StorageError: a file has another size than expected, or a store failed.
    """
    copied = _copy_inside(source, files, target)
    rest = [number for number, done in enumerate(copied) if done is None]

    def stream(number: int) -> CopiedFile:
        done = _stream(source, files[number], target)
        count_bytes(done.size_bytes)
        return done

    small = [number for number in rest if files[number].size_bytes <= _SMALL_BYTES]
    large = [number for number in rest if files[number].size_bytes > _SMALL_BYTES]
    streamed = dict(zip(small, each_in_parallel(stream, small), strict=True))
    streamed |= zip(large, each_in_parallel(stream, large, at_once=_STREAMS_AT_ONCE), strict=True)
    return [streamed[number] if done is None else done for number, done in enumerate(copied)]


def _copy_inside(
    source: Store, files: Sequence[FileToCopy], target: Store
) -> Sequence[CopiedFile | None]:
    """Copy with the service that both stores share; return ``None`` for a file it does not copy."""
    nothing: list[CopiedFile | None] = [None] * len(files)
    theirs, ours = source.file_copies, target.file_copies
    if theirs is None or ours is None or not files:
        return nothing
    copies = [
        FileCopy(file.source_path, file.target_path, file.size_bytes,
                 theirs.origin_of(file.source_path))
        for file in files
    ]  # fmt: skip
    # All files come from one store, so the first shows the service of all.
    if copies[0].origin.service != ours.origin_of(files[0].target_path).service:
        return nothing
    return ours.copy_files(copies)


def _stream(source: Store, file: FileToCopy, target: Store) -> CopiedFile:
    """Read one file in pieces and write it."""
    sink = target.open_replacement(file.target_path)
    try:
        for piece in _pieces(source, file):
            sink.write(piece)
        ensure_size(sink.tell(), file, file.source_path)
        sink.close()
    except BaseException:
        sink.discard()
        raise
    after = _facts(target, file.target_path)
    if after is None:
        raise ObjectNotFoundError(
            f"{file.target_path!r} in {target.uri} does not exist any more after it was copied"
        )
    # If the copy has no checksum, there is nothing to compare: save the request.
    before = _facts(source, file.source_path) if after.checksums else None
    try:
        return CopiedFile(file.size_bytes, "stream", compare_facts(file, before, after))
    except StorageError:
        # The copy differs from the file, so nobody may find it under this name.
        target.delete_many([file.target_path])
        raise


def _pieces(source: Store, file: FileToCopy) -> Iterator[bytes]:
    """Yield the content in order; at the end, request one byte more than the expected size."""
    # The byte more shows a file that is longer than expected: else a part of it would be copied.
    starts = range(0, file.size_bytes + 1, _PIECE_BYTES)
    ranges = [(start, min(_PIECE_BYTES, file.size_bytes + 1 - start)) for start in starts]

    def read(piece: tuple[int, int]) -> bytes:
        (data,) = source.read_ranges(file.source_path, [piece])
        return data

    return map_requests(source, read, ranges, at_once=_AHEAD)


def _facts(store: Store, name: str) -> StoredFacts | None:
    copies = store.file_copies
    if copies is not None:
        return copies.facts_of(name)
    (info,) = store.stat_many([name])
    return None if info is None else StoredFacts(info.size_bytes)
