"""Convert internal columns of file actions to the columns of a checkpoint.

Source: PROTOCOL.md, "Checkpoint Schema", "Add File and Remove File".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.log.checkpoint.schema import CheckpointLayout
from deltactl.protocol.arrow_schemas import JSON_NAMES, STRING_MAP
from deltactl.protocol.partitions import drop_stale_nulls, lookup_map, parse_partition_column
from deltactl.protocol.stats_decoding import parse_stats

_OURS = {theirs: ours for ours, theirs in JSON_NAMES.items()} | {"path": "encoded_path"}


def add_structs(files: pa.RecordBatch, layout: CheckpointLayout) -> pa.StructArray:
    """Return rows of ``ADD_SCHEMA`` as the ``add`` column, with ``dataChange`` false."""
    type_ = layout.add_type
    arrays = []
    for member in type_:
        if member.name == "stats_parsed":
            arrays.append(parse_stats(files.column("stats"), member.type))
        elif member.name == "partitionValues_parsed":
            arrays.append(_parse_partitions(files.column("partition_values"), member.type))
        else:
            arrays.append(_member(files, member, layout))
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def remove_structs(files: pa.RecordBatch, layout: CheckpointLayout) -> pa.StructArray:
    """Return rows of ``REMOVE_SCHEMA`` as the ``remove`` column."""
    type_ = layout.remove_type
    arrays = [_member(files, member, layout) for member in type_]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def _member(files: pa.RecordBatch, member: pa.Field, layout: CheckpointLayout) -> pa.Array:
    if member.name == "dataChange":
        # Actions in a checkpoint do not change data (PROTOCOL.md, "Checkpoints").
        return pa.repeat(pa.scalar(False), files.num_rows)
    array = files.column(_OURS[member.name])
    if member.name == "deletionVector":
        return _renamed(array, member.type)
    if member.name != "partitionValues" or not len(array):
        return array
    if array.null_count and "modification_time_ms" in files.schema.names:
        # An add must have the map, even if it is empty.
        array = pc.if_else(array.is_valid(), array, pa.scalar([], STRING_MAP))
    return drop_stale_nulls(array, layout.partition_keys)


def _renamed(array: pa.StructArray, type_: pa.StructType) -> pa.StructArray:
    """Return the same structs with the field names of the log."""
    if array.null_count == len(array):
        return pa.nulls(len(array), type_)
    children = [array.field(index) for index in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())


def _parse_partitions(maps: pa.MapArray, type_: pa.StructType) -> pa.StructArray:
    columns = [_parse_leniently(lookup_map(maps, member.name), member.type) for member in type_]
    return pa.StructArray.from_arrays(columns, fields=list(type_))


def _parse_leniently(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return typed values. As in Spark, a string that is not a value of the type becomes null."""
    try:
        return parse_partition_column(texts, type_)
    except CorruptLogError:
        distinct = pc.unique(texts)
        parsed = [_parse_or_null(text, type_) for text in distinct]
        return pa.concat_arrays(parsed).take(pc.index_in(texts, value_set=distinct))


def _parse_or_null(text: pa.Scalar, type_: pa.DataType) -> pa.Array:
    try:
        return parse_partition_column(pa.array([text.as_py()], pa.string()), type_)
    except CorruptLogError:
        return pa.nulls(1, type_)
