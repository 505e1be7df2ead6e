"""Compute a digest of file actions in their order: how many there are, their sizes and keys.

Two streams of the same rows give the same digest, whatever the sizes of batches are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
        self._paths, self._vectors = _TextHash(), _TextHash()
        self._sizes = hashlib.sha256()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows."""
        sizes = rows.column("size_bytes")
        self._count += rows.num_rows
        self._size_bytes += pc.sum(sizes).as_py() or 0
        self._paths.add(rows.column("encoded_path"))
        self._sizes.update(pc.fill_null(sizes, -1).to_numpy().tobytes())
        vectors = rows.column("deletion_vector")
        if vectors.null_count == rows.num_rows:  # as in most batches
            self._vectors.add_empty(rows.num_rows)
        else:
            self._vectors.add(pc.fill_null(unique_ids(vectors), ""))

    def finish(self) -> Fingerprint:
        """Return the digest of all rows so far."""
        parts = (*self._paths.digests(), *self._vectors.digests(), self._sizes.hexdigest())
        digest = hashlib.sha256("".join(parts).encode()).hexdigest()
        return Fingerprint(self._count, self._size_bytes, digest)


class _TextHash:
    """Hashes lengths and bytes of strings separately, so that batch sizes do not matter."""

    def __init__(self) -> None:
        self._lengths, self._bytes = hashlib.sha256(), hashlib.sha256()

    def add(self, texts: pa.StringArray) -> None:
        if not len(texts):
            return
        _, offset_buffer, data = texts.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[texts.offset :][: len(texts) + 1]
        self._lengths.update(np.diff(offsets).tobytes())
        if data is not None:
            self._bytes.update(memoryview(data)[offsets[0] : offsets[-1]])

    def add_empty(self, count: int) -> None:
        """Add empty texts, whose lengths are zeros of 32 bits."""
        self._lengths.update(bytes(4 * count))

    def digests(self) -> tuple[str, str]:
        return self._lengths.hexdigest(), self._bytes.hexdigest()
