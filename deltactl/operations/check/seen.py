"""Keys of files as numbers of 64 bits, to be compared without keeping their names."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from deltactl.protocol.spark_hash import Hashes, hash_names


@dataclass(slots=True)
class SeenKeys:
    """Tells which keys of a batch did not come up before.

    They lie in sorted runs, each at least twice as long as the next: to look all of them up, and to
    merge them, takes n log² n steps in the end, however many batches there are.
    """

    _runs: list[Hashes] = field(default_factory=list)

    def take(self, keys: pa.ChunkedArray) -> pa.Array:
        """Whether each key is new, the first time that it is in the batch."""
        hashes = hash_names(keys)
        distinct, places = np.unique(hashes, return_index=True)
        is_new = np.ones(len(distinct), np.bool_)
        for run in self._runs:
            found = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            is_new &= run[found] != distinct
        self._keep(distinct[is_new])
        mask = np.zeros(len(hashes), np.bool_)
        mask[places[is_new]] = True
        return pa.array(mask)

    def _keep(self, run: Hashes) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
