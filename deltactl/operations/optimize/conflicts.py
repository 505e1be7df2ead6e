"""Decide which commits of other writers do not allow the commit of rewritten files.

``log/writing/concurrent_deletes.py`` decides about changes of single files.

Source: PROTOCOL.md; Delta's conflict rules for commits without data change.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from deltactl.errors import ConflictError, join_reasons
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.protocol.actions import Metadata
from deltactl.protocol.features import REGISTRY, stores_partitions
from deltactl.protocol.iceberg import compatible_version
from deltactl.protocol.properties import ROW_TRACKING_COLUMN_KEYS

_FILE_KEYS = (
    "delta.enableRowTracking",
    "delta.rowTrackingSuspended",
    "delta.enableVariantShredding",
    *ROW_TRACKING_COLUMN_KEYS,
)


def find_conflict(before: Metadata, after: Metadata, gained_features: Set[str]) -> str | None:
    """Return why files with the old metadata must not be committed; ``None`` if they may be.

    ``gained_features`` were added to the protocol after the files were written. With changes of
    other metadata, files of an old schema are valid.
    """
    if missed := {n for n in gained_features & REGISTRY.keys() if REGISTRY[n].binds_new_files}:
        return (
            "another writer enabled table features that new files must follow: "
            f"{', '.join(sorted(missed))}"
        )
    if before.id != after.id:
        return "the table was replaced by another one"
    if before.partition_columns != after.partition_columns:
        return "another writer changed the partition columns"
    changed = [
        key for key in _FILE_KEYS if before.configuration.get(key) != after.configuration.get(key)
    ]
    if changed:
        return f"another writer changed {', '.join(changed)}"
    if before.column_mapping_mode != after.column_mapping_mode:
        return "another writer changed the column mapping"
    return None


def iceberg_rules(state: CommitBase | Snapshot) -> int | None:
    """Return the version of Iceberg compatibility that new files follow; ``None``: no version."""
    applies = stores_partitions(state.protocol, state.metadata)
    return compatible_version(state.metadata) if applies else None


def ensure_same_files(concurrent: Tail) -> None:
    """Raise ``ConflictError`` if another writer changed files, metadata or protocol."""
    if concurrent.changes_table or concurrent.adds.num_rows or concurrent.removes.num_rows:
        raise ConflictError(
            "another writer changed the table during the run",
            hint="Rerun, when no other writer is active. This run changed nothing in the table.",
        )


def explain_conflict(reasons: Sequence[str]) -> ConflictError:
    """Return the error for bins that may not be committed; ``reasons`` has one for each bin."""
    return ConflictError(
        f"nothing could be committed: {join_reasons(reasons)}",
        hint="Rerun. This run changed nothing in the table.",
        reasons=reasons,
    )
