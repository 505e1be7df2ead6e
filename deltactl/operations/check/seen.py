"""A set of file keys, held as hashes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from deltactl.operations.keyed_hash import WideHashes, wide_hash_names


@dataclass(slots=True)
class SeenKeys:
    """Finds the keys of a batch that were not seen before.

    A file whose hash equals that of another is not checked, so hashes have 127 bits, under a key
    that nobody knows. They are held in sorted runs, each at least twice as long as the next:
    lookups and merges take n log² n steps in total, for any number of batches.
    """

    _runs: list[WideHashes] = field(default_factory=list)

    def take(self, keys: pa.ChunkedArray) -> pa.Array:
        """Return a mask: true at the first occurrence of each key that was not seen before."""
        hashes = wide_hash_names(keys)
        distinct, positions = np.unique(hashes, return_index=True)
        is_new = np.ones(len(distinct), np.bool_)
        for run in self._runs:
            found = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            is_new &= run[found] != distinct
        self._keep(distinct[is_new])
        mask = np.zeros(len(hashes), np.bool_)
        mask[positions[is_new]] = True
        return pa.array(mask)

    def _keep(self, run: WideHashes) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
