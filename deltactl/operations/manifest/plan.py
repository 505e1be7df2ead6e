"""Plan which manifests to write, to keep and to delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from deltactl.errors import ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.content import (
    ManifestLines,
    has_same_lines,
    is_large,
    is_same,
    is_stored,
)
from deltactl.operations.manifest.directories import (
    Alike,
    choose_directories,
    find_alike,
    folder_of,
    is_seen,
    manifest_name,
)
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import planning_now
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.local.files import is_temp_name
from deltactl.storage.store import Store
from deltactl.units import DAY_MS

NEW: Final = "new"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
STALE: Final = "stale"

# Longer than the writing of manifests in any run.
_LEFT_MS: Final = DAY_MS


@dataclass(frozen=True, slots=True)
class PartitionManifest:
    """One partition's manifest: ``folder`` below the root, its files, and the action."""

    folder: str
    num_files: int
    state: str


@dataclass(frozen=True)
class ManifestPlan:
    """The plan of a run; ``stale`` are names of files to delete.

    ``vectors`` counts the files with deletion vectors in the manifests of ``partitions``.
    ``leftovers`` are hidden files of killed runs. ``alike`` are directories that some file systems
    take for one.
    """

    version: int
    table_id: str
    partitions: tuple[PartitionManifest, ...]
    stale: tuple[str, ...]
    leftovers: tuple[str, ...]
    alike: Alike
    vectors: int
    _lines: ManifestLines = field(repr=False)
    _indices: tuple[int, ...] = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: not the contents, which only the run itself writes."""
        return {**self.__dict__, "_lines": None}

    def count(self, state: str) -> int:
        """Return the number of manifests in a state."""
        return sum(1 for partition in self.partitions if partition.state == state)

    @property
    def is_empty(self) -> bool:
        """Return whether every manifest is up to date, and readers return no deleted rows."""
        is_same = not self.stale and self.count(UNCHANGED) == len(self.partitions)
        return is_same and not self.vectors

    def iter_writes(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of each manifest to write that fits the memory."""
        for name, index in self._iter_changed():
            if not is_large(self._lines, index):
                yield name, self._lines.content(index)

    def iter_large(self) -> Iterator[tuple[str, Iterator[memoryview]]]:
        """Yield the name and the parts of the content of each other manifest to write."""
        for name, index in self._iter_changed():
            if is_large(self._lines, index):
                yield name, self._lines.blocks(index)

    def is_first_written(self, output: Store) -> bool:
        """Return whether the first manifest to write is in the store.

        Raises:
            StorageError: the store failed, or there is no such file.
        """
        # Large ones are written last.
        changed = sorted(self._iter_changed(), key=lambda it: is_large(self._lines, it[1]))
        return bool(changed) and is_same(self._lines.blocks(changed[0][1]), output, changed[0][0])

    def _iter_changed(self) -> Iterator[tuple[str, int]]:
        live = (p for p in self.partitions if p.state != STALE)
        for partition, index in zip(live, self._indices, strict=True):
            if partition.state != UNCHANGED:
                yield manifest_name(partition.folder), index


def plan_manifests(
    log: DeltaLog,
    snapshot: Snapshot,
    lines: ManifestLines,
    *,
    output: Store,
    options: ManifestOptions,
    context: RunContext,
) -> ManifestPlan:
    """Compare a version with the manifests in ``output``.

    Raises:
        PredicateError: ``options.where`` is not about partition columns.
        CorruptLogError: the log has a path that manifests do not support.
    """
    folders = lines.folders
    found_names = [name for batch in output.walk(MANIFEST_DIR) for name in batch]
    there = set(filter(is_seen, found_names))
    named = {*folders, *map(folder_of, there)}
    chosen = choose_directories(log, snapshot, named, options, context)
    wanted = [index for index, folder in enumerate(folders) if folder in chosen]
    wanted.sort(key=folders.__getitem__)
    kept = [index for index in wanted if manifest_name(folders[index]) in there]
    states = _compare(lines, kept, output)
    partitions = [
        PartitionManifest(folders[index], int(lines.num_files[index]), states.get(index, NEW))
        for index in wanted
    ]
    current = {manifest_name(folder) for folder in folders}
    stale = sorted(name for name in there - current if folder_of(name) in chosen)
    partitions += [PartitionManifest(folder_of(name), 0, STALE) for name in stale]
    return ManifestPlan(
        snapshot.version,
        snapshot.metadata.id,
        tuple(partitions),
        tuple(stale),
        _find_leftovers(log, snapshot, output, found_names, context),
        find_alike(sorted({*folders, *map(folder_of, there)})),
        int(lines.num_vectors[wanted].sum()),
        lines,
        tuple(wanted),
    )


def find_vectors(
    log: DeltaLog,
    snapshot: Snapshot,
    lines: ManifestLines,
    options: ManifestOptions,
    context: RunContext,
) -> Set[str]:
    """Return the directories of requested partitions whose files have deletion vectors.

    Raises:
        PredicateError: ``options.where`` is not about partition columns.
    """
    folders = lines.folders
    found = {folders[index] for index in np.flatnonzero(lines.num_vectors).tolist()}
    # The manifests of removed partitions may match, too: the plan knows them, and warns.
    quiet = replace(context, warn=ignore_warning)
    return choose_directories(log, snapshot, found, options, quiet) if found else found


def _compare(lines: ManifestLines, kept: Sequence[int], output: Store) -> dict[int, str]:
    """Return whether each of the manifests that are stored is up to date."""
    folders = lines.folders
    names = {index: manifest_name(folders[index]) for index in kept}
    small = [index for index in kept if not is_large(lines, index)]
    contents = output.read_many([names[index] for index in small])
    same = {
        index: has_same_lines(found, lines.content(index))
        for index, found in zip(small, contents, strict=True)
    }
    same |= {
        index: is_stored(lines, index, output, name)
        for index, name in names.items()
        if is_large(lines, index)
    }
    return {index: UNCHANGED if it else CHANGED for index, it in same.items()}


def _find_leftovers(
    log: DeltaLog, snapshot: Snapshot, output: Store, names: Sequence[str], context: RunContext
) -> tuple[str, ...]:
    """Return hidden files of earlier runs that are too old to be in use."""
    hidden = [name for name in names if is_temp_name(name)]
    if not hidden:
        return ()
    before_ms = planning_now(log, snapshot, context, context.clock.now_ms()) - _LEFT_MS
    infos = output.stat_many(hidden)
    return tuple(info.name for info in infos if info and info.modified_ms < before_ms)
