"""A fingerprint of a version's live files that does not depend on their order.

For comparing two ways to rebuild one version. Memory holds a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.file_actions import file_keys
from deltactl.protocol.spark_hash import SPARK_SEED, hash_texts

STATE_COLUMNS = ("path", "deletion_vector", "size_bytes")
_OTHER_SEED = 0x9E3779B9


@dataclass(frozen=True, slots=True)
class StateDigest:
    """How many files, their bytes, and the sum of a 64-bit hash over (path, vector, size)."""

    num_files: int = 0
    size_bytes: int = 0
    keys: int = 0

    def describe_difference(self, other: StateDigest) -> str | None:
        """What tells the two apart, in words; ``None`` when nothing does."""
        if self.num_files != other.num_files:
            return f"{self.num_files} files instead of {other.num_files}"
        if self.size_bytes != other.size_bytes:
            return f"{self.size_bytes} bytes of files instead of {other.size_bytes}"
        return "other files than the log says" if self.keys != other.keys else None


def digest_state(batches: Iterable[pa.Table]) -> StateDigest:
    """The digest of batches with ``STATE_COLUMNS``."""
    num_files = size_bytes = keys = 0
    for batch in batches:
        num_files += batch.num_rows
        size_bytes += pc.sum(batch["size_bytes"]).as_py() or 0
        sizes = pc.fill_null(batch["size_bytes"], -1).cast(pa.string())
        texts = pc.binary_join_element_wise(file_keys(batch), sizes, "\0")
        for chunk in texts.chunks:
            low = hash_texts(chunk, SPARK_SEED).view(np.uint32).astype(np.uint64)
            high = hash_texts(chunk, _OTHER_SEED).view(np.uint32).astype(np.uint64)
            keys += int(np.sum(low | high << np.uint64(32), dtype=np.uint64))
    return StateDigest(num_files, size_bytes, keys % 2**64)
