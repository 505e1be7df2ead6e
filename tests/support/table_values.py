"""Columns, values and rows of tables written by hand, as logs and files have them."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

Action = dict[str, Any]
Row = dict[str, Any]
Key = tuple[str, str | None]
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

_ARROW = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(frozen=True)
class Column:
    """A column as `schemaString` has it; `type` is Delta's JSON, column mapping is added later."""

    name: str
    type: Any = "long"
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def physical(self) -> str:
        return str(self.metadata.get("delta.columnMapping.physicalName", self.name))

    @property
    def field_id(self) -> int | None:
        return self.metadata.get("delta.columnMapping.id")

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Column:
        return cls(node["name"], node["type"], node["nullable"], node.get("metadata", {}))


def struct_of(*columns: Column) -> dict[str, Any]:
    return {"type": "struct", "fields": [column.to_json() for column in columns]}


def array_of(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def members(type_: Any) -> list[Column]:
    return [Column.of(node) for node in type_["fields"]]


def arrow_of(type_: Any) -> pa.DataType:
    """The Arrow type that files have: physical names, field ids."""
    if isinstance(type_, str):
        if type_.startswith("decimal"):
            precision, scale = type_[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
        return _ARROW[type_]
    if type_["type"] == "struct":
        return pa.struct([field_of(member) for member in members(type_)])
    if type_["type"] == "array":
        return pa.list_(pa.field("element", arrow_of(type_["elementType"])))
    return pa.map_(arrow_of(type_["keyType"]), arrow_of(type_["valueType"]))


def field_of(column: Column) -> pa.Field:
    metadata = None if column.field_id is None else {"PARQUET:field_id": str(column.field_id)}
    return pa.field(column.physical, arrow_of(column.type), True, metadata)


def to_physical(value: Any, type_: Any) -> Any:
    """A value with logical member names as files have it."""
    if value is None or isinstance(type_, str):
        return value
    if type_["type"] == "struct":
        return {m.physical: to_physical(value.get(m.name), m.type) for m in members(type_)}
    if type_["type"] == "array":
        return [to_physical(item, type_["elementType"]) for item in value]
    pairs = value.items() if isinstance(value, dict) else value
    return [
        (to_physical(k, type_["keyType"]), to_physical(v, type_["valueType"])) for k, v in pairs
    ]


def to_logical(value: Any, type_: Any) -> Any:
    """A stored value under the names and types of a later schema; missing members are null."""
    if value is None:
        return None
    if isinstance(type_, str):
        return _widen(value, type_)
    if type_["type"] == "struct":
        return {m.name: to_logical(value.get(m.physical), m.type) for m in members(type_)}
    if type_["type"] == "array":
        return [to_logical(item, type_["elementType"]) for item in value]
    return [(to_logical(k, type_["keyType"]), to_logical(v, type_["valueType"])) for k, v in value]


def _widen(value: Any, type_: str) -> Any:
    if type_ == "double":
        return float(value)
    if type_ == "float":
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if type_.startswith("decimal"):
        return Decimal(value)
    if type_ == "timestamp_ntz" and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return value


def canonical(value: Any) -> Any:
    """A value that can be hashed; NaN equals NaN, -0.0 is not 0.0, null is not zero."""
    match value:
        case float():
            return ("float", "nan" if math.isnan(value) else value.hex())
        case bool() | None | str() | bytes():
            return (type(value).__name__, value)
        case Decimal():
            return ("number", str(value.normalize()))
        case dict():
            return tuple((name, canonical(member)) for name, member in sorted(value.items()))
        case list() | tuple():
            return tuple(canonical(item) for item in value)
        case dt.datetime():
            return ("time", value.replace(tzinfo=None).isoformat())
        case _:
            return (type(value).__name__, value)


def multiset(rows: Iterable[Row]) -> Counter[Any]:
    return Counter(canonical(row) for row in rows)


def z85(data: bytes) -> str:
    text = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        text += "".join(_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def from_z85(text: str) -> bytes:
    data = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        data += number.to_bytes(4, "big")
    return data


def bitmap_bytes(positions: Iterable[int]) -> bytes:
    return struct.pack("<I", 1681511377) + BitMap64(sorted(positions)).serialize()


def dv_id(vector: Mapping[str, Any] | None) -> str | None:
    if vector is None:
        return None
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def format_partition(value: Any) -> str | None:
    match value:
        case None | "":
            return None
        case bool():
            return "true" if value else "false"
        case dt.datetime() if value.tzinfo:
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case dt.datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")
        case _:
            return str(value)


def parse_partition(text: str | None, type_: str) -> Any:
    if text is None or text == "":
        return None
    if type_ in ("long", "integer", "short", "byte"):
        return int(text)
    if type_ in ("double", "float"):
        return float(text)
    if type_ == "boolean":
        return text == "true"
    if type_ == "date":
        return dt.date.fromisoformat(text)
    if type_.startswith("timestamp"):
        return dt.datetime.fromisoformat(text)
    if type_.startswith("decimal"):
        return Decimal(text)
    return text


@dataclass
class State:
    """A version, by the naive rules: one dictionary a kind of action."""

    version: int = -1
    protocol: Action | None = None
    metadata: Action | None = None
    files: dict[Key, Action] = field(default_factory=dict)
    tombstones: dict[Key, Action] = field(default_factory=dict)
    txns: dict[str, Action] = field(default_factory=dict)
    domains: dict[str, Action] = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        self.version += 1
        for action in actions:
            ((name, body),) = action.items()
            match name:
                case "protocol":
                    self.protocol = body
                case "metaData":
                    self.metadata = body
                case "txn":
                    self.txns[body["appId"]] = body
                case "domainMetadata" if body.get("removed"):
                    self.domains.pop(body["domain"], None)
                case "domainMetadata":
                    self.domains[body["domain"]] = body
                case "add":
                    key = body["path"], dv_id(body.get("deletionVector"))
                    self.tombstones.pop(key, None)
                    self.files[key] = body
                case "remove":
                    key = body["path"], dv_id(body.get("deletionVector"))
                    self.files.pop(key, None)
                    self.tombstones[key] = body

    @property
    def columns(self) -> list[Column]:
        assert self.metadata is not None
        return members(json.loads(self.metadata["schemaString"]))
