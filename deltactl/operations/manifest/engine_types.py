"""Write the types of columns as engines and catalogs name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from deltactl.catalog.kinds import CatalogKind
from deltactl.errors import UnsupportedFeatureError
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.schema import ArrayType, DeltaType, MapType, PrimitiveType, StructType

HIVE_TYPES: Final = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
}
_UNITY_TYPES: Final = {**HIVE_TYPES, "timestamp_ntz": "timestamp_ntz", "variant": "variant"}
_OTHER_NAMES: Final = {
    "long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "real": "float",
}  # fmt: skip


def catalog_types(kind: CatalogKind) -> Mapping[str, str]:
    """Return the name that a catalog has for each primitive type of the log."""
    return HIVE_TYPES if kind.is_like_hive else _UNITY_TYPES


def normal_type(text: str) -> str:
    """Return one spelling of a type of a catalog."""
    lowered = text.lower().replace(" ", "")
    return _OTHER_NAMES.get(lowered, lowered)


def engine_type(
    kind: DeltaType,
    column: str,
    names: Mapping[str, str],
    member: Callable[[str, str], str],
    refuse: Callable[[str, DeltaType], UnsupportedFeatureError],
) -> str:
    """Return a type with the ``names`` of an engine.

    ``member`` returns the name of a member of a column as it is written in a type.

    Raises:
        UnsupportedFeatureError: that of ``refuse``, for a type that has no name.
    """
    match kind:
        case StructType(fields):
            types = (
                engine_type(f.type, f"{column}.{f.name}", names, member, refuse) for f in fields
            )
            members = (member(f.name, column) for f in fields)
            pairs = (f"{name}:{text}" for name, text in zip(members, types, strict=True))
            return f"struct<{','.join(pairs)}>"
        case ArrayType(element):
            return f"array<{engine_type(element, column, names, member, refuse)}>"
        case MapType(key, value):
            parts = (engine_type(part, column, names, member, refuse) for part in (key, value))
            return f"map<{','.join(parts)}>"
        case PrimitiveType(name) if name.startswith("decimal"):
            precision, scale = arrow_type(kind).precision, arrow_type(kind).scale
            return f"decimal({precision},{scale})"
        case PrimitiveType(name) if name in names:
            return names[name]
    raise refuse(column, kind)
