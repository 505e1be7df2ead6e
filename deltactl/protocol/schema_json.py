"""Encode Delta types as ``metaData.schemaString``; ``schema.parse_schema`` is the inverse.

Source: PROTOCOL.md, "Schema Serialization Format".
"""

from __future__ import annotations

import json
from typing import Any

from deltactl.protocol.schema import ArrayType, DeltaType, Field, MapType, PrimitiveType, StructType


def encode_schema(struct: StructType) -> str:
    """Return ``metaData.schemaString``, with members in the order of Delta on Spark."""
    return json.dumps(_encode_type(struct), ensure_ascii=False, separators=(",", ":"))


def _encode_type(delta_type: DeltaType) -> Any:
    match delta_type:
        case PrimitiveType(name):
            return name
        case StructType(fields):
            return {"type": "struct", "fields": [_encode_field(f) for f in fields]}
        case ArrayType(element, contains_null):
            return {
                "type": "array",
                "elementType": _encode_type(element),
                "containsNull": contains_null,
            }
        case MapType(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": _encode_type(key),
                "valueType": _encode_type(value),
                "valueContainsNull": value_contains_null,
            }


def _encode_field(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "type": _encode_type(field.type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }
