"""Add the names and ids of column mapping to a schema; remove them, or other metadata of fields.

Works on the JSON, so that all else in it stays as it is. Source: PROTOCOL.md, "Column Mapping".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from deltactl.protocol.actions import Metadata
from deltactl.protocol.schema import FIELD_ID_KEY, NESTED_IDS_KEY, PHYSICAL_NAME_KEY

MAX_COLUMN_ID: Final = "delta.columnMapping.maxColumnId"
_PROPERTIES: Final = frozenset({"delta.columnmapping.mode", MAX_COLUMN_ID.lower()})


def add_column_ids(schema_string: str) -> tuple[str, int]:
    """Return a schema in which each field has its name as physical name, and the highest id.

    The ids are those that Delta on Spark gives: a field comes before its members.
    """
    schema = json.loads(schema_string)
    last = 0
    for last, field in enumerate(_fields(schema), start=1):  # noqa: B007 - returned below
        mapping = {FIELD_ID_KEY: last, PHYSICAL_NAME_KEY: field["name"]}
        field["metadata"] = {**(field.get("metadata") or {}), **mapping}
    return _encode(schema), last


def remove_field_metadata(schema_string: str, keys: Collection[str]) -> str:
    """Return a schema in which no field, at any depth, has metadata with these keys."""
    schema = json.loads(schema_string)
    for field in _fields(schema):
        field["metadata"] = {
            k: v for k, v in (field.get("metadata") or {}).items() if k not in keys
        }
    return _encode(schema)


def without_mapping(metadata: Metadata) -> Metadata:
    """Return the metadata without column mapping: files then have the names of the schema."""
    properties = metadata.configuration.items()
    schema, keys = metadata.schema_string, {FIELD_ID_KEY, NESTED_IDS_KEY, PHYSICAL_NAME_KEY}
    return replace(
        metadata,
        schema_string=schema and remove_field_metadata(schema, keys),
        configuration={k: v for k, v in properties if k.lower() not in _PROPERTIES},
    )


def _encode(schema: Any) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _fields(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every field of a type, at every depth."""
    if not isinstance(node, dict):
        return
    for field in node.get("fields", ()):
        yield field
        yield from _fields(field["type"])
    for member in ("elementType", "keyType", "valueType"):
        yield from _fields(node.get(member))
