"""Keep the lines of all manifests by folder, and compare them with stored manifests.

Lines are in memory, above a limit on disk. Other writers use another order, so large manifests are
compared in parts, by a sum of keyed hashes of 128 bits of all lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.numpy_types import Integers
from deltactl.protocol.arrow_schemas import array_of
from deltactl.storage.local.spill import Spill
from deltactl.storage.store import Store

_MEMORY_BYTES: Final = 128 << 20
_SCHEMA: Final = pa.schema([("line", pa.string())])

T = TypeVar("T", bytes, memoryview, bytes | memoryview)

_LARGE_BYTES: Final = 32 << 20
_READ_BYTES: Final = 8 << 20


class ManifestLines:
    """The lines of the manifest of each folder, in the order of the files.

    Lines end with a line feed. Beyond a limit, they are in a file without a name in the directory
    for temporary files, which ``close`` or the end of the process removes.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._num_files = np.zeros(0, np.int64)
        self._sizes = np.zeros(0, np.int64)
        self._spill = Spill(_SCHEMA, _MEMORY_BYTES)

    @property
    def folders(self) -> Sequence[str]:
        """Return the folder of each manifest."""
        return list(self._numbers)

    @property
    def num_files(self) -> Sequence[int]:
        """Return the number of files in each manifest."""
        found: list[int] = self._num_files.tolist()
        return found

    def size_bytes(self, number: int) -> int:
        """Return the size of a manifest."""
        return int(self._sizes[number])

    def ensure_folder(self, folder: str) -> None:
        """Add a manifest without files, if the folder has none."""
        self._number_folders([folder])

    def add(self, folders: Sequence[str], ids: Integers, lines: pa.Array) -> None:
        """Add a line of each file to the manifest ``folders[id]``.

        Raises:
            StorageError: the disk for spilled lines is too small, full or failed.
        """
        numbers = self._number_folders(folders)[ids]
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        rows = pa.record_batch([lines.take(array_of(order))], schema=_SCHEMA)
        bounds = np.flatnonzero(np.diff(ordered, prepend=-1, append=-1))
        pieces = [
            (int(ordered[first]), rows.slice(first, end - first))
            for first, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
        sizes = pc.binary_length(lines).to_numpy(zero_copy_only=False)
        self._num_files += np.bincount(numbers, minlength=len(self._num_files))
        self._sizes += np.bincount(numbers, sizes, len(self._sizes)).astype(np.int64)
        self._spill.keep(pieces, int(rows.nbytes))

    def _number_folders(self, folders: Sequence[str]) -> Integers:
        numbers = self._numbers
        found = np.array([numbers.setdefault(it, len(numbers)) for it in folders], np.int64)
        new = len(numbers) - len(self._sizes)
        if new:
            self._num_files, self._sizes = (
                np.concatenate([counts, np.zeros(new, np.int64)])
                for counts in (self._num_files, self._sizes)
            )
        return found

    def blocks(self, number: int) -> Iterator[memoryview]:
        """Yield the content of a manifest in parts of at most some 100 MiB.

        Raises:
            StorageError: the file with the lines cannot be read.
        """
        return map(_bytes_of, self._spill.read(number))

    def content(self, number: int) -> bytes:
        """Return the content of a manifest: one line per file.

        Raises:
            StorageError: the file with the lines cannot be read.
        """
        return b"".join(self.blocks(number))

    def close(self) -> None:
        """Free the lines; folders and numbers remain."""
        self._spill.close()


def _bytes_of(rows: pa.RecordBatch) -> memoryview:
    """Return the texts of the rows, one after the other, without a copy."""
    lines = rows.column(0)
    _, offset_buffer, data = lines.buffers()
    if data is None:
        return memoryview(b"")
    offsets = np.frombuffer(offset_buffer, np.int32)[lines.offset :]
    return memoryview(data)[int(offsets[0]) : int(offsets[len(lines)])]


def is_large(lines: ManifestLines, number: int) -> bool:
    """Return whether a manifest is read and written in parts."""
    return lines.size_bytes(number) > _LARGE_BYTES


def has_same_lines(found: bytes, wanted: bytes) -> bool:
    """Return whether two manifests have the same lines."""
    if found == wanted:
        return True
    # Ends of lines have one or two bytes; the last line may have none.
    if abs(len(found) - len(wanted)) > wanted.count(b"\n"):
        return False
    return sorted(found.splitlines()) == sorted(wanted.splitlines())


def is_stored(lines: ManifestLines, number: int, output: Store, name: str) -> bool:
    """Return whether a stored manifest has the lines of a large one.

    Raises:
        StorageError: the store failed, or the file with the lines cannot be read.
    """
    if is_same(lines.blocks(number), output, name):
        return True
    return _sum_lines(lines.blocks(number)) == _sum_lines(_read(output, name))


def is_same(blocks: Iterable[memoryview], output: Store, name: str) -> bool:
    """Return whether a stored file is equal to the blocks."""
    place = 0
    for part in _cut(blocks):
        # Views of other buffers are compared byte by byte, and as signed numbers.
        if output.read_ranges(name, [(place, len(part))])[0] != bytes(part):
            return False
        place += len(part)
    return not output.read_ranges(name, [(place, 1)])[0]


def _read(output: Store, name: str) -> Iterator[bytes]:
    place = 0
    while data := output.read_ranges(name, [(place, _READ_BYTES)])[0]:
        yield data
        place += len(data)


def _cut(blocks: Iterable[T]) -> Iterator[T]:
    """Yield the same bytes in parts that are not large."""
    for block in blocks:
        for first in range(0, len(block), _READ_BYTES):
            yield block[first : first + _READ_BYTES]


def _sum_lines(blocks: Iterable[bytes | memoryview]) -> tuple[int, int]:
    """Return the number of lines of a text, and the sum of their hashes."""
    from deltactl.log.keyed_hash import add_sums, sum_of_hashes

    count = total = 0
    for found in _split(blocks):
        count += len(found)
        total = add_sums(total, sum_of_hashes(pa.array(found, pa.binary())))
    return count, total


def _split(blocks: Iterable[bytes | memoryview]) -> Iterator[list[bytes]]:
    """Yield the lines of a text in blocks, as ``splitlines`` gives them."""
    rest = b""
    for block in _cut(blocks):
        whole, end, rest = (rest + block).rpartition(b"\n")
        if end:
            yield (whole + end).splitlines()
    if rest:
        yield rest.splitlines()
