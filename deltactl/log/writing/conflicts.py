"""Find changes of the table that prevent the commit of rewritten files. No I/O.

``concurrent_deletes`` handles changes of single files. Source: PROTOCOL.md, and Delta's conflict
rules for commits without data change.
"""

from __future__ import annotations

from collections.abc import Set

from deltactl.protocol.actions import Metadata
from deltactl.protocol.features import REGISTRY
from deltactl.protocol.properties import ROW_TRACKING_COLUMN_KEYS

_ROW_TRACKING_KEYS = (
    "delta.enableRowTracking",
    "delta.rowTrackingSuspended",
    *ROW_TRACKING_COLUMN_KEYS,
)


def find_conflict(
    before: Metadata, after: Metadata | None, gained_features: Set[str] = frozenset()
) -> str | None:
    """Return why files with the old metadata must not be committed; ``None`` if they may be.

    Args:
        before: the table's metadata when the files were written.
        after: the metadata after other commits, if these changed it.
        gained_features: features that were added to the protocol after the files were written.
    """
    if missed := {n for n in gained_features & REGISTRY.keys() if REGISTRY[n].binds_new_files}:
        return (
            "another writer enabled table features that new files must follow: "
            f"{', '.join(sorted(missed))}"
        )
    return None if after is None else _metadata_conflict(before, after)


def _metadata_conflict(before: Metadata, after: Metadata) -> str | None:
    """Return the conflict, or ``None``. With other changes, files of an old schema are valid."""
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
