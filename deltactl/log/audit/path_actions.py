"""Compare the file actions of commits by path: with each other, and with the live files.

A commit that removes files which an earlier commit had removed was planned from an older version,
and its writer did not see the conflict: delta-rs does not compare an overwrite, a delete of all
rows or a compaction with an OPTIMIZE that committed first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.keyed_hash import hash_pairs
from deltactl.numpy_types import Hashes, Integers
from deltactl.protocol.path_columns import normalize_paths

_NONE: Final = np.zeros(0, np.uint64)


@dataclass(slots=True)
class PathActions:
    """Index the adds and removes of commits, and live files, by path without deletion vectors.

    A file that got a deletion vector is added again under its path. Memory: 16 bytes for each
    action, and 8 for each live file.
    """

    _paths: list[Hashes] = field(default_factory=list)
    _times: list[Integers] = field(default_factory=list)
    _live: list[Hashes] = field(default_factory=list)

    def take(self, parsed: ParsedCommits) -> None:
        """Add the file actions of commits."""
        for files, is_add in ((parsed.adds, 1), (parsed.removes, 0)):
            self._paths.append(_hash(files))
            # The adds of a commit count as later than its removes.
            self._times.append(2 * files["version"].to_numpy() + is_add)

    def forget_live(self) -> None:
        """Discard the live files."""
        self._live.clear()

    def take_live(self, files: pa.Table) -> None:
        """Add live files."""
        self._live.append(_hash(files))

    def agree(self, first: int, last: int) -> bool:
        """Return whether the files that are live in version ``last`` are those of the commits.

        Of each path, the last action since commit ``first`` decides. From commit 0 on, each live
        file has one. A commit that lost actions differs from a checkpoint that has them.
        """
        paths, times = self._sort()
        chosen = (times >> 1 >= first) & (times >> 1 <= last)
        paths, times = paths[chosen], times[chosen]
        live = np.unique(np.concatenate([_NONE, *self._live]))
        is_last = np.append(paths[1:] != paths[:-1], True)[: len(paths)]
        is_live = np.isin(paths[is_last], live)
        if not np.array_equal(is_live, times[is_last] & 1 == 1):
            return False
        return first > 0 or int(is_live.sum()) == len(live)

    def find_repeated_removes(self, unread: Collection[int]) -> Iterator[tuple[int, int, int]]:
        """Yield versions, the earlier version that removed the same files, and how many these are.

        The earlier commit also added files: otherwise, it put no rows of the files elsewhere. A
        commit that is ``unread`` may have added the files again.
        """
        paths, times = self._sort()
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

    def _sort(self) -> tuple[Hashes, Integers]:
        """Return the paths and times of all actions, by path and time."""
        paths = np.concatenate([_NONE, *self._paths])
        times = np.concatenate([np.zeros(0, np.int64), *self._times])
        order = np.lexsort((times, paths))
        return paths[order], times[order]


def _hash(files: pa.Table) -> Hashes:
    return hash_pairs(normalize_paths(files["encoded_path"]))[0]
