"""Search files of the log, and collect the files that their actions name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, SafetyError, UsageError
from deltactl.log.audit.stored_actions import (
    HELD,
    NEXT,
    StoredActions,
    find_ends,
    read_stored_actions,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.keyed_hash import SeenKeys
from deltactl.log.physical_names import locate
from deltactl.log.snapshot import Snapshot
from deltactl.operations.erased.found import Found, Searched
from deltactl.operations.erased.report import Where
from deltactl.operations.erased.schemas import Variant
from deltactl.operations.erased.sought import Sought
from deltactl.operations.erased.texts import find_parts
from deltactl.operations.predicate.bounds import columns_of, held_by
from deltactl.operations.predicate.terms import ColumnRows, Junction, PartitionRows, Term, repeat
from deltactl.protocol.arrow_schemas import STRING_MAP, arrow_type
from deltactl.protocol.path_columns import absolute_mask
from deltactl.protocol.stats_decoding import parse_stats, stats_type
from deltactl.storage.store import FileInfo, Store

NAMED: Final = pa.schema(
    [
        ("name", pa.string()),
        ("partition_values", STRING_MAP),
        ("log_until_ms", pa.int64()),
        ("is_later", pa.bool_()),
    ]
)
"""A file in an action; ``log_until_ms``: until when the log keeps a ``remove`` of a file elsewhere.

That may keep the file, because a vacuum of the other table keeps the files that a clone names.
``is_later``: the action is in a commit after the snapshot, so that the next vacuum knows the file.
"""

_SETTING: Final = re.compile(r"(?i)delta\.(?!constraints\.)")
_STATS: Final = r"^\s*[^\s]"
_ROUNDING: Final = 2.0**-51  # of the digits, of the power of ten, and of their product


@dataclass(frozen=True, slots=True)
class Ends:
    """Until when the log keeps its files: by name, as far as known.

    A new checkpoint leaves out what was removed before ``cutoff_ms``.
    """

    by_name: Mapping[str, int] = field(default_factory=dict)
    cutoff_ms: int = 0

    def of_actions(self, part: StoredActions, of: pa.Array, removed_ms: pa.Array) -> pa.Array:
        """Return until when the log keeps file actions of ``part``; arguments are its columns."""
        ends = pa.array([self.by_name.get(it.name) for it in part.files], pa.int64()).take(of)
        is_old = pc.and_(pc.equal(ends, HELD), pc.less_equal(removed_ms, self.cutoff_ms))
        return pc.if_else(pc.fill_null(is_old, False), NEXT, ends)


def search_log(
    snapshot: Snapshot, files: Sequence[FileInfo], sought: Sought, found: Found
) -> pa.Table:
    """Search all files of the log; return what they name, once, as rows of ``NAMED``.

    Rows with partition values come first.
    """
    seen, named, bare = SeenKeys(), [NAMED.empty_table()], [NAMED.empty_table()]
    latest, ends = DeltaLog.commit_file(snapshot.version), Ends()
    with suppress(UsageError):  # an invalid property: the end is not known
        cutoff_ms = found.now_ms - snapshot.properties.deleted_file_retention_ms
        ends = Ends(find_ends(snapshot, files, found.now_ms), cutoff_ms)
    for part in read_stored_actions(snapshot.store, files, snapshot.metadata):
        found.ensure_running()
        search_actions(found, part, part.place, sought, ends=ends, latest=latest)
        names = locate_known(snapshot.store, part.actions["path"])
        of = part.actions["of"].combine_chunks()
        removed_ms = part.actions["removed_ms"].combine_chunks()
        until = ends.of_actions(part, of, removed_ms)
        is_it = pc.and_(absolute_mask(names), removed_ms.is_valid())
        is_later = pa.array(_are_later(part, latest), pa.bool_()).take(of)
        columns = part.actions["partition_values"], pc.if_else(is_it, until, None), is_later
        rows = pa.table([names, *columns], schema=NAMED)
        new = rows.filter(pc.and_(seen.take(_identify(rows)), rows["name"].is_valid()))
        has_values = new["partition_values"].is_valid()
        named.append(new.filter(has_values))
        bare.append(new.filter(pc.invert(has_values)))
    found.counts["log_files"] += len(files)
    _search_metadata(snapshot, sought, found)
    return pa.concat_tables([*named, *bare])


def _are_later(part: StoredActions, latest: str) -> list[bool]:
    """Return which files are commits of later versions; names of staged ones are longer."""
    names = [it.name if part.place == "commits" else "" for it in part.files]
    return [len(it) == len(latest) and it > latest for it in names]


def _search_metadata(snapshot: Snapshot, sought: Sought, found: Found) -> None:
    """Find live properties and other metadata with a value of a user: a log cleanup leaves them."""
    metadata = snapshot.metadata
    properties = [
        (key, {"metaData": {"configuration": {key: text}}})
        for key, text in metadata.configuration.items()
        if not _SETTING.match(key)
    ]
    texts = {
        "name": metadata.name,
        "description": metadata.description,
        "schemaString": metadata.schema_string,
    }
    nodes = [(key, {"metaData": {key: text}}) for key, text in texts.items() if text]
    nodes += [
        (f"domain {it.domain}", {"domainMetadata": {"configuration": it.configuration}})
        for it in snapshot.domains.values()
    ]
    for place, named in ((Where.PROPERTIES, properties), (Where.METADATA, nodes)):
        hits = find_parts([(at, node) for at, (_, node) in enumerate(named)], sought)
        parts = tuple(dict.fromkeys(named[at][0] for at, _ in hits))
        if parts:
            found.add(place, files=0, entries=len(parts), parts=parts)


def _identify(rows: pa.Table) -> pa.ChunkedArray:
    """Return equal texts for rows of ``NAMED`` of which one is enough."""
    facts = (rows["partition_values"].is_valid(), rows["log_until_ms"], rows["is_later"])
    parts = (rows["name"], *(it.cast(pa.string()) for it in facts))
    return pc.binary_join_element_wise(*parts, "/", null_handling="replace")


def locate_known(store: Store, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the physical names; names on another kind of storage, in no listing, as they are."""
    with suppress(SafetyError):
        return pc.coalesce(locate(store, names), names)
    return names


