"""Write deletion vectors, which the program only reads."""

import struct
import zlib
from collections.abc import Iterable
from typing import Final

from pyroaring import BitMap64

from deltactl.protocol.deletion_vectors import FRAME_OVERHEAD, DeletionVector
from deltactl.protocol.z85 import ALPHABET

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


def z85_encode(data: bytes) -> str:
    """Return 5 characters for each 4 bytes.

    Raises:
        ValueError: the length is not a multiple of 4.
    """
    if len(data) % 4:
        raise ValueError(f"z85 encodes multiples of 4 bytes, not {len(data)}")
    chars: list[str] = []
    for start in range(0, len(data), 4):
        word = int.from_bytes(data[start : start + 4], "big")
        chars.extend(ALPHABET[(word // 85**power) % 85] for power in (4, 3, 2, 1, 0))
    return "".join(chars)
