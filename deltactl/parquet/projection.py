"""Convert the columns of a data file to the columns of a table.

Data files may be older than the schema. So at every level, a file can lack fields, have additional
fields, or have fields of a narrower type.

Source: PROTOCOL.md, "Reader Requirements for Column Mapping", "Reader Requirements for Type
Widening".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DataFileError
from deltactl.lazy import cached_property
from deltactl.parquet.nested import null_array
from deltactl.protocol.arrow_schemas import PARQUET_FIELD_ID
from deltactl.protocol.schema import ArrayType, DeltaType, Field, MapType, StructType, is_variant
from deltactl.protocol.variants import read_variant


class FileFields:
    """The columns of a file, or the fields of a struct in it, with indexes for wide tables.

    Raises:
        DataFileError: two columns have the same name.
    """

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        self._fields = list(fields)
        self.names = [field.name for field in self._fields]
        self.by_name = {name: index for index, name in enumerate(self.names)}
        if len(self.by_name) < len(self.names):
            twice = next(n for i, n in enumerate(self.names) if self.by_name[n] != i)
            raise DataFileError(f"the file has two columns with the name {twice!r}")

    def type_of(self, index: int) -> pa.DataType:
        """Return the type of the field at ``index``."""
        return self._fields[index].type

    def members(self, index: int) -> FileFields:
        """Return the fields of the struct at ``index``; no fields if it is not a struct."""
        kind = self.type_of(index)
        return FileFields(kind if pa.types.is_struct(kind) else ())

    @cached_property
    def by_folded_name(self) -> Mapping[str, Sequence[int]]:
        """Return the indexes of fields by lower-case name."""
        found = defaultdict(list)
        for index, name in enumerate(self.names):
            found[name.lower()].append(index)
        return found

    @cached_property
    def by_id(self) -> Mapping[bytes, int]:
        """Return the index of each field by its Parquet field id, as a string."""
        ids = [(field.metadata or {}).get(PARQUET_FIELD_ID) for field in self._fields]
        # Reversed, so that the first of several columns with one id counts.
        return {number: index for index, number in reversed([*enumerate(ids)]) if number}


@dataclass(frozen=True, slots=True)
class Matcher:
    """Find the field of a file for a field of the table, by the column mapping mode."""

    mode: str

    def find(self, wanted: Field, present: FileFields) -> int | None:
        """Return the index of the field for ``wanted``; ``None`` means that its values are null.

        Raises:
            DataFileError: several fields match.
        """
        if self.mode == "id":
            return present.by_id.get(str(wanted.field_id).encode())
        name = wanted.physical_name if self.mode == "name" else wanted.name
        found = present.by_name.get(name)
        if found is not None or self.mode == "name":
            return found
        # Some writers change the case of names.
        folded = present.by_folded_name.get(name.lower(), ())
        if len(folded) > 1:
            alike = " and ".join(repr(present.names[index]) for index in folded)
            raise DataFileError(f"column {name!r} is ambiguous: the file has {alike}")
        return folded[0] if folded else None


def ensure_field_ids(matcher: Matcher, file_schema: pa.Schema, name: str) -> None:
    """Raise an error for a file without field ids in a table that maps columns by id.

    Without this check, all columns would be null.

    Raises:
        DataFileError: the file has no field ids; the message has the file.
    """
    if (
        matcher.mode == "id"
        and len(file_schema)
        and not any(PARQUET_FIELD_ID in (field.metadata or {}) for field in file_schema)
    ):
        raise DataFileError(
            f"{name} has no Parquet field ids, which the table's column mapping mode `id` needs"
        )


def convert(
    array: pa.Array, delta_type: DeltaType, target: pa.DataType, match: Matcher
) -> pa.Array:
    """Return a file's column in the table's type: renamed, reordered, widened, with nulls added.

    Args:
        array: the column as Arrow read it from Parquet.
        delta_type: the table's type, with the ids and names to find.
        target: the Arrow type to return; it has the stored fields of ``delta_type``.
        match: finds fields.

    Raises:
        pa.ArrowException: the values do not fit the type.
    """
    if isinstance(array, pa.ExtensionArray) and not is_variant(delta_type):
        array = array.storage
    # Some writers store a column that is null in all rows of a file without its type.
    if pa.types.is_null(array.type):
        return null_array(len(array), target)
    _ensure_kind(array.type, delta_type)
    match delta_type:
        case StructType():
            return _convert_struct(array, delta_type, target, match)
        case ArrayType(element):
            return _convert_list(array, element, target, match)
        case MapType(key, value):
            return _convert_map(array, key, value, target, match)
        case _ if is_variant(delta_type):
            return read_variant(array)
        case _:
            return cast_leaf(array, target)


def _ensure_kind(stored: pa.DataType, wanted: DeltaType) -> None:
    """Raise an error if the table's column is a struct, list or map and the file's column is not.

    Raises:
        pa.ArrowTypeError: the kinds differ.
    """
    fits = {
        StructType: pa.types.is_struct,
        MapType: pa.types.is_map,
        ArrayType: lambda kind: hasattr(kind, "value_field") and not pa.types.is_map(kind),
    }.get(type(wanted))
    if fits is not None and not fits(stored):
        raise pa.ArrowTypeError(f"the file has type {stored} instead")


def _convert_struct(
    array: pa.StructArray, struct: StructType, target: pa.StructType, match: Matcher
) -> pa.Array:
    present = FileFields(array.type)
    # With physical names, the target has no void fields. So pair only the stored fields.
    wanted = [f for f in struct.fields if target.get_field_index(_name_in(target, f)) >= 0]
    children = []
    for member, field in zip(wanted, target, strict=True):
        index = match.find(member, present)
        if index is None:
            children.append(null_array(len(array), field.type))
        else:
            children.append(convert(array.field(index), member.type, field.type, match))
    mask = array.is_null() if array.null_count else None
    if not children:
        # Without children, from_arrays cannot know the number of rows.
        return pa.array([{}] * len(array), target, mask=mask)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _name_in(target: pa.StructType, field: Field) -> str:
    return field.name if target.get_field_index(field.name) >= 0 else field.physical_name


def _offsets(array: pa.Array) -> pa.Array:
    # This copy starts at offset zero, because Arrow refuses a null mask with sliced offsets.
    return pa.array(array.offsets.to_numpy(zero_copy_only=False), pa.int32())


def _convert_list(
    array: pa.Array, element: DeltaType, target: pa.ListType, match: Matcher
) -> pa.Array:
    if not pa.types.is_list(array.type):
        # Arrow's schema in the footer can say that a list is large or has a fixed size.
        array = array.cast(pa.list_(array.type.value_field))
    values = convert(array.values, element, target.value_type, match)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=mask)


def _convert_map(
    array: pa.MapArray, key: DeltaType, value: DeltaType, target: pa.MapType, match: Matcher
) -> pa.Array:
    entries = array.values
    keys = convert(entries.field(0), key, target.key_type, match)
    items = convert(entries.field(1), value, target.item_type, match)
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(_offsets(array), keys, items, type=target, mask=mask)


def cast_leaf(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Widen a primitive column. Timestamps may get or lose a time zone, but keep their value.

    In a Delta ``timestamp`` column, INT96 and timestamps without a time zone are UTC.
    """
    source = array.type
    if source == target:
        return array
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        # Nanoseconds are truncated. A timestamp that is out of range for microseconds must not
        # overflow.
        micros = array.cast(pa.timestamp("us", source.tz), safe=source.unit != "ns")
        if (source.tz is None) == (target.tz is None):
            return micros.cast(target)
        # The number stays the same. A cast would convert from or to a time zone.
        return micros.view(pa.int64()).view(target)
    if pa.types.is_dictionary(source):
        return cast_leaf(array.cast(source.value_type), target)
    if pa.types.is_decimal(target) and pa.types.is_integer(source):
        # Arrow converts integers only to decimals that have room for all integers of the type.
        return pc.cast(array.cast(pa.decimal128(_INTEGER_DIGITS[str(source)], 0)), target)
    if _loses(source, target):
        raise pa.ArrowInvalid(f"{source} cannot be widened to {target}")
    return array.cast(target)


def _loses(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow would lose data in a cast between these types without an error."""
    if pa.types.is_floating(source):
        narrower = pa.types.is_floating(target) and target.bit_width < source.bit_width
        lost = narrower or pa.types.is_decimal(target) or pa.types.is_boolean(target)
    elif pa.types.is_string(source) or pa.types.is_large_string(source):
        lost = not (pa.types.is_string(target) or pa.types.is_binary(target))
    elif pa.types.is_decimal(source):
        lost = not pa.types.is_decimal(target)
    else:
        to_flag = pa.types.is_boolean(target) and not pa.types.is_null(source)
        lost = to_flag or pa.types.is_timestamp(source)
    return bool(lost)


_INTEGER_DIGITS = {
    "int8": 3,
    "int16": 5,
    "int32": 10,
    "int64": 19,
    "uint8": 3,
    "uint16": 5,
    "uint32": 10,
    "uint64": 20,
}
