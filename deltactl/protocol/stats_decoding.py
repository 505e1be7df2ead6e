"""Decode ``add.stats``: JSON strings become structs of Arrow columns of a given type.

If a value does not fit the type of its column, it becomes null (unknown). Source: PROTOCOL.md,
"Per-file Statistics", "Checkpoint Schema".
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltactl.errors import CorruptLogError
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.schema import DeltaType, PrimitiveType, StructType
from deltactl.protocol.stats import FieldPath, whole_number
from deltactl.protocol.stats_columns import choose_stats_columns, list_leaves

_LEAST_BLOCK: Final = 1 << 20
_SPECIAL_FLOATS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}
_ZONES: Final[Mapping[DeltaType | None, str | None]] = {
    PrimitiveType("timestamp"): "UTC",
    PrimitiveType("timestamp_ntz"): None,
}


def stats_type(
    bounds: Mapping[FieldPath, pa.DataType], nulls: Iterable[FieldPath], *, tight: bool = False
) -> pa.StructType:
    """Return the type of statistics with bounds and null counts of the leaves with these paths.

    Structs without such leaves are omitted, because Parquet has no empty groups. ``tight`` adds
    ``tightBounds``.
    """
    members = [pa.field("numRecords", pa.int64())]
    if bounds:
        members += [pa.field(name, _nest(bounds)) for name in ("minValues", "maxValues")]
    if counts := dict.fromkeys(nulls, pa.int64()):
        members.append(pa.field("nullCount", _nest(counts)))
    if tight:
        members.append(pa.field("tightBounds", pa.bool_()))
    return pa.struct(members)


def parsed_stats_type(metadata: Metadata, protocol: Protocol) -> pa.StructType:
    """Return the type of ``stats_parsed``: the leaves that have statistics, by physical name.

    Raises:
        UnsupportedFeatureError: deltactl does not know a column type.
    """
    columns = choose_stats_columns(metadata, protocol)
    bounds = {
        leaf.path: _leaf_type(metadata.schema, leaf.path)
        for leaf in columns.leaves
        if leaf.has_bounds and leaf.kind != "boolean"  # as in Delta on Spark
    }
    return stats_type(bounds, [leaf.path for leaf in columns.leaves], tight=columns.tight_bounds)


def all_stats_type(metadata: Metadata) -> pa.StructType:
    """Return the type of all statistics that files can have: not only of the chosen leaves.

    Raises:
        UnsupportedFeatureError: deltactl does not know a column type.
    """
    schema = metadata.data_schema
    leaves = list_leaves(schema)
    bounds = {leaf.path: _leaf_type(schema, leaf.path) for leaf in leaves if leaf.has_bounds}
    return stats_type(bounds, [leaf.path for leaf in leaves], tight=True)


def bounds_type(metadata: Metadata, paths: Sequence[FieldPath]) -> pa.StructType:
    """Return the type of the statistics of the columns with these physical paths."""
    return stats_type({path: _leaf_type(metadata.data_schema, path) for path in paths}, paths)


def _leaf_type(schema: StructType, path: FieldPath) -> pa.DataType:
    return arrow_type(schema.fields_at(path)[len(path) - 1].type, "physical")


def _nest(leaves: Mapping[FieldPath, pa.DataType]) -> pa.StructType:
    """Return the struct of leaves with these paths."""
    firsts = dict.fromkeys(path[0] for path in leaves)
    members = []
    for first in firsts:
        below = {path[1:]: kind for path, kind in leaves.items() if path[0] == first}
        members.append(pa.field(first, below.get(()) or _nest(below)))
    return pa.struct(members)


def zone_times(parsed: pa.StructArray, metadata: Metadata) -> pa.StructArray:
    """Return ``stats_parsed`` with times as in the schema: with a time zone or without.

    Spark writes INT96, whose type does not show whether there is a time zone.
    """
    if not _has_times(parsed.type):
        return parsed
    try:
        schema = metadata.schema
    except CorruptLogError:  # the error is reported where rows are read
        return parsed
    members = [
        pa.field(member.name, _zone(member.type, schema))
        if member.name in ("minValues", "maxValues")
        else member
        for member in parsed.type
    ]
    return parsed.cast(pa.struct(members))


def _has_times(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return any(_has_times(member.type) for member in type_)
    return bool(pa.types.is_timestamp(type_))


def _zone(type_: pa.DataType, known: DeltaType | None) -> pa.DataType:
    """Return the type of a time, with a time zone only if the table's type is ``timestamp``."""
    if pa.types.is_struct(type_):
        fields = known.fields if isinstance(known, StructType) else ()
        below = {field.physical_name: field.type for field in fields}
        members = [(member.name, _zone(member.type, below.get(member.name))) for member in type_]
        return pa.struct(members)
    if not pa.types.is_timestamp(type_) or known not in _ZONES:
        return type_
    return pa.timestamp(type_.unit, _ZONES[known])


