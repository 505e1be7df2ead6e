"""Build the Parquet schemas of checkpoint files from the table, never from the file actions.

Order and types are as Delta on Spark writes them. Source: PROTOCOL.md, "Checkpoint Schema".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from deltactl.errors import CorruptLogError, UnsupportedFeatureError
from deltactl.log.checkpoint.compat import Compat
from deltactl.parquet.nested import walk_leaves
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_JSON_TYPE, STRING_MAP, arrow_type
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_decoding import parsed_stats_type

_STRINGS: Final = pa.list_(pa.field("element", pa.string()))
_TXN: Final = pa.struct(
    [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
)
_METADATA: Final = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _STRINGS),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL: Final = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _STRINGS),
        ("writerFeatures", _STRINGS),
    ]
)
_DOMAIN: Final = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)
_CHECKPOINT_METADATA: Final = pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])
_SIDECAR: Final = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", STRING_MAP),
    ]
)

_REPEATING: Final = ("partitionValues", "tags", "clusteringProvider", "deletionVector")
_NUMBERS: Final = ("offset", "sizeInBytes", "cardinality")


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """The layout of file actions. It is small and can be pickled.

    ``stats_json``: whether ``add.stats`` is present. ``stats_type``: the type of
    ``add.stats_parsed``; ``None`` if the column is absent. ``partition_types``: members of
    ``add.partitionValues_parsed`` by physical name; empty if the column is absent.
    ``partition_keys``: the physical names of the partition columns.
    """

    stats_json: bool
    stats_type: pa.StructType | None
    partition_types: Mapping[str, pa.DataType]
    partition_keys: tuple[str, ...] = ()
    compat: Compat = "default"

    @property
    def add_type(self) -> pa.StructType:
        """Return the type of the ``add`` column."""
        members = [
            ("path", pa.string()),
            ("partitionValues", STRING_MAP),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("tags", STRING_MAP),
            ("deletionVector", DELETION_VECTOR_JSON_TYPE),
            ("baseRowId", pa.int64()),
            ("defaultRowCommitVersion", pa.int64()),
            ("clusteringProvider", pa.string()),
        ]
        if self.stats_json:
            members.append(("stats", pa.string()))
        if self.partition_types:
            members.append(
                ("partitionValues_parsed", pa.struct(list(self.partition_types.items())))
            )
        if self.stats_type is not None:
            members.append(("stats_parsed", self.stats_type))
        return pa.struct(members)

    @property
    def remove_type(self) -> pa.StructType:
        """Return the type of the ``remove`` column. As in Spark, it lacks tags and statistics."""
        return pa.struct(
            [
                ("path", pa.string()),
                ("deletionTimestamp", pa.int64()),
                ("dataChange", pa.bool_()),
                ("extendedFileMetadata", pa.bool_()),
                ("partitionValues", STRING_MAP),
                ("size", pa.int64()),
                ("deletionVector", DELETION_VECTOR_JSON_TYPE),
                ("baseRowId", pa.int64()),
                ("defaultRowCommitVersion", pa.int64()),
            ]
        )

    @property
    def whole_schema(self) -> pa.Schema:
        """Return the schema of a file with all actions: a classic checkpoint or a part of one."""
        return pa.schema(
            [
                ("txn", _TXN),
                ("add", self.add_type),
                ("remove", self.remove_type),
                ("metaData", _METADATA),
                ("protocol", _PROTOCOL),
                ("domainMetadata", _DOMAIN),
            ]
        )

    @property
    def sidecar_schema(self) -> pa.Schema:
        """Return the schema of a sidecar: file actions only."""
        return pa.schema([("add", self.add_type), ("remove", self.remove_type)])


TOP_SCHEMA: Final = pa.schema(
    [
        ("txn", _TXN),
        ("metaData", _METADATA),
        ("protocol", _PROTOCOL),
        ("domainMetadata", _DOMAIN),
        ("checkpointMetadata", _CHECKPOINT_METADATA),
        ("sidecar", _SIDECAR),
    ]
)
"""The schema of the top-level file of a V2 checkpoint, if all file actions are in sidecars."""


def choose_layout(
    metadata: Metadata, protocol: Protocol, compat: Compat = "default"
) -> CheckpointLayout:
    """Return the layout that the table's properties require.

    If ``delta.checkpoint.writeStatsAsStruct`` is not set, it counts as false, as in the protocol;
    with ``compat`` ``spark``, it counts as true. If a column has an unknown type, the layout has
    JSON only.
    """
    properties = TableProperties(metadata.configuration)
    stats_json = properties.flag("delta.checkpoint.writeStatsAsJson", default=True)
    as_struct = properties.flag("delta.checkpoint.writeStatsAsStruct", default=compat == "spark")
    stats_type: pa.StructType | None = None
    partition_types: dict[str, pa.DataType] = {}
    if as_struct:
        try:
            stats_type = parsed_stats_type(metadata, protocol)
            partition_types = {
                f.physical_name: arrow_type(f.type, "physical") for f in metadata.partition_fields
            }
        except (UnsupportedFeatureError, CorruptLogError):
            # JSON even if the property forbids it: the checkpoint would lose the statistics.
            stats_type, partition_types, stats_json = None, {}, True
    keys = metadata.partition_keys
    return CheckpointLayout(stats_json, stats_type, partition_types, keys, compat)


def non_file_rows(schema: pa.Schema, nodes: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a row for each action, given as ``{name: object}``; maps are given as dictionaries."""
    columns = []
    for member in schema:
        values = [_with_pairs(node.get(member.name), member.type) for node in nodes]
        columns.append(pa.array(values, member.type))
    return pa.table(columns, schema=schema)


def _with_pairs(value: Any, type_: pa.DataType) -> Any:
    """Return a value with its dictionaries as the pairs that Arrow needs for maps."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return list(value.items())
    if pa.types.is_struct(type_):
        return {member.name: _with_pairs(value.get(member.name), member.type) for member in type_}
    return value


def dictionary_leaves(schema: pa.Schema, compat: Compat) -> list[str]:
    """Return the leaves whose values are the same in many rows, but never paths and statistics."""
    if compat == "plain":
        return []
    return [
        ".".join(path)
        for path in _leaves(schema)
        if path[0] in ("add", "remove") and path[1] in _REPEATING and path[-1] not in _NUMBERS
    ]


def described_leaves(schema: pa.Schema) -> list[str]:
    """Return the leaves that get bounds and null counts: all except the JSON of statistics."""
    return [".".join(path) for path in _leaves(schema) if path != ("add", "stats")]


def _leaves(schema: pa.Schema) -> Iterator[FieldPath]:
    return (leaf.path for member in schema for leaf in walk_leaves(member.type, (member.name,)))


_SPARK_NAMES: Final[Mapping[pa.DataType, str]] = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.int32(): "integer",
    pa.int16(): "short",
    pa.int8(): "byte",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def spark_schema(type_: pa.DataType | pa.Schema) -> Any:
    """Return a schema in the form that ``_last_checkpoint`` has: Spark's StructType."""
    if isinstance(type_, pa.Schema) or pa.types.is_struct(type_):
        fields = [
            # All columns of a checkpoint may be null: each row has one action.
            {"name": f.name, "type": spark_schema(f.type), "nullable": True, "metadata": {}}
            for f in type_
        ]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": spark_schema(type_.key_type),
            "valueType": spark_schema(type_.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_list(type_):
        element = spark_schema(type_.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _SPARK_NAMES[type_]
