"""Compare the file actions of commits by path: with each other, and with the live files.

A commit that removes files which an earlier commit had removed was planned from an older version,
and its writer did not see the conflict: delta-rs does not compare an overwrite, a delete of all
rows or a compaction with an OPTIMIZE that committed first.

A commit that removes a file which no earlier commit added shows that a commit is not the one that
was written: for example, an older copy of another version replaced it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.audit.path_texts import names_below_root
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.keyed_hash import hash_pairs
from deltactl.numpy_types import Flags, Hashes, Integers
from deltactl.protocol.path_columns import normalize_paths
from deltactl.protocol.vacuum_names import vector_mask
from deltactl.units import format_count

_NONE: Final = np.zeros(0, np.uint64)


@dataclass(slots=True)
class PathActions:
    """Index the adds and removes of commits, and live files, by path without deletion vectors.

    A file that got a deletion vector is added again under its path. Memory: 24 bytes for each
    action, and 8 for each live file.
    """

    _paths: list[Hashes] = field(default_factory=list)
    _keys: list[Hashes] = field(default_factory=list)
    _times: list[Integers] = field(default_factory=list)
    _live: list[Hashes] = field(default_factory=list)

    def take(self, parsed: ParsedCommits) -> None:
        """Add the file actions of commits."""
        for files, times in _list_actions(parsed):
            paths = _hash(files)
            self._paths.append(paths)
            self._keys.append(_hash_keys(files, paths))
            self._times.append(times)

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
        paths, times, _ = _sort(self._paths, self._times)
        chosen = (times >> 1 >= first) & (times >> 1 <= last)
        paths, times = paths[chosen], times[chosen]
        live = np.unique(np.concatenate([_NONE, *self._live]))
        is_last = np.append(paths[1:] != paths[:-1], True)[: len(paths)]
        is_live = np.isin(paths[is_last], live)
        if not np.array_equal(is_live, times[is_last] & 1 == 1):
            return False
        return first > 0 or int(is_live.sum()) == len(live)

    def find_repeated_removes(self, read: Collection[int]) -> Iterator[tuple[int, int, int]]:
        """Yield versions, the earlier version that removed the same files, and how many these are.

        The earlier commit also added files: otherwise, it put no rows of the files elsewhere. If it
        removed another deletion vector, it may have left the file live. A commit between the two
        that is not among those ``read`` may have added the files again.
        """
        paths, times, order = _sort(self._paths, self._times)
        keys = np.concatenate([_NONE, *self._keys])[order]
        versions, is_remove = times >> 1, times & 1 == 0
        before, after = versions[:-1], versions[1:]
        known = np.sort(np.array(list(read), np.int64))
        repeated = (paths[1:] == paths[:-1]) & is_remove[1:] & is_remove[:-1] & (before < after)
        repeated &= np.searchsorted(known, after) - np.searchsorted(known, before) == after - before
        repeated &= np.isin(before, versions[~is_remove])
        repeated &= _follow_removes(keys, times)[1:]
        pairs = np.stack([after[repeated], before[repeated]])
        found, counts = np.unique(pairs, axis=1, return_counts=True)
        for (version, earlier), count in zip(found.T.tolist(), counts.tolist(), strict=True):
            yield version, earlier, count


@dataclass(slots=True)
class NameActions:
    """Index the adds and removes of commits by name, to find removes of unknown files.

    ``uri`` is the address of the table. Memory: 16 bytes for each action.
    """

    uri: str
    _names: list[Hashes] = field(default_factory=list)
    _times: list[Integers] = field(default_factory=list)

    def take(self, parsed: ParsedCommits) -> None:
        """Add the file actions of commits."""
        for files, times in _list_actions(parsed):
            self._names.append(_hash_names(self.uri, files))
            self._times.append(times)

    def find_unknown_removes(self, after: int, base: Iterable[pa.Table] = ()) -> dict[int, int]:
        """Return how many files each commit removes that nothing before it has, by version.

        The commits after version ``after`` are searched, with ``base``, the files and the
        tombstones of this version. All path texts of a file count as one.
        """
        names, times, _ = _sort(self._names, self._times)
        is_first = np.append(True, names[1:] != names[:-1])[: len(names)]
        is_unknown = is_first & (times & 1 == 0) & (times >> 1 > after)
        names, versions = names[is_unknown], times[is_unknown] >> 1
        batches = iter(base)
        while len(names) and (files := next(batches, None)) is not None:
            is_unknown = ~np.isin(names, _hash_names(self.uri, files))
            names, versions = names[is_unknown], versions[is_unknown]
        found, counts = np.unique(versions, return_counts=True)
        return dict(zip(found.tolist(), counts.tolist(), strict=True))

    def find_unrestored(self, targets: Mapping[int, int]) -> dict[int, int]:
        """Return how many live files each RESTORE should have removed, by version.

        ``targets`` has the version that each restored. These files were added after it, up to the
        RESTORE. All commits from version 0 on must have been taken.
        """
        names, times, _ = _sort(self._names, self._times)
        starts = np.flatnonzero(np.append(True, names[1:] != names[:-1])[: len(names)])
        last = times[np.append(starts[1:], len(names))[: len(starts)] - 1]
        found = {}
        for version, target in targets.items():
            is_new = (last & 1 == 1) & (last >> 1 > target) & (last >> 1 <= version)
            if is_new.any():
                then = np.maximum.reduceat(np.where(times >> 1 <= target, times, 0), starts)
                if count := int(np.count_nonzero(is_new & (then & 1 == 0))):
                    found[version] = count
        return found

    def count_live(self, versions: Iterable[int]) -> dict[int, int]:
        """Return the number of live files by version, if all commits have been taken."""
        names, times, _ = _sort(self._names, self._times)
        found = {}
        for version in versions:
            chosen = times >> 1 <= version
            kept, then = names[chosen], times[chosen]
            is_last = np.append(kept[1:] != kept[:-1], True)[: len(kept)]
            found[version] = int(np.count_nonzero(then[is_last] & 1))
        return found


class FirstActions(Visitor):
    """Takes the file actions of the commits from version 0 on, if version 0 is among them.

    ``begins``: whether it will be, if it does not come first.
    """

    def __init__(self, uri: str, *, begins: bool = False) -> None:
        super().__init__()
        self._actions = NameActions(uri)
        self._taken: set[int] = set()
        self._begins = begins

    def see(self, commit: CommitBytes) -> bool:
        """Return whether commit 0 was seen, or will be."""
        self._begins |= commit.version == 0
        return self._begins

    def visit(self, commits: ParsedCommits) -> None:
        """Take the file actions."""
        self._actions.take(commits)
        self._taken.update(commits.versions)

    def find_unknown_removes(self) -> dict[int, str]:
        """Return a problem of each commit that removes files that none before it added.

        Empty if a commit between the first and the last one was not taken.
        """
        if not self._taken.issuperset(range(max(self._taken, default=0))):
            return {}
        found = self._actions.find_unknown_removes(-1)
        return {it: describe_unknown(count) for it, count in found.items()}


def describe_unknown(count: int) -> str:
    """Return the problem of a commit that removes files that nothing before it has."""
    return (
        f"it removes {format_count(count, 'file')} that no earlier commit adds: another commit "
        "may have replaced it or one of the earlier commits"
    )


def _list_actions(parsed: ParsedCommits) -> Iterator[tuple[pa.Table, Integers]]:
    """Yield the adds and the removes of commits, with their times.

    A writer that drops the feature deletionVectors commits removes of the files of vectors, which
    no commit adds.
    """
    removes = parsed.removes.filter(pc.invert(vector_mask(parsed.removes["path"])))
    for files, is_add in ((parsed.adds, 1), (removes, 0)):
        # The adds of a commit count as later than its removes.
        yield files, 2 * files["version"].to_numpy() + is_add


def _sort(hashes: list[Hashes], times: list[Integers]) -> tuple[Hashes, Integers, Integers]:
    """Return the hashes and times of all actions by hash and time, and the order of the actions."""
    found = np.concatenate([_NONE, *hashes])
    at = np.concatenate([np.zeros(0, np.int64), *times])
    order = np.lexsort((at, found))
    return found[order], at[order], order


def _follow_removes(keys: Hashes, times: Integers) -> Flags:
    """Return for each action whether the action before it on the same key is a remove."""
    order = np.lexsort((times, keys))
    is_same, is_remove = keys[order][1:] == keys[order][:-1], times[order][:-1] & 1 == 0
    found = np.zeros(len(keys), np.bool_)
    found[order[1:]] = is_same & is_remove
    return found


def _hash_keys(files: pa.Table, paths: Hashes) -> Hashes:
    """Return hashes of the paths with the ids of the vectors; without vectors, the ``paths``."""
    vectors = files["deletion_vector"]
    if vectors.null_count == len(vectors):
        return paths
    return hash_pairs(file_keys(files))[0]


def _hash_names(uri: str, files: pa.Table) -> Hashes:
    return hash_pairs(names_below_root(uri, files))[0]


def _hash(files: pa.Table) -> Hashes:
    return hash_pairs(normalize_paths(files["encoded_path"]))[0]
