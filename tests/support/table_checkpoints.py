"""Checkpoints of tables written by hand: actions as Parquet."""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Action = dict[str, Any]

_MAP = pa.map_(pa.string(), pa.string())


def _struct(text: str, **types: pa.DataType) -> pa.StructType:
    """The type of a struct with these members, each a name and an alias of Arrow or of ours."""
    pairs = (member.split() for member in text.split(", "))
    known = {"map": _MAP, "texts": pa.list_(pa.string()), **types}
    return pa.struct(
        [(name, known.get(alias) or pa.type_for_alias(alias)) for name, alias in pairs]
    )


_VECTOR = _struct(
    "storageType string, pathOrInlineDv string, offset int32, sizeInBytes int32, "
    "cardinality int64, maxRowIndex int64"
)
CHECKPOINT_SCHEMA = pa.schema(
    {
        "txn": _struct("appId string, version int64, lastUpdated int64"),
        "add": _struct(
            "path string, partitionValues map, size int64, modificationTime int64, "
            "dataChange bool, tags map, deletionVector vector, baseRowId int64, "
            "defaultRowCommitVersion int64, clusteringProvider string, stats string",
            vector=_VECTOR,
        ),
        "remove": _struct(
            "path string, deletionTimestamp int64, dataChange bool, extendedFileMetadata bool, "
            "partitionValues map, size int64, deletionVector vector, baseRowId int64, "
            "defaultRowCommitVersion int64",
            vector=_VECTOR,
        ),
        "metaData": _struct(
            "id string, name string, description string, format format, schemaString string, "
            "partitionColumns texts, configuration map, createdTime int64",
            format=_struct("provider string, options map"),
        ),
        "protocol": _struct(
            "minReaderVersion int32, minWriterVersion int32, readerFeatures texts, "
            "writerFeatures texts"
        ),
        "domainMetadata": _struct("domain string, configuration string, removed bool"),
        "checkpointMetadata": _struct("version int64, tags map"),
        "sidecar": _struct("path string, sizeInBytes int64, modificationTime int64, tags map"),
    }
)


def checkpoint_parquet(actions: Sequence[Action], columns: Sequence[str] = ()) -> bytes:
    """Actions as Parquet, one action a row."""
    names = columns or CHECKPOINT_SCHEMA.names
    schema = pa.schema([CHECKPOINT_SCHEMA.field(name) for name in names])
    rows = [{name: body and _pairs(body) for name, body in action.items()} for action in actions]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink)
    return sink.getvalue()


def _pairs(body: Action) -> Action:
    """Maps as lists of pairs, as Arrow wants them."""
    maps = ("partitionValues", "tags", "configuration", "options")
    return {
        key: list(value.items())
        if key in maps and isinstance(value, dict)
        else (_pairs(value) if isinstance(value, dict) else value)
        for key, value in body.items()
    }
