"""Decide which bins of a dataChange=false commit remain valid after the commits of others. Pure.

Source: PROTOCOL.md and Delta's conflict rules for commits without data change: concurrent appends
never conflict; a commit that touched the path of an input (removed it, changed its deletion vector
or added it again) conflicts with the group that rewrote it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.actions import Metadata
from deltactl.protocol.features import REGISTRY
from deltactl.protocol.properties import ROW_TRACKING_COLUMN_KEYS

_ROW_TRACKING_KEYS = (
    "delta.enableRowTracking",
    "delta.rowTrackingSuspended",
    *ROW_TRACKING_COLUMN_KEYS,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The groups that may still be committed (a flag each), and why others may not."""

    survives: tuple[bool, ...]
    reason: str | None = None


def decide(
    groups: Sequence[Sequence[str]],
    touched_paths: pa.ChunkedArray,
    before: Metadata,
    after: Metadata | None,
    gained_features: Set[str] = frozenset(),
) -> Verdict:
    """Compare groups of rewritten files with the winners' actions.

    Args:
        groups: names of each group's inputs, as ``decoded_names`` returns them.
        touched_paths: names of every add and remove of the winners.
        before: the table's metadata when the groups were written.
        after: the winners' metadata, if they changed it.
        gained_features: features that the protocol has now and did not have when they were written.
    """
    reason: str | None = None
    if missed := {n for n in gained_features & REGISTRY.keys() if REGISTRY[n].binds_new_files}:
        reason = f"another writer enabled {', '.join(sorted(missed))}, which new files must follow"
        return Verdict((False,) * len(groups), reason)
    if after is not None and (reason := _metadata_conflict(before, after)):
        return Verdict((False,) * len(groups), reason)
    flat = pa.array([path for group in groups for path in group], pa.string())
    hit = pc.is_in(flat, value_set=touched_paths).to_pylist()
    ends = list(accumulate(len(group) for group in groups))
    survives = tuple(not any(hit[a:b]) for a, b in pairwise([0, *ends]))
    reason = None if all(survives) else "another writer rewrote or deleted some of its input files"
    return Verdict(survives, reason)


def _metadata_conflict(before: Metadata, after: Metadata) -> str | None:
    """Return the conflict, if any; files of an old schema are valid under a new one otherwise."""
    if before.id != after.id:
        return "the table was replaced by another one"
    if before.partition_columns != after.partition_columns:
        return "another writer changed the partition columns"
    changed = [
        key
        for key in _ROW_TRACKING_KEYS
        if before.configuration.get(key) != after.configuration.get(key)
    ]
    if changed:
        return f"another writer changed {', '.join(changed)}"
    if before.column_mapping_mode != after.column_mapping_mode:
        return "another writer changed the column mapping"
    return None