def search_actions(
    found: Searched,
    part: StoredActions,
    place: str,
    sought: Sought,
    *,
    ends: Ends | None = None,
    latest: str = "",
) -> None:
    """Search files of the log, of which ``ends`` says until when they are kept."""
    ends = ends or Ends()

    def add(index: int, entries: int, what: str, until_ms: int | None) -> None:
        name = part.files[index].name
        where = Where.LATEST if name == latest else Where(place)
        # No cleanup deletes files that are not of a version.
        until_ms = until_ms if where.steps else None
        found.add(where, name, entries=entries, parts=(what,), until_ms=until_ms)

    for index, error in part.problems.items():
        found.add_unread(part.files[index].name, place, error)
    for index, what in find_parts(part.nodes, sought):
        add(index, 1, what, ends.by_name.get(part.files[index].name))
    for batch in part.actions.to_batches():
        until = ends.of_actions(part, batch["of"], batch["removed_ms"])
        masks = {"paths": sought.in_paths(batch["path"]), "tags": _map_mask(sought, batch["tags"])}
        try:
            masks["minima and maxima"] = _bounds_mask(sought, batch)
            # Other tables may have other partition columns.
            find = _map_mask if place == Where.TABLES else _partition_mask
            masks["partition values"] = find(sought, batch["partition_values"])
        except CorruptLogError as error:
            for index in batch["of"].unique().to_pylist():
                found.add_unread(part.files[index].name, place, error)
        for what, mask in masks.items():
            hits = pa.table({"of": batch["of"].filter(mask), "until": until.filter(mask)})
            counts = hits.group_by("of").aggregate([("of", "count"), ("until", "max")])
            for row in counts.to_pylist():
                add(row["of"], row["of_count"], what, row["until_max"])


def _bounds_mask(sought: Sought, files: pa.RecordBatch) -> pa.Array:
    """Return for which files a minimum or maximum of a data column has a value by itself."""
    masks = (it for variant in sought.variants for it in _held(variant, sought, files))
    return reduce(pc.or_, masks, sought.in_stats(files["stats"]))


