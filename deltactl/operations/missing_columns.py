"""Refuse a version without columns where files are written or a schema is derived.

Files that are written with a schema without columns have no columns: the data is lost, but the
number of rows is correct, so that checks of row counts do not find the loss.
"""

from __future__ import annotations

from deltactl.errors import SafetyError
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.schema_rules import explain_missing_columns


def ensure_columns(snapshot: Snapshot, what: str, *, unless_empty: bool = False) -> None:
    """Refuse a version whose schema has no columns, or lacks a partition column.

    ``what`` is the refused operation, as in "cannot rewrite files". With ``unless_empty``, a schema
    without columns is accepted if no file is live.

    Raises:
        SafetyError: the schema lacks columns.
        CorruptLogError: the schema cannot be parsed.
    """
    metadata = snapshot.metadata
    lack = explain_missing_columns(metadata)
    if lack is None:
        return
    is_empty = not metadata.schema.fields
    if unless_empty and is_empty and not snapshot.num_files:
        return
    raise SafetyError(
        f"cannot {what} of {snapshot.store.uri} at version {snapshot.version}: {lack}",
        hint="Let the writer of the table commit a metaData action with the whole schema first. "
        "`deltactl describe-history TABLE`, `check`, `vacuum` and `checkpoint` work without "
        "this action.",
    )
