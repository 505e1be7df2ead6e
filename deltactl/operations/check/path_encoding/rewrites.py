"""Track the files written by commits that also removed files, and whether those are still live.

If a ``remove`` did not match its file, and a later commit removed the files that replaced it, the
file may have the only copy of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.keyed_hash import wide_hash_names
from deltactl.numpy_types import Flags, Integers, WideHashes

_NO_FILES: Final = np.zeros(0, "S16")
_NO_VERSIONS: Final = np.zeros(0, np.int64)


@dataclass(slots=True)
class RewriteTracker:
    """Track files added by some commits; ``removed_by`` is the first commit that removed one.

    A commit with ``dataChange`` false moves rows: the files that it adds replace those that it
    removes. Memory: 24 bytes for each tracked file.
    """

    removed_by: dict[int, int] = field(default_factory=dict)
    _files: WideHashes = field(default_factory=lambda: _NO_FILES)
    _versions: Integers = field(default_factory=lambda: _NO_VERSIONS)

    def take(self, parsed: ParsedCommits, tracked: Iterable[int]) -> None:
        """Process the next commits, in order.

        The added files of the versions in ``tracked`` are tracked from now on.
        """
        wanted = set(tracked)
        if not (len(self._files) or wanted):
            return
        added, removed = (wide_hash_names(file_keys(t)) for t in (parsed.adds, parsed.removes))
        changes = parsed.removes["data_change"].fill_null(True).to_numpy(zero_copy_only=False)
        for version in parsed.versions:
            adds, removes = _rows_of(parsed.adds, version), _rows_of(parsed.removes, version)
            self._remove(removed[removes], changes[removes], added[adds], version)
            if version in wanted:
                self._track(added[adds], version)

    def _remove(self, removed: WideHashes, changes: Flags, added: WideHashes, version: int) -> None:
        if not (len(removed) and len(self._files)):
            return
        is_removed = np.isin(self._files, removed)
        is_lost = np.isin(self._files, removed[changes.astype(np.bool_)])
        for owner in np.unique(self._versions[is_lost]).tolist():
            self.removed_by.setdefault(owner, version)
        moved = np.unique(self._versions[is_removed & ~is_lost]).tolist()
        self._files, self._versions = self._files[~is_removed], self._versions[~is_removed]
        for owner in moved:
            self._track(added, owner)

    def _track(self, files: WideHashes, version: int) -> None:
        self._files = np.concatenate([self._files, files])
        owners = np.full(len(files), version, np.int64)
        self._versions = np.concatenate([self._versions, owners])


def _rows_of(files: pa.Table, version: int) -> slice:
    """Return the rows of one commit; the rows are sorted by version."""
    first, last = np.searchsorted(files["version"].to_numpy(), [version, version + 1])
    return slice(int(first), int(last))
