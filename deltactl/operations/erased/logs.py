"""Search the log of a table, and collect the files that its actions name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, SafetyError, UsageError
from deltactl.log.audit.stored_actions import StoredActions, read_stored_actions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.keyed_hash import SeenKeys
from deltactl.log.physical_names import locate
from deltactl.log.snapshot import Snapshot
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.report import LATEST
from deltactl.operations.erased.sought import (
    SoughtTexts,
    Variant,
    any_mask,
    bounds_mask,
    partition_mask,
    tags_mask,
)
from deltactl.operations.erased.texts import find_parts
from deltactl.protocol.arrow_schemas import STRING_MAP
from deltactl.storage.store import FileInfo
from deltactl.units import DAY_MS

_NAMED: Final = pa.schema([("name", pa.string()), ("partition_values", STRING_MAP)])
_REMOVED: Final = pa.schema([("name", pa.string()), ("removed_ms", pa.int64())])

BOUNDS, PARTITIONS, NAMES = "minima and maxima", "partition values", "paths"
TAGS: Final = "tags"


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Files in actions: partition values by ``name``, and ``removed`` with the last time."""

    files: pa.Table
    removed: pa.Table


def search_log(
    snapshot: Snapshot,
    files: Sequence[FileInfo],
    variants: Sequence[Variant],
    texts: SoughtTexts | None,
    found: Found,
) -> NamedFiles:
    """Search all files of the log; return the files that they name."""
    seen, named, removed = SeenKeys(), [_NAMED.empty_table()], [_REMOVED.empty_table()]
    retention_ms, counted = None, set[str]()
    latest = DeltaLog.commit_file(snapshot.version)
    with suppress(UsageError):  # an invalid property: the end is not known
        retention_ms = snapshot.properties.log_retention_ms
    for part in read_stored_actions(snapshot.store, files, snapshot.metadata):
        found.ensure_running()
        hits = find_in_part(part, part.place, variants, texts, found)
        for index, what, count in hits:
            file = part.files[index]
            until = None if retention_ms is None else _midnight(file.modified_ms + retention_ms)
            is_new = file.name not in counted
            counted.add(file.name)
            place = LATEST if file.name == latest else part.place
            found.add(place, files=is_new, entries=count, until_ms=until, part=what)
        names = part.actions["path"]
        with suppress(SafetyError):  # on another kind of storage: it is in no listing
            names = pc.coalesce(locate(snapshot.store, names), names)
        both = pa.table([names, part.actions["partition_values"]], schema=_NAMED)
        both = both.filter(names.is_valid())
        named.append(both.filter(seen.take(both["name"])))
        times = pa.table([names, part.actions["removed_ms"]], schema=_REMOVED)
        removed.append(times.filter(times["removed_ms"].is_valid()))
    found.counts.log_files += len(files)
    last = pa.concat_tables(removed).group_by("name").aggregate([("removed_ms", "max")])
    return NamedFiles(pa.concat_tables(named), last)


def _midnight(instant_ms: int) -> int:
    """Return the next midnight (UTC): a log cleanup deletes what was expired at the last one."""
    return -(-instant_ms // DAY_MS) * DAY_MS


def find_in_part(
    part: StoredActions,
    place: str,
    variants: Sequence[Variant],
    texts: SoughtTexts | None,
    found: Found,
) -> Iterator[tuple[int, str, int]]:
    """Yield the index of a log file, what has values, and how often; note what is unreadable."""
    for index, problem in part.problems.items():
        found.add_unread(part.files[index].name, place, problem)
    if texts is not None:
        yield from ((*hit, 1) for hit in find_parts(part.nodes, texts))
    for batch in part.actions.to_batches():
        stats, values, of = batch["stats"], batch["partition_values"], batch["of"]
        masks = {}
        try:
            masks[BOUNDS] = any_mask([bounds_mask(it, texts, stats, values) for it in variants])
            masks[PARTITIONS] = any_mask([partition_mask(it, values) for it in variants])
        except CorruptLogError as error:
            for index in of.unique().to_pylist():
                found.add_unread(part.files[index].name, place, error)
        if texts is not None:
            masks[NAMES] = texts.mask_paths(batch["path"])
            masks[TAGS] = tags_mask(texts, batch["tags"])
        for what, mask in masks.items():
            for row in of.filter(mask).value_counts().to_pylist():
                yield row["values"], what, row["counts"]
