"""Parse and encode Delta schemas: JSON, types, and the names and ids of column mapping.

Source: PROTOCOL.md, "Schema Serialization Format", "Column Mapping", "Primitive Types".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from deltactl.errors import MALFORMED, CorruptLogError

PHYSICAL_NAME_KEY = "delta.columnMapping.physicalName"
FIELD_ID_KEY = "delta.columnMapping.id"
NESTED_IDS_KEY: Final = "delta.columnMapping.nested.ids"
TYPE_CHANGES_KEY: Final = "delta.typeChanges"
_MAPPING_KEYS = frozenset({PHYSICAL_NAME_KEY, FIELD_ID_KEY})

MAX_DECIMAL_DIGITS: Final = 38

PRIMITIVE_NAMES: Final = frozenset(
    {
        "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary",
        "date", "timestamp", "timestamp_ntz", "void", "decimal", "variant",
    }
)  # fmt: skip
"""The primitive types that deltactl supports, except those of ``decimal_digits``."""

_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without children; ``name`` is the name of the type in the schema's JSON."""

    name: str


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of one element type."""

    element: DeltaType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from a key type to a value type."""

    key: DeltaType
    value: DeltaType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Field:
    """A named column or struct member with its metadata (column mapping, defaults, ...)."""

    name: str
    type: DeltaType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def physical_name(self) -> str:
        """The name in Parquet files, statistics and partition values."""
        return str(self.metadata.get(PHYSICAL_NAME_KEY, self.name))

    @property
    def field_id(self) -> int | None:
        """The Parquet field id from column mapping, if any."""
        value = self.metadata.get(FIELD_ID_KEY)
        return int(value) if value is not None else None


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct with ordered fields; the schema of a table is a struct type."""

    fields: tuple[Field, ...]

    def find(self, name: str) -> Field | None:
        """Return the field with this name, or the only field whose name differs only by case."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        folded = [f for f in self.fields if f.name.lower() == name.lower()]
        return folded[0] if len(folded) == 1 else None

    def fields_at(self, path: Sequence[str]) -> list[Field]:
        """Return the fields along a path of physical names, up to the first that is missing."""
        found: list[Field] = []
        level: DeltaType = self
        for name in path:
            members = level.fields if isinstance(level, StructType) else ()
            field = next((member for member in members if member.physical_name == name), None)
            if field is None:
                break
            found.append(field)
            level = field.type
        return found


DeltaType: TypeAlias = PrimitiveType | ArrayType | MapType | StructType


def parse_schema(text: str, *, is_mapped: bool = True) -> StructType:
    """Parse ``metaData.schemaString``.

    Args:
        text: the JSON.
        is_mapped: whether the table uses column mapping. If not, physical names and ids in the
            schema are ignored (PROTOCOL.md, "Column Mapping", "Reader Requirements"), and the
            returned fields do not have them.

    Raises:
        CorruptLogError: the text is not a Delta schema.
    """
    try:
        parsed = _parse_type(json.loads(text), is_mapped)
    except (*MALFORMED, RecursionError) as error:
        raise CorruptLogError(
            f"the table's schemaString is not a Delta schema: {type(error).__name__}: {error}"[:500]
        ) from error
    if not isinstance(parsed, StructType):
        raise CorruptLogError("the table's schemaString is not a struct")
    return parsed


def _parse_type(node: Any, is_mapped: bool) -> DeltaType:
    if isinstance(node, str):
        return PrimitiveType(node)
    kind = node["type"]
    if kind == "struct":
        if not isinstance(node["fields"], list):
            raise TypeError("the fields of a struct are not a list")
        fields = tuple(_parse_field(child, is_mapped) for child in node["fields"])
        if len({f.name for f in fields}) < len(fields):
            raise ValueError("two fields of a struct have the same name")
        return StructType(fields)
    if kind == "array":
        return ArrayType(_parse_type(node["elementType"], is_mapped), _flag(node, "containsNull"))
    if kind == "udt":  # of Spark: files store the values of its sqlType
        return _parse_type(node["sqlType"], is_mapped)
    if kind == "map":
        return MapType(
            _parse_type(node["keyType"], is_mapped),
            _parse_type(node["valueType"], is_mapped),
            _flag(node, "valueContainsNull") if "valueContainsNull" in node else True,
        )
    raise ValueError(f"unknown type {kind!r}")


def _parse_field(node: Mapping[str, Any], is_mapped: bool) -> Field:
    if not isinstance(node["name"], str):
        raise TypeError(f"{node['name']!r} is not the name of a field")
    metadata = node.get("metadata", {})  # absent: see find_lacking_metadata
    if not isinstance(metadata, dict):
        raise TypeError(f"the metadata of field {node['name']!r} are not a JSON object")
    if not is_mapped:
        metadata = {key: value for key, value in metadata.items() if key not in _MAPPING_KEYS}
    parsed = Field(
        name=node["name"],
        type=_parse_type(node["type"], is_mapped),
        nullable=_flag(node, "nullable"),
        metadata=metadata,
    )
    for name in (parsed.name, parsed.physical_name):
        name.encode()  # raises for half of a surrogate pair, which JSON text can contain
    _ = parsed.field_id  # raises if the field id is not a number
    return parsed


