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

    def add(self, rows: pa.Table) -> None:
        """Add the next rows."""
        self._count += rows.num_rows
        self._size_bytes += pc.sum(rows["size_bytes"]).as_py() or 0
        for chunk in rows["encoded_path"].chunks:
            self._paths.add(chunk)
        for chunk in rows["size_bytes"].chunks:
            self._sizes.update(pc.fill_null(chunk, -1).to_numpy().tobytes())
        for chunk in rows["deletion_vector"].chunks:
            self._vectors.add(pc.fill_null(unique_ids(chunk), ""))

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

    def digests(self) -> tuple[str, str]:
        return self._lengths.hexdigest(), self._bytes.hexdigest()
