"""Compute a digest of file actions in their order: how many there are, their sizes and keys.

Two streams of the same rows give the same digest, whatever the sizes of batches are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.numpy_types import Bytes
from deltactl.protocol.deletion_vectors import unique_ids


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The digest of a stream of file actions. Sizes are in bytes."""

    count: int
    size_bytes: int
    digest: str


class KeyDigest:
    """Computes the digest of rows with ``encoded_path``, ``deletion_vector`` and ``size_bytes``."""

    def __init__(self) -> None:
        self._count = self._size_bytes = 0
        self._hashes = [hashlib.sha256() for _ in range(5)]

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows."""
        sizes = rows.column("size_bytes")
        self._count += rows.num_rows
        self._size_bytes += pc.sum(sizes).as_py() or 0
        vectors = pc.fill_null(unique_ids(rows.column("deletion_vector")), "")
        parts = [*_split(rows.column("encoded_path")), *_split(vectors), pc.fill_null(sizes, -1)]
        for found, part in zip(self._hashes, parts, strict=True):
            found.update(np.asarray(part).data)

    def finish(self) -> Fingerprint:
        """Return the digest of all rows so far."""
        digest = hashlib.sha256(b"".join(found.digest() for found in self._hashes)).hexdigest()
        return Fingerprint(self._count, self._size_bytes, digest)


def _split(texts: pa.StringArray) -> tuple[pa.Array, Bytes]:
    """Return the lengths and the bytes of strings, so that batch sizes do not matter."""
    _, offset_buffer, data = texts.buffers()
    offsets = np.frombuffer(offset_buffer or bytes(4), np.int32)[texts.offset :]
    found = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[len(texts)]]
    return pc.binary_length(texts), found
