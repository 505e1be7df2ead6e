"""Keep the high-water marks of identity columns, in the metadata of the schema.

Source: PROTOCOL.md, "Identity Columns".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from deltactl.errors import MALFORMED

_MARK: Final = "delta.identity.highWaterMark"
_START: Final = "delta.identity.start"
_STEP: Final = "delta.identity.step"
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"


def keep_high_water_marks(schema_string: str | None, current: str | None) -> str | None:
    """Return a schema whose high-water marks are at least as far as those of the current schema.

    With an earlier mark, values would be generated a second time. If no mark must be raised, the
    schema is returned unchanged.
    """
    try:
        schema = json.loads(schema_string or "")
        marks = {_name(f): f["metadata"] for f in _identity_fields(json.loads(current or ""))}
        changed = [_raise(f["metadata"], marks.get(_name(f))) for f in _identity_fields(schema)]
    except (*MALFORMED, RecursionError):
        return schema_string
    if not any(changed):
        return schema_string
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _identity_fields(schema: Any) -> list[dict[str, Any]]:
    return [field for field in schema["fields"] if _START in (field.get("metadata") or {})]


def _name(field: Mapping[str, Any]) -> str:
    return str(field["metadata"].get(_PHYSICAL_NAME, field["name"]))


def _raise(metadata: dict[str, Any], current: Mapping[str, Any] | None) -> bool:
    """Use the current mark if it is further; return whether it is."""
    if current is None or current.get(_MARK) is None:
        return False
    step = int(metadata.get(_STEP, 1))
    mark, other = metadata.get(_MARK), int(current[_MARK])
    further = max if step > 0 else min
    kept = other if mark is None else further(int(mark), other)
    if kept == mark:
        return False
    metadata[_MARK] = kept
    return True
