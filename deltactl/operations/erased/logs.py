"""Search files of the log, and collect the files that their actions name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, SafetyError, UsageError
from deltactl.log.audit.stored_actions import StoredActions, find_ends, read_stored_actions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.keyed_hash import SeenKeys
from deltactl.log.physical_names import locate
from deltactl.log.snapshot import Snapshot
from deltactl.operations.erased.found import Found, Hit, Searched
from deltactl.operations.erased.report import Unread, Where
from deltactl.operations.erased.schemas import Variant
from deltactl.operations.erased.sought import Sought
from deltactl.operations.erased.texts import find_parts
from deltactl.operations.predicate.bounds import columns_of, held_by
from deltactl.operations.predicate.terms import ColumnRows, Junction, PartitionRows, Term
from deltactl.protocol.arrow_schemas import STRING_MAP, arrow_type
from deltactl.protocol.stats_decoding import parse_stats, stats_type
from deltactl.storage.store import FileInfo, Store

_NAMED: Final = pa.schema([("name", pa.string()), ("partition_values", STRING_MAP)])
_REMOVED: Final = pa.schema([("name", pa.string()), ("removed_ms", pa.int64())])
_STATS: Final = r"^\s*[^\s]"


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Files in actions: partition values by ``name``, and ``removed`` with the last time."""

    files: pa.Table
    removed: pa.Table


def search_log(
    snapshot: Snapshot,
    files: Sequence[FileInfo],
    variants: Sequence[Variant],
    sought: Sought | None,
    found: Found,
) -> NamedFiles:
    """Search all files of the log; return the files that they name."""
    seen, named, removed = SeenKeys(), [_NAMED.empty_table()], [_REMOVED.empty_table()]
    latest, ends = DeltaLog.commit_file(snapshot.version), dict[str, int]()
    with suppress(UsageError):  # an invalid property: the end is not known
        ends = find_ends(snapshot, files, found.now_ms)
    for part in read_stored_actions(snapshot.store, files, snapshot.metadata):
        found.ensure_running()
        searched = search_actions(part, part.place, variants, sought)
        found.unread += searched.unread
        for hit in searched.hits:
            placed = hit if hit.name != latest else replace(hit, place=Where.LATEST)
            found.add(placed, ends.get(hit.name))
        names = locate_known(snapshot.store, part.actions["path"])
        both = pa.table([names, part.actions["partition_values"]], schema=_NAMED)
        both = both.filter(names.is_valid())
        named.append(both.filter(seen.take(both["name"])))
        removes = pa.table([names, part.actions["removed_ms"]], schema=_REMOVED)
        removed.append(removes.filter(removes["removed_ms"].is_valid()))
    found.counts["log_files"] += len(files)
    last = pa.concat_tables(removed).group_by("name").aggregate([("removed_ms", "max")])
    return NamedFiles(pa.concat_tables(named), last)


