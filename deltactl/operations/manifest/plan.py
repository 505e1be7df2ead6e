"""Which manifests to write, to leave and to delete: the snapshot against what is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from deltactl.errors import CorruptLogError, Warn
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.content import (
    MANIFEST_NAME,
    LiveFiles,
    Manifests,
    render_manifests,
)
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.predicate.parse import PartitionPredicate, parse_predicate
from deltactl.operations.touched_partitions import find_touched
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.partitions import build_map
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.protocol.schema import Field
from deltactl.storage.local.files import is_temp_name
from deltactl.storage.store import Store
from deltactl.units import DAY_MS

NEW: Final = "new"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
STALE: Final = "stale"

# No run writes manifests for so long.
_LEFT_MS: Final = DAY_MS


@dataclass(frozen=True, slots=True)
class PartitionManifest:
    """One partition's manifest: ``folder`` below the root, files it names, what is to be done."""

    folder: str
    num_files: int
    state: str


@dataclass(frozen=True)
class ManifestPlan:
    """What a run would write and delete; ``stale`` are names of files to delete.

    ``leftovers`` are hidden files that killed runs of ours left.
    """

    version: int
    table_id: str
    partitions: tuple[PartitionManifest, ...]
    stale: tuple[str, ...]
    leftovers: tuple[str, ...]
    _manifests: Manifests = field(repr=False)
    _indices: tuple[int, ...] = field(repr=False)

    def count(self, state: str) -> int:
        """How many manifests are in a state."""
        return sum(1 for partition in self.partitions if partition.state == state)

    @property
    def is_empty(self) -> bool:
        """Whether every manifest says what it should."""
        return not self.stale and self.count(UNCHANGED) == len(self.partitions)

    def iter_writes(self) -> Iterator[tuple[str, bytes]]:
        """Name and content of each manifest to write."""
        live = (p for p in self.partitions if p.state != STALE)
        for partition, index in zip(live, self._indices, strict=True):
            if partition.state != UNCHANGED:
                yield manifest_name(partition.folder), self._manifests.content(index)


def manifest_name(folder: str) -> str:
    """Where the manifest of a partition lies, relative to the root."""
    return "/".join(part for part in (MANIFEST_DIR, folder, MANIFEST_NAME) if part)


def plan_manifests(
    snapshot: Snapshot,
    live: LiveFiles,
    output: Store,
    options: ManifestOptions,
    *,
    now_ms: int,
    warn: Warn,
) -> ManifestPlan:
    """Compare a version with the manifests in ``output``.

    Raises:
        PredicateError: ``options.where`` is not about partition columns.
        CorruptLogError: the log names what no manifest can.
        StorageError: the store failed.
    """
    manifests = render_manifests(live, snapshot.store.uri, options.schemes)
    found_names = [name for batch in output.walk(MANIFEST_DIR) for name in batch]
    there = set(filter(is_seen, found_names))
    folders = {*manifests.folders, *map(_folder_of, there)}
    chosen = _choose_folders(snapshot, folders, options, warn)
    wanted = [index for index, folder in enumerate(manifests.folders) if folder in chosen]
    wanted.sort(key=manifests.folders.__getitem__)
    names = [manifest_name(manifests.folders[index]) for index in wanted]
    kept = [(index, name) for index, name in zip(wanted, names, strict=True) if name in there]
    contents = output.read_many([name for _, name in kept])
    states = {
        index: UNCHANGED if _says_the_same(found, manifests.content(index)) else CHANGED
        for (index, _), found in zip(kept, contents, strict=True)
    }
    partitions = [
        PartitionManifest(
            manifests.folders[index], manifests.num_files[index], states.get(index, NEW)
        )
        for index in wanted
    ]
    current = {manifest_name(folder) for folder in manifests.folders}
    stale = sorted(name for name in there - current if _folder_of(name) in chosen)
    partitions += [PartitionManifest(_folder_of(name), 0, STALE) for name in stale]
    return ManifestPlan(
        snapshot.version,
        snapshot.metadata.id,
        tuple(partitions),
        tuple(stale),
        _find_leftovers(output, found_names, now_ms),
        manifests,
        tuple(wanted),
    )


def is_seen(name: str) -> bool:
    """Whether engines read a file: hidden ones they leave out."""
    return name.rpartition("/")[2][:1] not in ("_", ".")


def _find_leftovers(output: Store, names: Sequence[str], now_ms: int) -> tuple[str, ...]:
    """Our hidden files of which nobody can be writing any more."""
    hidden = [name for name in names if is_temp_name(name)]
    infos = output.stat_many(hidden) if hidden else ()
    return tuple(info.name for info in infos if info and info.modified_ms < now_ms - _LEFT_MS)


def _folder_of(name: str) -> str:
    return name.removeprefix(MANIFEST_DIR).strip("/").rpartition("/")[0]


def _says_the_same(found: bytes, wanted: bytes) -> bool:
    # The order of lines is nobody's business: other writers have other orders.
    return found == wanted or sorted(found.splitlines()) == sorted(wanted.splitlines())


def _choose_folders(
    snapshot: Snapshot, folders: Set[str], options: ManifestOptions, warn: Warn
) -> Set[str]:
    """Those of ``folders`` that were asked for."""
    chosen = folders
    if options.where is not None:
        predicate = parse_predicate(options.where, snapshot.metadata.partition_fields)
        chosen = _matching(predicate, sorted(chosen), snapshot.metadata.partition_fields)
    if options.since is not None:
        touched = find_touched(snapshot, options.since, warn)
        chosen = chosen if touched is None else chosen & touched
    return chosen


def _matching(
    predicate: PartitionPredicate, folders: Sequence[str], fields: Sequence[Field]
) -> set[str]:
    parsed = [(folder, parse_folder(folder, fields)) for folder in folders]
    known = [(folder, values) for folder, values in parsed if values is not None]
    columns = {
        f.physical_name: pa.array([values[f.physical_name] for _, values in known], pa.string())
        for f in fields
    }
    try:
        answers = predicate.evaluate(build_map(columns, num_rows=len(known))).to_pylist()
    except CorruptLogError:
        # A folder that nobody of ours made: one by one, so that it stands alone.
        if len(known) == 1:
            return set()
        return {hit for folder, _ in known for hit in _matching(predicate, [folder], fields)}
    return {folder for (folder, _), hit in zip(known, answers, strict=True) if hit}


def parse_folder(folder: str, fields: Sequence[Field]) -> dict[str, str | None] | None:
    """The partition values behind a manifest's folder; ``None`` if it is none of the table's."""
    parts = folder.split("/") if folder else []
    if len(parts) != len(fields):
        return None
    values: dict[str, str | None] = {}
    for part, column in zip(parts, fields, strict=True):
        name, equals, value = part.partition("=")
        if not equals or hive_unescape(name) != column.name:
            return None
        values[column.physical_name] = hive_value(value)
    return values
