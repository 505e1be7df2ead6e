"""Derive the Delta type of each column of a Parquet file from its footer.

If the protocol allows several types, the type is the one that Spark uses for the Parquet type.
Every column is nullable, because later files may have nulls in columns that have none in these
files.

Source: PROTOCOL.md, "Primitive Types" and "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError
from deltactl.parquet.nested import walk_leaves
from deltactl.protocol.schema import (
    MAX_DECIMAL_DIGITS,
    ArrayType,
    DeltaType,
    Field,
    MapType,
    PrimitiveType,
    StructType,
)

_SIMPLE: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "byte"),
    (pa.types.is_int16, "short"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "long"),
    # Unsigned types become the next wider signed type, as Spark reads them.
    (pa.types.is_uint8, "short"),
    (pa.types.is_uint16, "integer"),
    (pa.types.is_uint32, "long"),
    (pa.types.is_uint64, "decimal(20,0)"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_date, "date"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_binary_view, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_null, "void"),
)
# Spark reads both as strings.
_TEXTS: Final = frozenset({"JSON", "ENUM"})
# For Arrow, both are plain bytes; Spark and other readers refuse them.
_UNREADABLE: Final = frozenset({"UUID", "INTERVAL"})


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The columns of a file; ``unusable`` has the columns without a Delta type, with reasons.

    ``nanoseconds`` contains the columns with nanoseconds, which Delta stores as microseconds.
    """

    struct: StructType
    unusable: tuple[tuple[str, str], ...] = ()
    nanoseconds: tuple[str, ...] = ()


class _UnusableTypeError(Exception):
    """The type of a column does not exist in Delta; the message contains the type."""


def read_file_schema(schema: pq.ParquetSchema) -> FileSchema:
    """Return the Delta columns of a Parquet file, in its order. Arrow's null type becomes void.

    Raises:
        DataFileError: the name of a column is not UTF-8.
    """
    try:
        return _read_file_schema(schema)
    except UnicodeDecodeError as error:
        raise DataFileError("is broken: the name of a column is not UTF-8") from error


def _read_file_schema(schema: pq.ParquetSchema) -> FileSchema:
    reader = _SchemaReader(schema)
    fields: list[Field] = []
    unusable: list[tuple[str, str]] = []
    for member in schema.to_arrow_schema():
        start = reader.position
        try:
            fields.append(Field(member.name, reader.read(member.type, member.name)))
        except _UnusableTypeError as error:
            unusable.append((member.name, str(error)))
            # The reader stopped inside of this column: continue at the next one.
            reader.position = start + sum(1 for _ in walk_leaves(member.type))
    unusable += _repeated(StructType(tuple(fields)), "")
    return FileSchema(StructType(tuple(fields)), tuple(unusable), tuple(reader.nanoseconds))


def _repeated(kind: DeltaType, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield fields of a struct at any depth with one name, because Delta ignores case."""
    seen: dict[str, str] = {}
    match kind:
        case StructType():
            for field in kind.fields:
                name = f"{prefix}{field.name}"
                if (other := seen.setdefault(field.name.lower(), name)) is not name:
                    yield (
                        name,
                        f"has the same name as {other!r}; names that differ only in case are equal",
                    )
                yield from _repeated(field.type, f"{name}.")
        case ArrayType():
            yield from _repeated(kind.element, f"{prefix}element.")
        case MapType():
            yield from _repeated(kind.key, f"{prefix}key.")
            yield from _repeated(kind.value, f"{prefix}value.")


class _SchemaReader:
    """Read Arrow types together with the Parquet leaves, which have facts that Arrow omits."""

    def __init__(self, schema: pq.ParquetSchema) -> None:
        self._schema = schema
        self.position = 0
        self.nanoseconds: list[str] = []

    def read(self, kind: pa.DataType, path: str) -> DeltaType:
        """Return the Delta type of a column or struct field; move to the leaf after its leaves."""
        if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != "arrow.json":
            raise _UnusableTypeError(f"type {kind.extension_name} is not a type of Delta")
        if isinstance(kind, pa.BaseExtensionType):
            # In Delta, JSON is a string.
            kind = kind.storage_type
        if pa.types.is_struct(kind):
            return self._read_struct(kind, path)
        if pa.types.is_map(kind):
            key = self.read(kind.key_type, f"{path}.key")
            return MapType(key, self.read(kind.item_type, f"{path}.value"))
        # Only Arrow's schema in the footer says so: in Parquet, it is a plain column.
        if pa.types.is_dictionary(kind):
            return self.read(kind.value_type, path)
        if pa.types.is_nested(kind):
            return ArrayType(self.read(kind.value_type, f"{path}.element"))
        leaf = self._schema.column(self.position)
        self.position += 1
        for annotation in _UNREADABLE & {leaf.logical_type.type, leaf.converted_type}:
            raise _UnusableTypeError(f"type {annotation} of Parquet is not a type of Delta")
        return self._read_leaf(kind, leaf, path)

    def _read_struct(self, kind: pa.StructType, path: str) -> DeltaType:
        stored = {m.name: m for m in kind}
        if "typed_value" in stored and "metadata" in stored:
            raise _UnusableTypeError("is a shredded variant, which this program does not write")
        # Writers of variants may omit the annotation. No other group has these members.
        if stored.keys() == {"value", "metadata"} and all(
            pa.types.is_binary(m.type) and not m.nullable for m in kind
        ):
            self.position += 2
            return PrimitiveType("variant")
        members = [(m.name, self.read(m.type, f"{path}.{m.name}")) for m in kind]
        return StructType(tuple(Field(name, inner) for name, inner in members))

    def _read_leaf(self, kind: pa.DataType, leaf: pq.ColumnSchema, path: str) -> DeltaType:
        # For Arrow, it has no time zone; for Spark, it is an instant.
        if leaf.physical_type == "INT96":
            return PrimitiveType("timestamp")
        if leaf.logical_type.type in _TEXTS:
            return PrimitiveType("string")
        if pa.types.is_timestamp(kind):
            if kind.unit == "ns":
                self.nanoseconds.append(path)
            return PrimitiveType("timestamp_ntz" if kind.tz is None else "timestamp")
        if pa.types.is_duration(kind):  # only Arrow has this type: in Parquet it is a plain INT64
            return PrimitiveType("long")
        if pa.types.is_decimal(kind):
            if kind.precision > MAX_DECIMAL_DIGITS or kind.scale < 0:
                raise _UnusableTypeError(
                    f"{kind} is not a decimal of Delta: these have at most 38 digits, and no "
                    "negative scale"
                )
            return PrimitiveType(f"decimal({kind.precision},{kind.scale})")
        for matches, name in _SIMPLE:
            if matches(kind):
                return PrimitiveType(name)
        raise _UnusableTypeError(f"type {kind} is not a type of Delta")
