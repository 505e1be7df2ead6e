"""Define Arrow types of Delta types and columns of file actions; build small arrays.

``schema`` and ``actions`` do not need Arrow, but this module does. So commands on small tables do
not import it. Source: PROTOCOL.md, "Primitive Types", "Column Mapping", "Actions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from deltactl.errors import UnsupportedFeatureError
from deltactl.numpy_types import Array, Bytes, Flags, Integers
from deltactl.protocol.schema import (
    ArrayType,
    DeltaType,
    Field,
    MapType,
    PrimitiveType,
    StructType,
    decimal_digits,
    is_decoded,
    is_void,
    nested_ids,
)

Naming: TypeAlias = Literal["logical", "physical"]
"""Which names an Arrow schema has: logical names, or physical names (as in data files)."""

PARQUET_FIELD_ID = b"PARQUET:field_id"

VARIANT_TYPE: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False),
    ]
)
"""An unshredded variant: a group of two required binaries, ``value`` first, as Spark writes it.

Source: PROTOCOL.md, "Variant data in Parquet"; Parquet's VariantEncoding.md, "Variant in Parquet".
"""

_PRIMITIVES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "decimal": pa.decimal128(10, 0),
    "variant": VARIANT_TYPE,
}
_NAMES: Final = {kind: name for name, kind in _PRIMITIVES.items()}

STRING_MAP = pa.map_(pa.string(), pa.string())

DELETION_VECTOR_TYPE = pa.struct(
    [
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)

_SHARED = [
    # `path` is decoded once. `encoded_path` is the text in the log, which is copied unchanged into
    # remove actions.
    ("path", pa.string()),
    ("encoded_path", pa.string()),
    ("partition_values", STRING_MAP),
    ("size_bytes", pa.int64()),
    ("stats", pa.string()),
    ("tags", STRING_MAP),
    ("deletion_vector", DELETION_VECTOR_TYPE),
    ("base_row_id", pa.int64()),
    ("default_row_commit_version", pa.int64()),
]

ADD_SCHEMA = pa.schema(
    [
        *_SHARED,
        ("modification_time_ms", pa.int64()),
        ("data_change", pa.bool_()),
        ("clustering_provider", pa.string()),
    ]
)
"""One row is a live file. ``size_bytes`` is the size of the Parquet file with its deleted rows."""

REMOVE_SCHEMA = pa.schema(
    [
        *_SHARED,
        ("deletion_timestamp_ms", pa.int64()),
        ("data_change", pa.bool_()),
        ("extended_file_metadata", pa.bool_()),
    ]
)
"""One row is a tombstone."""

JSON_NAMES: Mapping[str, str] = {
    "path": "path",
    "partition_values": "partitionValues",
    "size_bytes": "size",
    "stats": "stats",
    "tags": "tags",
    "deletion_vector": "deletionVector",
    "base_row_id": "baseRowId",
    "default_row_commit_version": "defaultRowCommitVersion",
    "modification_time_ms": "modificationTime",
    "data_change": "dataChange",
    "clustering_provider": "clusteringProvider",
    "deletion_timestamp_ms": "deletionTimestamp",
    "extended_file_metadata": "extendedFileMetadata",
}
"""For each column name of these schemas, the name of the field in the log."""

DELETION_VECTOR_JSON_NAMES = (
    "storageType",
    "pathOrInlineDv",
    "offset",
    "sizeInBytes",
    "cardinality",
)

DELETION_VECTOR_JSON_TYPE = pa.struct(
    [
        (name, ours.type)
        for name, ours in zip(DELETION_VECTOR_JSON_NAMES, DELETION_VECTOR_TYPE, strict=True)
    ]
)
"""The type of a deletion vector, with the field names of the log."""


def arrow_type(delta_type: DeltaType, naming: Naming = "logical") -> pa.DataType:
    """Return the Arrow type of a Delta type.

    Timestamps are ``timestamp[us, UTC]``, timestamp_ntz ``timestamp[us]``. With physical naming,
    void fields are omitted (files do not store them) and structs have their field ids.

    Raises:
        UnsupportedFeatureError: the type is not supported (geometry, nanoseconds, ...).
    """
    match delta_type:
        case StructType():
            return pa.struct(list(arrow_schema(delta_type, naming)))
        case ArrayType(element, contains_null):
            nullable = contains_null or naming == "physical"
            return pa.list_(pa.field("element", arrow_type(element, naming), nullable))
        case MapType(key, value, contains_null):
            return pa.map_(
                pa.field("key", arrow_type(key, naming), nullable=False),
                pa.field("value", arrow_type(value, naming), contains_null or naming == "physical"),
            )
        case PrimitiveType(name):
            return _primitive_arrow(name)


def _primitive_arrow(name: str) -> pa.DataType:
    if (known := _PRIMITIVES.get(name)) is not None:
        return known
    if (digits := decimal_digits(name)) is not None:
        return pa.decimal128(*digits)
    raise UnsupportedFeatureError(
        f"column type {name!r} is not supported",
        hint="Use a tool that supports this type, or read only other columns.",
    )


def describe_type(type: pa.DataType) -> str:
    """Return the name of the Delta type that has an Arrow type; else the Arrow name."""
    if pa.types.is_timestamp(type):
        return "timestamp" if type.tz else "timestamp_ntz"
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    return _NAMES.get(type, str(type))


def partition_type(column: Field) -> pa.DataType:
    """Return the type by which partition values are compared: their text, if not decoded."""
    return arrow_type(column.type) if is_decoded(column.type) else pa.string()


def arrow_schema(struct: StructType, naming: Naming = "logical") -> pa.Schema:
    """Return the Arrow schema of a struct.

    With physical naming, fields have their field ids, and void fields are omitted.
    """
    if naming == "logical":
        return pa.schema([pa.field(f.name, arrow_type(f.type), f.nullable) for f in struct.fields])
    return pa.schema([_physical_field(f) for f in struct.fields if not is_void(f.type)])


def _physical_field(f: Field) -> pa.Field:
    metadata = None if f.field_id is None else {PARQUET_FIELD_ID: str(f.field_id).encode()}
    # Stored columns are always optional, because older rows may not have columns that were added
    # later.
    kind = _with_nested_ids(arrow_type(f.type, "physical"), f.physical_name, nested_ids(f))
    return pa.field(f.physical_name, kind, metadata=metadata)


def _with_nested_ids(kind: pa.DataType, path: str, ids: Mapping[str, int]) -> pa.DataType:
    """Return a list or map type with the field ids of its elements, keys and values."""

    def place(member: pa.Field, name: str) -> pa.Field:
        place = f"{path}.{name}"
        inner = member.with_type(_with_nested_ids(member.type, place, ids))
        return inner.with_metadata({PARQUET_FIELD_ID: str(ids[place])}) if place in ids else inner

    if not ids:
        return kind
    if pa.types.is_map(kind):
        return pa.map_(place(kind.key_field, "key"), place(kind.item_field, "value"))
    return pa.list_(place(kind.value_field, "element")) if pa.types.is_list(kind) else kind


# If pandas is installed, Arrow imports it before it looks at a Python value or a NumPy array. This
# takes longer than all other imports of a program that loads a table. So the functions below pass
# memory to Arrow instead of values.
_INTEGERS: Final = {"int32": pa.int32(), "int64": pa.int64()}


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_batches([], schema)


def array_of(values: Array) -> pa.Array:
    """Return an Arrow array of integers (32 or 64 bits) or of booleans from a NumPy array."""
    if values.dtype == np.bool_:
        bits = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(_INTEGERS[values.dtype.name], len(values), [None, buffer])


def replace_column(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return a table with other values in a column."""
    return table.set_column(table.schema.get_field_index(name), name, values)


def texts_of(values: list[str]) -> pa.Array:
    """Return an Arrow array of a few strings."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def text_bytes(array: pa.Array) -> tuple[Bytes, Integers]:
    """Return the bytes of all strings or binary values, and where each begins; then their end."""
    is_wide = not (pa.types.is_string(array.type) or pa.types.is_binary(array.type))
    if is_wide and not pa.types.is_large_string(array.type):
        array = array.cast(pa.large_binary())
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer or bytes(8), np.int64 if is_wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def flags_of(column: pa.Array | pa.ChunkedArray) -> Flags:
    """Return booleans as a NumPy array; the values of nulls have no meaning."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.zeros(0, np.bool_), *map(_flags, chunks)])


def _flags(array: pa.Array) -> Flags:
    if not len(array):
        return np.zeros(0, np.bool_)
    start, skipped = divmod(array.offset, 8)
    packed = np.frombuffer(array.buffers()[1], np.uint8)[start:]
    bits = np.unpackbits(packed, count=skipped + len(array), bitorder="little")
    return bits[skipped:].view(np.bool_)
