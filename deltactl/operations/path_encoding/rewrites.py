"""Which commits wrote files in place of those that they removed, and whether these are still live.

A file that a ``remove`` missed may hold the only copy of its rows by now: its writer wrote them
anew, and another commit removed what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltactl.log.commits.changes import ParsedCommits
from deltactl.log.commits.file_actions import file_keys
from deltactl.protocol.spark_hash import Hashes, hash_names

_Versions = npt.NDArray[np.int64]
_NO_FILES: Final = np.zeros(0, np.uint64)
_NO_VERSIONS: Final = np.zeros(0, np.int64)


@dataclass(slots=True)
class StandIns:
    """Follows the files that some commits added; ``lost`` says which commit removed one first.

    A commit without data change moves rows: what it adds then stands for what it removes. Memory
    holds 16 bytes for each file that is followed.
    """

    lost: dict[int, int] = field(default_factory=dict)
    _files: Hashes = field(default_factory=lambda: _NO_FILES)
    _versions: _Versions = field(default_factory=lambda: _NO_VERSIONS)

    def take(self, parsed: ParsedCommits, first: int, begun: Iterable[int]) -> None:
        """Take commits in their order.

        Args:
            parsed: the commits.
            first: the version of the first of them.
            begun: versions among them whose added files are to be followed.
        """
        wanted = set(begun)
        if not (len(self._files) or wanted):
            return
        added, removed = (hash_names(file_keys(t)) for t in (parsed.adds, parsed.removes))
        changes = parsed.removes["data_change"].fill_null(True).to_numpy(zero_copy_only=False)
        for place in range(len(parsed.commits)):
            adds, removes = _rows_of(parsed.adds, place), _rows_of(parsed.removes, place)
            self._remove(removed[removes], changes[removes], added[adds], first + place)
            if first + place in wanted:
                self._follow(added[adds], first + place)

    def _remove(
        self, removed: Hashes, changes: npt.NDArray[np.bool_], added: Hashes, version: int
    ) -> None:
        if not (len(removed) and len(self._files)):
            return
        is_removed = np.isin(self._files, removed)
        is_lost = np.isin(self._files, removed[changes.astype(np.bool_)])
        for owner in np.unique(self._versions[is_lost]).tolist():
            self.lost.setdefault(owner, version)
        moved = np.unique(self._versions[is_removed & ~is_lost]).tolist()
        self._files, self._versions = self._files[~is_removed], self._versions[~is_removed]
        for owner in moved:
            self._follow(added, owner)

    def _follow(self, files: Hashes, version: int) -> None:
        self._files = np.concatenate([self._files, files])
        owners = np.full(len(files), version, np.int64)
        self._versions = np.concatenate([self._versions, owners])


def _rows_of(files: pa.Table, place: int) -> slice:
    """The rows of one commit; those of a commit lie together, in the order of the commits."""
    places = files["commit"].to_numpy()
    first, last = np.searchsorted(places, [place, place + 1])
    return slice(int(first), int(last))
