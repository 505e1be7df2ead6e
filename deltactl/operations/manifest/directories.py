"""The directories of manifests: their names, and the partitions that they are of.

Manifests of several partitions in one directory are refused: some file systems take several names
for one directory, if they differ only in upper and lower case or in their Unicode form. Then the
manifest of one partition would replace that of another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

import pyarrow as pa

from deltactl.errors import CorruptLogError, SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.content import MANIFEST_NAME
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.partition_groups import find_touched
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import partition_type
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.partitions import build_map, parse_partition_column
from deltactl.protocol.paths import hive_unescape, hive_value
from deltactl.protocol.schema import Field
from deltactl.storage.names import OWN_DIR, is_utf8
from deltactl.storage.store import Store

if TYPE_CHECKING:  # only --where needs it
    from deltactl.operations.predicate.parse import PartitionPredicate

Alike = tuple[tuple[str, str], ...]
Partitions = Mapping[str, Mapping[str, str | None]]


def manifest_name(folder: str) -> str:
    """Return the name of a partition's manifest, relative to the root."""
    return "/".join(part for part in (MANIFEST_DIR, folder, MANIFEST_NAME) if part)


def folder_of(name: str) -> str:
    """Return the directory of a manifest, as ``PartitionManifest`` has it."""
    return name.removeprefix(MANIFEST_DIR).strip("/").rpartition("/")[0]


def is_seen(name: str) -> bool:
    """Return whether engines read a file: they ignore hidden ones."""
    return name.rpartition("/")[2][:1] not in ("_", ".")


def choose_directories(
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
    foreign = folders - partitions.keys()
    if options.since is not None and not foreign:  # else their writer had another layout
        touched = find_touched(log, snapshot, options.since)
        chosen = chosen if touched is None else chosen & touched
    if foreign and chosen != partitions.keys():
        context.warn(
            f"{manifest_name(min(foreign))!r} is not of a partition that {snapshot.store.uri} can "
            "have now: such manifests are stale, also if they are not selected. Only a run without "
            f"{option('where')} writes those of all partitions"
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