def _held(variant: Variant, sought: Sought, files: pa.RecordBatch) -> Iterator[pa.Array]:
    """Yield for each bound which files have a value in it.

    Raises:
        CorruptLogError: the statistics or partition values of a file cannot be parsed.
    """
    partition, stats = variant.partition_names, files["stats"]
    if stats.null_count == len(stats):
        return
    paths, fields = variant.paths, variant.fields
    data = {name: paths[name] for name in paths.keys() - partition or paths}
    leaves = {path: arrow_type(fields[name][-1].type, "physical") for name, path in data.items()}
    parsed = parse_stats(stats, stats_type(leaves, ()))
    if pc.any(pc.and_(parsed.is_null(), pc.match_substring_regex(stats, _STATS))).as_py():
        raise CorruptLogError("the statistics are not a JSON object")
    rows = PartitionRows(files["partition_values"])
    constants = {name: rows.typed(variant.columns[name]) for name in partition}
    decimals = {path: pa.float64() for path, kind in leaves.items() if pa.types.is_decimal(kind)}
    doubles = parse_stats(stats, stats_type(decimals, ())) if decimals else None
    for name, path in data.items():
        for side in ("minValues", "maxValues"):
            bound = pc.struct_field(parsed, [side, *path])
            if path in decimals:
                yield _are_rounded(bound, pc.struct_field(doubles, [side, *path]), sought.values)
            columns = ColumnRows({**constants, name: bound}, len(stats))
            held = held_by(variant.term, name, columns, partition)
            yield pc.and_(held, bound.is_valid())
            if pa.types.is_timestamp(bound.type):
                yield _in_same_millisecond(bound, sought.values)
            if pa.types.is_string(bound.type) and len(prefixes := sought.prefixes()):
                # The last character of a truncated maximum is greater than that of the value.
                ends = bound if side == "minValues" else pc.utf8_slice_codeunits(bound, 0, -1)
                yield pc.fill_null(pc.is_in(ends, value_set=prefixes), False)


def _are_rounded(bounds: pa.Array, doubles: pa.Array, values: Sequence[pa.Scalar]) -> pa.Array:
    """Return which bounds may be one of the decimals as a double: some writers compute so.

    ``doubles`` are the same bounds, which may have too many digits for the type of the column.
    """
    decimals = [float(it.as_py()) for it in values if pa.types.is_decimal(it.type)]
    is_near = repeat(False, len(bounds))
    for value in decimals:
        off = pc.abs(pc.subtract(doubles, value))
        near = pc.less_equal(off, abs(value) * _ROUNDING)
        is_near = pc.or_(is_near, pc.fill_null(near, False))
    found = pc.unique(bounds.filter(is_near).drop_null()).to_pylist()
    exact = [it for it in found if Decimal(repr(float(it))) != it]
    return pc.and_not(is_near, pc.is_in(bounds, value_set=pa.array(exact, bounds.type)))


def _in_same_millisecond(bounds: pa.Array, values: Sequence[pa.Scalar]) -> pa.Array:
    """Return which bounds may be one of the values: writers leave out parts of a millisecond."""
    moments = [it for it in values if it.type == bounds.type]
    sought = pc.floor_temporal(pa.array(moments, bounds.type), unit="millisecond")
    return pc.is_in(pc.floor_temporal(bounds, unit="millisecond"), value_set=sought)


def _partition_mask(sought: Sought, partition_values: pa.Array) -> pa.Array:
    """Return for which files the partition values alone match, whatever the other columns have."""
    found = repeat(False, len(partition_values))
    for variant in sought.variants:
        rows = PartitionRows(partition_values)
        for term in _terms_of(variant.term, variant.partition_names):
            found = pc.or_(found, pc.fill_null(term.evaluate(rows), False))
    return found


def _terms_of(term: Term, names: frozenset[str]) -> Iterator[Term]:
    """Yield the terms of which one is enough, if they use no other columns than ``names``."""
    if isinstance(term, Junction) and term.word == "OR":
        for part in term.terms:
            yield from _terms_of(part, names)
    elif names.issuperset(it.name for it in columns_of(term)) and any(columns_of(term)):
        yield term


def _map_mask(sought: Sought, maps: pa.MapArray) -> pa.Array:
    """Return which maps have a value; a number only of a key that names a column."""
    found = sought.in_texts(maps.items, sought.name_a_column(maps.keys))
    before, ends = np.concatenate(([0], np.cumsum(found))), maps.offsets.to_numpy()
    return pa.array(before[ends[1:]] > before[ends[:-1]])