def parse_stats(
    texts: pa.Array | pa.ChunkedArray, type_: pa.StructType
) -> pa.StructArray | pa.ChunkedArray:
    """Return the structs of JSON strings; a null string gives a null struct."""
    if isinstance(texts, pa.ChunkedArray):
        chunks = [parse_stats(chunk.cast(pa.string()), type_) for chunk in texts.chunks]
        return pa.chunked_array(chunks, type_)
    try:
        return _parse_columns(texts, type_)
    except (pa.ArrowException, ValueError):
        # Arrow fails, for example, for NaN as a string, a duplicate key, or a fraction for an
        # integer.
        return pa.array([_parse_one(text, type_) for text in texts.to_pylist()], type_)


def _parse_columns(texts: pa.Array, type_: pa.StructType) -> pa.StructArray:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), type_)
    if pc.any(pc.match_substring(texts, "\n")).as_py():
        raise ValueError("line breaks")
    if not pc.all(pc.starts_with(texts, "{")).as_py():
        # For example, a JSON null as the whole string: if it comes first, the process ends inside
        # Arrow (26.0).
        raise ValueError("a text that does not begin as an object does")
    lines = pc.binary_join(
        pa.ListArray.from_arrays([0, len(texts)], pc.fill_null(texts, "{}")), "\n"
    )
    buffer = lines[0].as_buffer()
    longest = pc.max(pc.binary_length(texts)).as_py() + 2
    table = pj.read_json(
        io.BytesIO(buffer),
        read_options=pj.ReadOptions(block_size=max(_LEAST_BLOCK, longest), use_threads=False),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(list(_readable(type_))), unexpected_field_behavior="ignore"
        ),
    )
    if table.num_rows != len(texts):
        raise ValueError("a text is not one line")
    struct = table.to_struct_array()
    parsed = struct.combine_chunks() if isinstance(struct, pa.ChunkedArray) else struct
    return _convert(parsed, type_, texts.is_null() if texts.null_count else None)


def _readable(type_: pa.DataType) -> Any:
    """Return the type with which a leaf is read: strings for dates and times (many forms)."""
    if pa.types.is_struct(type_):
        return pa.struct([(f.name, _readable(f.type)) for f in type_])
    if pa.types.is_temporal(type_):
        return pa.string()
    return type_


def _convert(array: pa.Array, type_: pa.DataType, mask: pa.Array | None = None) -> pa.Array:
    if pa.types.is_struct(type_):
        children = [_convert(array.field(f.name), f.type) for f in type_]
        if mask is None and array.null_count:
            mask = array.is_null()
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
    if array.type == type_:
        return array
    if pa.types.is_timestamp(type_) and type_.tz is None:
        # Such a column has strings without a time zone; after type widening, it also has dates.
        return array.cast(type_)
    if pa.types.is_timestamp(type_):
        try:
            return array.cast(type_)
        except pa.ArrowInvalid:
            return array.cast(pa.timestamp("us")).cast(type_)
    return array.cast(type_)


def _parse_one(text: str | None, type_: pa.StructType) -> Any:
    if text is None:
        return None
    try:
        return _fit(json.loads(text, parse_float=Decimal), type_)
    except (ValueError, RecursionError, InvalidOperation):  # the exponent is too large
        return None


def _fit(value: Any, type_: pa.DataType) -> Any:
    """Return a JSON value as a value of the type; ``None`` if the value does not fit."""
    if pa.types.is_struct(type_):
        if not isinstance(value, dict):
            return None
        return {f.name: _fit(value.get(f.name), f.type) for f in type_}
    try:
        fitted = _fit_leaf(value, type_)
        return None if fitted is None else pa.scalar(fitted, type_).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError, InvalidOperation):
        return None


def _fit_leaf(value: Any, type_: pa.DataType) -> Any:
    is_boolean = pa.types.is_boolean(type_)
    if isinstance(value, dict | list) or isinstance(value, bool) != is_boolean:
        return None
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else None
    if is_boolean:
        return value
    if pa.types.is_floating(type_):
        # Readers parse no other strings: for them, a bound in another form is missing.
        return _SPECIAL_FLOATS.get(value) if isinstance(value, str) else float(value)
    if pa.types.is_decimal(type_):
        return Decimal(value)  # Arrow refuses values with more digits than the column has
    if pa.types.is_temporal(type_):
        return _convert(pa.array([value], pa.string()), type_)[0].as_py()
    return whole_number(value)