def locate_known(store: Store, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the physical names; names on another kind of storage, in no listing, as they are."""
    with suppress(SafetyError):
        return pc.coalesce(locate(store, names), names)
    return names


def search_actions(
    part: StoredActions, place: str, variants: Sequence[Variant], sought: Sought | None
) -> Searched:
    """Search files of the log; note what is unreadable."""
    found = Searched()

    def name(index: int) -> str:
        return part.files[index].name

    found.unread += [Unread.of(name(it), place, error) for it, error in part.problems.items()]
    if sought is not None:
        parts = find_parts(part.nodes, sought)
        found.hits += [Hit(place, name(it), entries=1, part=what) for it, what in parts]
    for batch in part.actions.to_batches():
        masks = {}
        try:
            masks["minima and maxima"] = _bounds_mask(variants, sought, batch)
            masks["partition values"] = _partition_mask(variants, batch["partition_values"])
        except CorruptLogError as error:
            broken = batch["of"].unique().to_pylist()
            found.unread += [Unread.of(name(it), place, error) for it in broken]
        if sought is not None:
            masks["paths"] = sought.in_paths(batch["path"])
            masks["tags"] = _tags_mask(sought, batch["tags"])
        for what, mask in masks.items():
            for row in batch["of"].filter(mask).value_counts().to_pylist():
                hit = Hit(place, name(row["values"]), entries=row["counts"], part=what)
                found.hits.append(hit)
    return found


def _any(masks: Iterable[pa.Array], count: int) -> pa.Array:
    return reduce(pc.or_, masks, pa.array(np.zeros(count, np.bool_)))


def _bounds_mask(
    variants: Sequence[Variant], sought: Sought | None, files: pa.RecordBatch
) -> pa.Array:
    """Return for which files a minimum or maximum of a data column has a value by itself."""
    stats, count = files["stats"], files.num_rows
    masks = [it for variant in variants for it in _held(variant, sought, files)]
    return _any([*masks, *([] if sought is None else [sought.in_stats(stats)])], count)


def _held(variant: Variant, sought: Sought | None, files: pa.RecordBatch) -> Iterator[pa.Array]:
    """Yield for each bound which files have a value in it.

    Raises:
        CorruptLogError: the statistics or partition values of a file cannot be parsed.
    """
    partition, stats = variant.partition_names, files["stats"]
    data = {name: path for name, path in variant.paths.items() if name not in partition}
    if not data or stats.null_count == len(stats):
        return
    fields = variant.fields.items()
    leaves = {
        data[name]: arrow_type(it[-1].type, "physical") for name, it in fields if name in data
    }
    parsed = parse_stats(stats, stats_type(leaves, ()))
    if pc.any(pc.and_(parsed.is_null(), pc.match_substring_regex(stats, _STATS))).as_py():
        raise CorruptLogError("the statistics are not a JSON object")
    rows = PartitionRows(files["partition_values"])
    constants = {name: rows.typed(variant.columns[name]) for name in partition}
    for name, path in data.items():
        for side in ("minValues", "maxValues"):
            bound = pc.struct_field(parsed, [side, *path])
            columns = ColumnRows({**constants, name: bound}, len(stats))
            held = held_by(variant.term, name, columns, partition)
            yield pc.and_(held, bound.is_valid())
            if sought is None:
                continue
            if pa.types.is_timestamp(bound.type):
                yield _in_same_millisecond(bound, sought.values)
            if pa.types.is_string(bound.type) and len(prefixes := sought.prefixes()):
                # The last character of a truncated maximum is greater than that of the value.
                ends = bound if side == "minValues" else pc.utf8_slice_codeunits(bound, 0, -1)
                yield pc.fill_null(pc.is_in(ends, value_set=prefixes), False)


def _in_same_millisecond(bounds: pa.Array, values: Sequence[pa.Scalar]) -> pa.Array:
    """Return which bounds may be one of the values: writers leave out parts of a millisecond."""
    moments = [it for it in values if it.type == bounds.type]
    sought = pc.floor_temporal(pa.array(moments, bounds.type), unit="millisecond")
    return pc.is_in(pc.floor_temporal(bounds, unit="millisecond"), value_set=sought)


def _partition_mask(variants: Sequence[Variant], partition_values: pa.Array) -> pa.Array:
    """Return for which files the partition values alone match, whatever the other columns have."""
    found = []
    for variant in variants:
        rows = PartitionRows(partition_values)
        terms = _terms_of(variant.term, variant.partition_names)
        found += [pc.fill_null(it.evaluate(rows), False) for it in terms]
    return _any(found, len(partition_values))


def _terms_of(term: Term, names: frozenset[str]) -> Iterator[Term]:
    """Yield the terms of which one is enough, if they use no other columns than ``names``."""
    if isinstance(term, Junction) and term.word == "OR":
        for part in term.terms:
            yield from _terms_of(part, names)
    elif names.issuperset(it.name for it in columns_of(term)) and any(columns_of(term)):
        yield term


def _tags_mask(sought: Sought, tags: pa.MapArray) -> pa.Array:
    """Return for which files the value of a tag has a value."""
    found = sought.in_texts(tags.items).to_numpy(zero_copy_only=False)
    before, ends = np.concatenate(([0], np.cumsum(found))), tags.offsets.to_numpy()
    return pa.array(before[ends[1:]] > before[ends[:-1]])
