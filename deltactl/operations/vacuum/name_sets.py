"""Compute differences of columns of names; one side comes in batches, to bound memory."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

# Number of names to keep that are looked up together. Their hash table needs as much memory as the
# names, and each lookup scans all files: with few files, larger groups save scans.
_GROUP_NAMES = 1 << 17


def distinct_names(*names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the names of all columns, each once."""
    joined = pa.chunked_array([chunk for part in names for chunk in part.chunks], pa.string())
    return pa.chunked_array([pc.unique(joined)], pa.string())


def without(names: pa.ChunkedArray, batches: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return the names that are in none of the batches.

    Only some batches are in memory at a time.
    """
    kept = pa.chunked_array([pa.repeat(pa.scalar(False), len(names))])
    group: list[pa.Array] = []
    size = 0
    for batch in batches:
        group += batch.chunks
        size += len(batch)
        if size >= (_GROUP_NAMES if len(names) > 4 * _GROUP_NAMES else 4 * _GROUP_NAMES):
            kept = pc.or_(kept, _are_in(names, group))
            group, size = [], 0
    return names.filter(pc.invert(pc.or_(kept, _are_in(names, group))))


def without_few(names: pa.ChunkedArray, batches: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return the names that are in none of the batches, for few names."""
    for batch in batches:
        hits = batch.filter(pc.is_in(batch, value_set=names))
        if len(hits):
            names = names.filter(pc.invert(_are_in(names, hits.chunks)))
    return names


def _are_in(names: pa.ChunkedArray, chunks: list[pa.Array]) -> pa.ChunkedArray:
    # As in `reconcile`: a large hash table grows faster outside Arrow's own pool.
    value_set = pa.chunked_array(chunks, pa.string())
    return pc.is_in(names, value_set=value_set, memory_pool=pa.system_memory_pool())
