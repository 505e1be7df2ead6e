"""Compare the ``add`` of each file that a clone already has with that of the source.

The row ids in a clone are those of the source. A file without row ids in the source, as after DROP
FEATURE rowTracking, keeps those that it has in the clone. Source: PROTOCOL.md, "Row Tracking".
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import UnsupportedFeatureError
from deltactl.log.audit.digests import differing_stats
from deltactl.log.writing.row_ids import tracks_row_ids
from deltactl.operations.restored_state import RestoredState
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import array_of, replace_column
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.stats import num_records
from deltactl.protocol.stats_decoding import all_stats_type

_ROWS_AT_ONCE: Final = 1 << 10  # with thousands of columns, a text has hundreds of KB
_ROW_COLUMNS: Final = ("base_row_id", "default_row_commit_version")

Mask: TypeAlias = pa.Array | pa.ChunkedArray


def compare_live(
    files: pa.Table, ours: pa.Table, places: pa.ChunkedArray, state: RestoredState
) -> tuple[pa.Table, Mask]:
    """Return the files with their row ids in the clone, and which must be added again.

    ``files`` are those of the source, ``ours`` those of the clone, both rows of ``ADD_SCHEMA``;
    ``places`` are the rows of ``ours`` with the same files, or null. A null row id or row commit
    version is assigned by the commit.
    """
    files, is_other = _with_row_ids(files, ours, places, state)
    is_other = pc.or_(is_other, _other_facts(files, ours, places, state.metadata))
    is_other = pc.or_(is_other, _other_stats(files, ours, places, state.metadata))
    return files, pc.and_(pc.is_valid(places), pc.fill_null(is_other, False))


def _with_row_ids(
    files: pa.Table, ours: pa.Table, places: pa.ChunkedArray, state: RestoredState
) -> tuple[pa.Table, Mask]:
    ids = versions = pa.nulls(files.num_rows, pa.int64())
    is_other = _none_of(files)
    if tracks_row_ids(state.protocol, state.metadata):
        known, versions = (ours[name].take(places) for name in _ROW_COLUMNS)
        ids = files["base_row_id"]
        kept = pc.coalesce(ids, known)
        has_own = pc.any(pc.and_(pc.is_null(ids), pc.is_valid(known))).as_py()
        if not (has_own and _overlap(kept, num_records(files["stats"]))):
            ids = kept
        versions = pc.if_else(pc.equal(ids, known), versions, pa.scalar(None, pa.int64()))
        # If row tracking is not enabled, files may be older than the feature.
        needs_ids = TableProperties(state.metadata.configuration).row_tracking_enabled
        has_ids = pc.or_(pc.or_(pc.is_valid(ids), pc.is_valid(known)), needs_ids)
        is_other = pc.and_(pc.is_null(versions), has_ids)
    for name, column in zip(_ROW_COLUMNS, (ids, versions), strict=True):
        files = replace_column(files, name, column)
    return files, is_other


def _overlap(ids: pa.ChunkedArray, rows: pa.ChunkedArray) -> bool:
    """Return whether two files have the same row ids; a file of unknown length has one row."""
    known = pc.is_valid(ids)
    starts = ids.filter(known).to_numpy()
    ends = starts + pc.fill_null(rows.filter(known), 1).to_numpy()
    order = np.lexsort((ends, starts))
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)[:-1]
    return bool(np.any((starts[1:] < reached) & (ends[1:] > starts[1:])))


def _other_facts(
    files: pa.Table, ours: pa.Table, places: pa.ChunkedArray, metadata: Metadata
) -> Mask:
    """Return which files have another clustering provider, tag or partition value."""
    maps = [part for it in (files, ours) for part in it["tags"].chunks]
    tags = {key for part in maps for key in pc.unique(part.keys).to_pylist()}
    pairs = [[it["clustering_provider"] for it in (files, ours)]]
    for name, keys in (("partition_values", metadata.partition_keys), ("tags", sorted(tags))):
        pairs += [[lookup_map(it[name], key) for it in (files, ours)] for key in keys]
    is_other = _none_of(files)
    for pair in pairs:
        theirs, known = (pc.fill_null(column, "") for column in pair)
        is_other = pc.or_(is_other, pc.not_equal(theirs, known.take(places)))
    return is_other


def _none_of(files: pa.Table) -> pa.Array:
    return array_of(np.zeros(files.num_rows, np.bool_))


def _other_stats(
    files: pa.Table, ours: pa.Table, places: pa.ChunkedArray, metadata: Metadata
) -> Mask:
    """Return which files have other statistics; differences in form do not count."""
    try:
        type_ = all_stats_type(metadata)
    except UnsupportedFeatureError:  # of a column type
        type_ = None
    # To take rows, Arrow concatenates chunks: here once, because they may have more than 2 GB.
    whole = ours["stats"].cast(pa.large_string()).combine_chunks()
    found = [_none_of(files.slice(0, 0))]
    for start in range(0, files.num_rows, _ROWS_AT_ONCE):
        rows = places.slice(start, _ROWS_AT_ONCE).combine_chunks()
        theirs = files["stats"].slice(start, _ROWS_AT_ONCE).combine_chunks()
        theirs = pc.if_else(pc.is_valid(rows), theirs, pa.scalar(None, pa.string()))
        known = whole.take(rows).cast(pa.string())
        found.append(array_of(differing_stats(theirs, known, type_)))
    return pa.chunked_array(found)
