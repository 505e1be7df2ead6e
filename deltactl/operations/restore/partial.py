"""``restore --where``: check that the old files of a partition match the present table."""

from __future__ import annotations

from typing import Final

from deltactl.errors import SafetyError
from deltactl.log.snapshot import Snapshot
from deltactl.option_names import option
from deltactl.protocol.actions import Metadata
from deltactl.protocol.features import list_features
from deltactl.protocol.schema import TYPE_CHANGES_KEY, Field, PrimitiveType, render_type

_CONSTRAINT: Final = "delta.constraints."
_RULES: Final = ("delta.invariants", "delta.generationExpression")


def ensure_fits(current: Snapshot, target: Snapshot) -> None:
    """Refuse to mix files of two versions if they do not match the current schema.

    Raises:
        SafetyError: the message has the difference.
    """
    reason = _find_misfit(current.metadata, target.metadata) or _find_lost_feature(current, target)
    if reason is not None:
        raise SafetyError(
            f"the files of version {target.version} do not fit the table as it is now: {reason}",
            hint=f"Restore the whole table, without {option('where')}, or choose a version that "
            "has the schema of the latest version.",
        )


def _find_lost_feature(current: Snapshot, target: Snapshot) -> str | None:
    lost = list_features(target.protocol) - list_features(current.protocol)
    return f"the table no longer has the features {', '.join(sorted(lost))}" if lost else None


def _find_misfit(current: Metadata, target: Metadata) -> str | None:
    if current.id != target.id:
        return "the table was replaced by another one"
    if current.column_mapping_mode != target.column_mapping_mode:
        return "the column mapping was changed"
    if current.partition_keys != target.partition_keys:
        return "the partition columns were changed"
    for key, condition in current.configuration.items():
        if key.startswith(_CONSTRAINT) and target.configuration.get(key) != condition:
            return f"the old rows were not checked against {key}"
    old = {field.physical_name: field for field in target.schema.fields}
    ids = {field.field_id for field in target.schema.fields}
    for field in current.schema.fields:
        before = old.get(field.physical_name)
        if before is not None:
            problem = _find_difference(before, field)
        else:
            problem = _find_lack(field, field.field_id in ids)
        if problem is not None:
            return f"column {field.name!r} {problem}"
    return None


def _find_lack(field: Field, is_id_of_another: bool) -> str | None:
    """Return the reason why old files must not lack a column."""
    if not field.nullable or any(key in field.metadata for key in _RULES):
        return "is new and has rules (such as NOT NULL) that old files without this column break"
    if field.field_id is not None and is_id_of_another:
        return "has the id of another column of that version"
    return None


def _find_difference(before: Field, now: Field) -> str | None:
    if before.type != now.type and not _is_widened(before, now):
        return f"was {render_type(before.type)}, and is {render_type(now.type)}"
    if before.field_id != now.field_id:
        return "has another column id"
    if before.nullable and not now.nullable:
        return "is NOT NULL now, but was nullable in that version"
    for key in _RULES:
        if key in now.metadata and now.metadata[key] != before.metadata.get(key):
            return f"has another {key}, which the old rows were not checked against"
    return None


def _is_widened(before: Field, now: Field) -> bool:
    """Return whether readers of the table expect files with the earlier type."""
    changes = now.metadata.get(TYPE_CHANGES_KEY) or ()
    return isinstance(before.type, PrimitiveType) and any(
        change.get("fromType") == before.type.name and "fieldPath" not in change
        for change in changes
    )
