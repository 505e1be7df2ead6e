"""Compare a stored manifest with the lines that it should have, in any order.

Other writers use another order. Large manifests are compared in parts: the lines of both sides are
divided by a hash, and the texts of each part are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from deltactl.operations.manifest.lines import ManifestLines
from deltactl.storage.local.spill import Spill
from deltactl.storage.store import Store

T = TypeVar("T", bytes, memoryview, bytes | memoryview)

_LARGE_BYTES: Final = 32 << 20
_READ_BYTES: Final = 8 << 20
_MEMORY_BYTES: Final = 64 << 20
_PART_BYTES: Final = 16 << 20
_SCHEMA: Final = pa.schema([("line", pa.binary())])


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
        StorageError: the store failed, or the disk for spilled lines is too small.
    """
    if is_same(lines.blocks(number), output, name):
        return True
    num_parts = lines.size_bytes(number) // _PART_BYTES + 1
    with (
        Spill(_SCHEMA, _MEMORY_BYTES) as wanted,
        Spill(_SCHEMA, _MEMORY_BYTES) as found,
    ):
        counts = (
            _divide(lines.blocks(number), wanted, num_parts),
            _divide(_read(output, name), found, num_parts),
        )
        if counts[0] != counts[1]:
            return False
        return all(
            _sorted_lines(wanted, part) == _sorted_lines(found, part) for part in range(num_parts)
        )


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


def _divide(blocks: Iterable[bytes | memoryview], parts: Spill, num_parts: int) -> int:
    """Keep the lines of a text by their hash; return their number."""
    from deltactl.log.keyed_hash import hash_pairs

    count = 0
    for found in _split(blocks):
        lines = pa.array(found, pa.binary())
        hashes, _ = hash_pairs(pa.chunked_array([lines]))
        places = (hashes % np.uint64(num_parts)).astype(np.int64)
        pieces = [
            (part, pa.record_batch([lines.filter(pa.array(places == part))], schema=_SCHEMA))
            for part in range(num_parts)
        ]
        parts.keep(pieces, lines.nbytes)
        count += len(found)
    return count


def _split(blocks: Iterable[bytes | memoryview]) -> Iterator[list[bytes]]:
    """Yield the lines of a text in blocks, as ``splitlines`` gives them."""
    rest = b""
    for block in _cut(blocks):
        whole, end, rest = (rest + block).rpartition(b"\n")
        if end:
            yield (whole + end).splitlines()
    if rest:
        yield rest.splitlines()


def _sorted_lines(parts: Spill, part: int) -> list[bytes]:
    return sorted(line for rows in parts.take(part) for line in rows.column(0).to_pylist())
