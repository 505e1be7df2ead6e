"""Compare a stored manifest with the lines that it should have, in any order.

Other writers use another order. Large manifests are compared in parts, by a sum of keyed hashes of
128 bits of all lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import pyarrow as pa

from deltactl.operations.manifest.lines import ManifestLines
from deltactl.storage.store import Store

T = TypeVar("T", bytes, memoryview, bytes | memoryview)

_LARGE_BYTES: Final = 32 << 20
_READ_BYTES: Final = 8 << 20


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
