"""Find commits that remove files which an earlier commit had removed.

Such a commit was planned from an older version, and its writer did not see the conflict: delta-rs
does not compare an overwrite, a delete of all rows or a compaction with an OPTIMIZE that committed
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.keyed_hash import hash_pairs
from deltactl.numpy_types import Hashes, Integers
from deltactl.protocol.path_columns import normalize_paths


@dataclass(slots=True)
class RemoveIndex:
    """Index the adds and removes of commits by path, without deletion vectors.

    A file that got a deletion vector is added again under its path. Memory: 16 bytes for each
    action.
    """

    _paths: list[Hashes] = field(default_factory=list)
    _times: list[Integers] = field(default_factory=list)

    def take(self, parsed: ParsedCommits) -> None:
        """Add the file actions of commits."""
        for files, is_add in ((parsed.adds, 1), (parsed.removes, 0)):
            self._paths.append(_hash(files))
            # The adds of a commit count as later than its removes.
            self._times.append(2 * files["version"].to_numpy() + is_add)

    def find(self, unread: Collection[int]) -> Iterator[tuple[int, int, int]]:
        """Yield versions, the earlier version that removed the same files, and how many these are.

        The earlier commit also added files: otherwise, it put no rows of the files elsewhere. A
        commit that is ``unread`` may have added the files again.
        """
        paths = np.concatenate([np.zeros(0, np.uint64), *self._paths])
        times = np.concatenate([np.zeros(0, np.int64), *self._times])
        order = np.lexsort((times, paths))
        paths, times = paths[order], times[order]
        versions, is_remove = times >> 1, times & 1 == 0
        before, after = versions[:-1], versions[1:]
        gaps = np.sort(np.array(list(unread), np.int64))
        repeated = (paths[1:] == paths[:-1]) & is_remove[1:] & is_remove[:-1] & (before < after)
        repeated &= np.searchsorted(gaps, before) == np.searchsorted(gaps, after)
        repeated &= np.isin(before, versions[~is_remove])
        pairs = np.stack([after[repeated], before[repeated]])
        found, counts = np.unique(pairs, axis=1, return_counts=True)
        for (version, earlier), count in zip(found.T.tolist(), counts.tolist(), strict=True):
            yield version, earlier, count


def _hash(files: pa.Table) -> Hashes:
    return hash_pairs(normalize_paths(files["encoded_path"]))[0]