def _flag(node: Mapping[str, Any], name: str) -> bool:
    if not isinstance(flag := node.get(name), bool):
        raise TypeError(f"{name!r} is not true or false, but {flag!r}")
    return flag


def find_lacking_metadata(text: str) -> list[str]:
    """Return the names of fields without ``metadata``, at every depth, in a valid schema.

    Delta on Spark reads such a schema; delta-rs and DuckDB do not.
    """
    return list(_lacking_metadata(json.loads(text)))


def _lacking_metadata(node: Any) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    for child in node.get("fields", ()):
        if "metadata" not in child:
            yield child["name"]
        yield from _lacking_metadata(child["type"])
    for member in ("elementType", "keyType", "valueType"):
        yield from _lacking_metadata(node.get(member))


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


def _encode_field(f: Field) -> dict[str, Any]:
    return {
        "name": f.name,
        "type": _encode_type(f.type),
        "nullable": f.nullable,
        "metadata": dict(f.metadata),
    }


def render_type(kind: DeltaType) -> str:
    """Return a type in SQL syntax: ``map<string,array<long>>``."""
    match kind:
        case StructType(fields):
            return f"struct<{','.join(f'{f.name}:{render_type(f.type)}' for f in fields)}>"
        case ArrayType(element):
            return f"array<{render_type(element)}>"
        case MapType(key, value):
            return f"map<{render_type(key)},{render_type(value)}>"
        case PrimitiveType(name):
            return name


def decimal_digits(name: str) -> tuple[int, int] | None:
    """Return precision and scale of a valid ``decimal(p,s)``, or ``None``."""
    match = _DECIMAL.fullmatch(name)
    precision, scale = (int(match[1]), int(match[2])) if match else (0, 0)
    is_valid = 1 <= precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision
    return (precision, scale) if is_valid else None


def is_supported(leaf: PrimitiveType) -> bool:
    """Return whether deltactl reads and writes values of a primitive type."""
    return leaf.name in PRIMITIVE_NAMES or decimal_digits(leaf.name) is not None


def is_decoded(delta_type: DeltaType) -> bool:
    """Return whether deltactl reads and writes values of a type, and of every type inside it."""
    return all(map(is_supported, leaf_types(delta_type)))


def is_void(delta_type: DeltaType) -> bool:
    """Return whether values of this type are never stored in data files."""
    return isinstance(delta_type, PrimitiveType) and delta_type.name == "void"


def is_variant(delta_type: DeltaType) -> bool:
    """Return whether values of this type are variants."""
    return isinstance(delta_type, PrimitiveType) and delta_type.name == "variant"


def walk_types(delta_type: DeltaType) -> Iterator[DeltaType]:
    """Yield a type and every type inside it."""
    yield delta_type
    match delta_type:
        case StructType(fields):
            for child in fields:
                yield from walk_types(child.type)
        case ArrayType(element):
            yield from walk_types(element)
        case MapType(key, value):
            yield from walk_types(key)
            yield from walk_types(value)


def leaf_types(delta_type: DeltaType) -> Iterator[PrimitiveType]:
    """Return an iterator over all primitive types inside a type, at every depth."""
    return (kind for kind in walk_types(delta_type) if isinstance(kind, PrimitiveType))


def walk_fields(struct: StructType) -> Iterator[Field]:
    """Yield every field at every depth, also inside arrays and maps."""
    return (field for _, field in walk_paths(struct))


def walk_paths(struct: StructType, above: str = "") -> Iterator[tuple[str, Field]]:
    """Yield the dotted path and the field of every field at every depth."""
    for child in struct.fields:
        yield f"{above}{child.name}", child
        yield from _paths_inside(child.type, f"{above}{child.name}.")


def _paths_inside(delta_type: DeltaType, above: str) -> Iterator[tuple[str, Field]]:
    match delta_type:
        case StructType():
            yield from walk_paths(delta_type, above)
        case ArrayType(element):
            yield from _paths_inside(element, f"{above}element.")
        case MapType(key, value):
            yield from _paths_inside(key, f"{above}key.")
            yield from _paths_inside(value, f"{above}value.")


def nested_ids(field: Field) -> Mapping[str, int]:
    """Return the field ids of elements, keys and values below a field, by their paths in it."""
    found = field.metadata.get(NESTED_IDS_KEY)
    if not isinstance(found, dict):
        return {}
    return {path: number for path, number in found.items() if isinstance(number, int)}


def variant_groups(struct: StructType) -> frozenset[tuple[str, ...]]:
    """Return the paths of Parquet groups that are variants in a data file of this schema.

    Lists and maps add groups: ``list.element``, ``key_value.key`` and so on (Parquet's
    LogicalTypes.md).
    """
    return frozenset(path for f in struct.fields for path in _variants((f.physical_name,), f.type))


def _variants(path: tuple[str, ...], delta_type: DeltaType) -> Iterator[tuple[str, ...]]:
    match delta_type:
        case StructType(fields):
            for child in fields:
                yield from _variants((*path, child.physical_name), child.type)
        case ArrayType(element):
            yield from _variants((*path, "list", "element"), element)
        case MapType(key, value):
            yield from _variants((*path, "key_value", "key"), key)
            yield from _variants((*path, "key_value", "value"), value)
        case PrimitiveType(name):
            if name == "variant":
                yield path
