"""Plan which manifests to write, to keep and to delete.

Manifests of several partitions in one directory are refused: some file systems take several names
for one directory, if they differ only in upper and lower case or in their Unicode form. Then the
manifest of one partition would replace that of another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from deltactl.errors import CorruptLogError, SafetyError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.content import (
    MANIFEST_NAME,
    ManifestLines,
    has_same_lines,
    is_large,
    is_same,
    is_stored,
)
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.partition_groups import find_touched
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import planning_now
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import partition_type
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.partitions import build_map, parse_partition_column
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.protocol.schema import Field
from deltactl.storage.local.files import is_temp_name
from deltactl.storage.names import OWN_DIR, is_utf8
from deltactl.storage.store import Store
from deltactl.units import DAY_MS

if TYPE_CHECKING:  # only --where needs it
    from deltactl.operations.predicate.parse import PartitionPredicate

NEW: Final = "new"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
STALE: Final = "stale"

# Longer than the writing of manifests in any run.
_LEFT_MS: Final = DAY_MS

Alike = tuple[tuple[str, str], ...]
Partitions = Mapping[str, Mapping[str, str | None]]


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
        """Return whether every manifest is up to date."""
        return not self.stale and self.count(UNCHANGED) == len(self.partitions)

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
                yield _manifest_name(partition.folder), index


def _manifest_name(folder: str) -> str:
    """Return the name of a partition's manifest, relative to the root."""
    return "/".join(part for part in (MANIFEST_DIR, folder, MANIFEST_NAME) if part)


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
    folders, num_files = lines.folders, lines.num_files
    found_names = [name for batch in output.walk(MANIFEST_DIR) for name in batch]
    there = set(filter(is_seen, found_names))
    named = {*folders, *map(_folder_of, there)}
    chosen = _choose_directories(log, snapshot, named, options, context)
    wanted = [index for index, folder in enumerate(folders) if folder in chosen]
    wanted.sort(key=folders.__getitem__)
    kept = [index for index in wanted if _manifest_name(folders[index]) in there]
    states = _compare(lines, kept, output)
    partitions = [
        PartitionManifest(folders[index], num_files[index], states.get(index, NEW))
        for index in wanted
    ]
    current = {_manifest_name(folder) for folder in folders}
    stale = sorted(name for name in there - current if _folder_of(name) in chosen)
    partitions += [PartitionManifest(_folder_of(name), 0, STALE) for name in stale]
    return ManifestPlan(
        snapshot.version,
        snapshot.metadata.id,
        tuple(partitions),
        tuple(stale),
        _find_leftovers(log, snapshot, output, found_names, context),
        find_alike(sorted({*folders, *map(_folder_of, there)})),
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
    return _choose_directories(log, snapshot, found, options, quiet) if found else found


def _compare(lines: ManifestLines, kept: Sequence[int], output: Store) -> dict[int, str]:
    """Return whether each of the manifests that are stored is up to date."""
    names = {index: _manifest_name(lines.folders[index]) for index in kept}
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


def is_seen(name: str) -> bool:
    """Return whether engines read a file: they ignore hidden ones."""
    return name.rpartition("/")[2][:1] not in ("_", ".")


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


def _folder_of(name: str) -> str:
    return name.removeprefix(MANIFEST_DIR).strip("/").rpartition("/")[0]


def _choose_directories(
    log: DeltaLog,
    snapshot: Snapshot,
    folders: Set[str],
    options: ManifestOptions,
    context: RunContext,
) -> Set[str]:
    """Return the directories in ``folders`` that were requested; warn if ``where`` matches none.

    Those that are not partitions of the table, as after it was repartitioned, always count: engines
    would read the files that they list beside those of the partitions.
    """
    if options.where is None and options.since is None:
        return folders
    fields = snapshot.metadata.partition_fields
    partitions = _find_partitions(folders, fields)
    chosen = set(partitions)
    if options.where is not None:
        from deltactl.operations.predicate.parse import parse_predicate

        predicate = parse_predicate(options.where, fields, context.clock.now_ms())
        chosen = _matching(predicate, partitions, fields)
        if not chosen:
            context.warn(predicate.no_match(snapshot.store.uri, snapshot.version))
    if options.since is not None:
        touched = find_touched(log, snapshot, options.since)
        chosen = chosen if touched is None else chosen & touched
    foreign = folders - partitions.keys()
    if foreign and chosen != partitions.keys():
        context.warn(
            f"{_manifest_name(min(foreign))!r} is not of a partition that {snapshot.store.uri} can "
            "have now: such manifests are stale, also if they are not selected. Only a run without "
            f"{option('where')} and {option('since')} writes those of all partitions"
        )
    return chosen | foreign


def _find_partitions(folders: Iterable[str], fields: Sequence[Field]) -> Partitions:
    """Return the partition values of the directories that can be partitions of these columns."""
    parsed = {folder: parse_directory(folder, fields) for folder in sorted(folders)}
    found = {folder: values for folder, values in parsed.items() if values is not None}
    try:
        for column in fields:
            parse_partition_column(_texts_of(found, column), partition_type(column))
    except CorruptLogError:
        # A directory not made by deltactl: parsed separately, so that an error affects only it.
        if len(found) == 1:
            return {}
        each = (_find_partitions([folder], fields) for folder in found)
        return {folder: values for one in each for folder, values in one.items()}
    return found


def _texts_of(partitions: Partitions, column: Field) -> pa.Array:
    return pa.array([it[column.physical_name] for it in partitions.values()], pa.string())


def _matching(
    predicate: PartitionPredicate, partitions: Partitions, fields: Sequence[Field]
) -> set[str]:
    columns = {column.physical_name: _texts_of(partitions, column) for column in fields}
    answers = predicate.evaluate(build_map(columns, num_rows=len(partitions))).to_pylist()
    return {folder for folder, hit in zip(partitions, answers, strict=True) if hit}


def parse_directory(folder: str, fields: Sequence[Field]) -> dict[str, str | None] | None:
    """Return the partition values of a manifest's directory; ``None`` if it is not a partition."""
    parts = folder.split("/") if folder else []
    if len(parts) != len(fields) or not is_utf8(folder):
        return None
    values: dict[str, str | None] = {}
    for part, column in zip(parts, fields, strict=True):
        name, equals, value = part.partition("=")
        if not equals or hive_unescape(name) != column.name:
            return None
        values[column.physical_name] = hive_value(value)
    return values


def find_alike(folders: Iterable[str]) -> Alike:
    """Return pairs of directories that such a file system may take for one."""
    first: dict[str, str] = {}
    pairs = []
    for folder in folders:
        other = first.setdefault(unicodedata.normalize("NFKC", folder).casefold(), folder)
        if other != folder:
            pairs.append((other, folder))
    return tuple(pairs)


def ensure_distinct(output: Store, alike: Alike) -> None:
    """Try with a file of these names whether the file system distinguishes them.

    Raises:
        SafetyError: it does not.
    """
    for one, other in alike:
        parts = zip(one.split("/"), other.split("/"), strict=False)
        probe, alias = next((f"{OWN_DIR}/{a}", f"{OWN_DIR}/{b}") for a, b in parts if a != b)
        output.put(probe, b"")
        is_same = output.stat_many([alias]) != [None]
        output.delete_many([probe])
        if is_same:
            raise SafetyError(
                f"no manifest was written: {output.uri} is on a file system that takes {one!r} and "
                f"{other!r} for one directory, so one manifest would replace the other",
                hint=f"Rerun with {option('output_root')} and an address whose file system "
                "distinguishes these names.",
            )
