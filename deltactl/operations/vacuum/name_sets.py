"""Compute differences of columns of names; one side comes in batches, to bound memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.operations.vacuum.kept_files import Kept, Role
from deltactl.operations.vacuum.spellings import find_alike
from deltactl.protocol.arrow_schemas import array_of

# Number of names to keep that are looked up together. Their hash table needs as much memory as the
# names, and each lookup scans all files: with few files, larger groups save scans.
_GROUP_NAMES = 1 << 17


def distinct_names(*names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the names of all columns, each once."""
    joined = pa.chunked_array([chunk for part in names for chunk in part.chunks], pa.string())
    return pa.chunked_array([pc.unique(joined)], pa.string())


def without(
    names: pa.ChunkedArray, batches: Iterable[Kept]
) -> tuple[pa.ChunkedArray, dict[Role, pa.ChunkedArray]]:
    """Return the names that are in none of the batches, and the names to keep that are not listed.

    The latter are by role, without ``possible`` names. Only some batches are in memory at a time.
    """
    kept = pa.chunked_array([pa.repeat(pa.scalar(False), len(names))])
    groups: dict[Role, list[pa.Array]] = {"live": [], "retained": [], "possible": []}
    unlisted: dict[Role, list[pa.Array]] = {"live": [], "retained": []}
    limit = _GROUP_NAMES if len(names) > 4 * _GROUP_NAMES else 4 * _GROUP_NAMES

    def look_up(role: Role) -> None:
        nonlocal kept
        group = pa.chunked_array(groups[role], pa.string())
        # As in `reconcile`: a large hash table grows faster outside Arrow's own pool.
        places = pc.index_in(names, value_set=group, memory_pool=pa.system_memory_pool())
        kept = pc.or_(kept, pc.is_valid(places))
        if role in unlisted:
            unlisted[role] += _without_places(group, places).chunks
        groups[role] = []

    for batch, role in batches:
        groups[role] += batch.chunks
        if sum(map(len, groups[role])) >= limit:
            look_up(role)
    for role in groups:
        look_up(role)
    return names.filter(pc.invert(kept)), {
        role: distinct_names(pa.chunked_array(chunks, pa.string()))
        for role, chunks in unlisted.items()
    }


def _without_places(group: pa.ChunkedArray, places: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the names of a group that are at none of the places."""
    is_found = np.zeros(len(group), np.bool_)
    is_found[places.drop_null().to_numpy()] = True
    rest = group.filter(array_of(~is_found))
    if len(rest):  # a repeated name was found at its first place
        rest = rest.filter(pc.invert(pc.is_in(rest, value_set=group.filter(array_of(is_found)))))
    return rest


def without_few(
    names: pa.ChunkedArray, batches: Iterable[Kept]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the names that are in none of the batches, and other spellings in the batches.

    For few names.
    """
    alike = [pa.array([], pa.string())]
    for batch, role in batches:
        hits = batch.filter(pc.is_in(batch, value_set=names))
        if role != "possible":
            alike += find_alike(batch, names).chunks
        if len(hits):
            names = names.filter(pc.invert(pc.is_in(names, value_set=hits)))
    return names, pa.chunked_array(alike)
