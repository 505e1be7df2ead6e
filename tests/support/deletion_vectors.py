"""Write deletion vectors as other writers do: run-optimised, several in a file."""

import struct
import zlib
from collections.abc import Iterable
from typing import Final

from pyroaring import BitMap64

from deltactl.protocol.deletion_vectors import FRAME_OVERHEAD, DeletionVector

_FILE_VERSION: Final = b"\x01"
_PORTABLE_MAGIC: Final = 1681511377


def encode_bitmap(bitmap: BitMap64) -> bytes:
    """Return portable, run-optimised bytes with the magic number; ``bitmap`` stays as it is."""
    compact = BitMap64(bitmap)
    compact.run_optimize()
    return struct.pack("<I", _PORTABLE_MAGIC) + compact.serialize()


def encode_vector_file(bitmaps: Iterable[BitMap64]) -> tuple[bytes, list[int]]:
    """Return a whole deletion vector file, and the ``offset`` of each bitmap in it.

    ``size_bytes`` of a descriptor is ``len(encode_bitmap(bitmap))``.
    """
    parts = [_FILE_VERSION]
    offsets: list[int] = []
    position = len(_FILE_VERSION)
    for bitmap in bitmaps:
        payload = encode_bitmap(bitmap)
        offsets.append(position)
        parts += [struct.pack(">i", len(payload)), payload, struct.pack(">I", zlib.crc32(payload))]
        position += len(payload) + FRAME_OVERHEAD
    return b"".join(parts), offsets


def unique_id(vector: DeletionVector) -> str:
    """Return the unique id of a vector (PROTOCOL: Derived Fields)."""
    suffix = "" if vector.offset is None else f"@{vector.offset}"
    return f"{vector.storage_type}{vector.path_or_inline_dv}{suffix}"
