"""Three shapes of tables: that of our own generator, of delta-rs, and of Delta on Spark.

Large logs have the form of their writer: names, order and statistics of actions, facts of commits.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

START_MS = 1_704_067_200_000  # 2024-01-01

Tree = dict[str, Any]  # of Arrow arrays, or of names of types


class Shape(StrEnum):
    """Who is said to have written a table."""

    PLAIN = "plain"
    DELTA_RS = "delta-rs"
    SPARK = "spark"


LOG_COLUMNS: Tree = {
    "id": "long",
    "ts": "timestamp",
    "name": "string",
    "value": "double",
    "date": "date",
}
NESTED_COLUMNS: Tree = {
    "address": {"street": "string", "city": "string", "geo": {"lat": "double", "lon": "double"}},
    "event": {"kind": "string", "at": "timestamp"},
}
# Delta on Spark has statistics of the first 32 columns, without those of the partition.
INDEXED_COLUMNS: Tree = {
    **{name: kind for name, kind in LOG_COLUMNS.items() if name != "date"},
    **NESTED_COLUMNS,
    "comment": "string",
    "amount": "decimal(12,2)",
    **{f"m{n:02}": ("double", "long", "string")[n % 3] for n in range(20)},
}
WIDE_COLUMNS: Tree = {**INDEXED_COLUMNS, "date": "date", **{f"x{n:02}": "double" for n in range(8)}}


def metadata_of(columns: Tree, partition_columns: list[str]) -> dict[str, object]:
    """A ``metaData`` action."""
    return {
        "id": "00000000-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(type_of(columns)),
        "partitionColumns": partition_columns,
        "configuration": {},
        "createdTime": START_MS,
    }


def type_of(kind: Any) -> Any:
    """A type of a schema in the log: a struct of a tree."""
    if isinstance(kind, str):
        return kind
    named = {"nullable": True, "metadata": {}}
    fields = [{"name": name, "type": type_of(each), **named} for name, each in kind.items()]
    return {"type": "struct", "fields": fields}


PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


def first_actions(shape: Shape, columns: Tree, partition_columns: list[str]) -> list[Tree]:
    """Protocol and metadata, in the order of the writer."""
    metadata = metadata_of(columns, partition_columns)
    if shape != Shape.SPARK:
        return [{"protocol": PROTOCOL}, {"metaData": metadata}]
    metadata["configuration"] = {"delta.enableDeletionVectors": "true"}
    features = ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "invariants", "appendOnly"],
    }
    return [{"metaData": metadata}, {"protocol": protocol}]


def log_actions(shape: Shape) -> list[Tree]:
    """Those of a table that consists of a log."""
    columns = WIDE_COLUMNS if shape == Shape.SPARK else LOG_COLUMNS
    return first_actions(shape, columns, ["date"])


def commit_info(version: int, operation: str, shape: Shape = Shape.PLAIN, **more: object) -> str:
    """A ``commitInfo`` line; that of plain tables has the members of a hosted Spark too."""
    written = operation == "WRITE"
    head = {"timestamp": START_MS + version * 60_000}
    read = {"readVersion": version - 1} if version else {}
    if shape == Shape.DELTA_RS:
        info = {
            **head,
            "operation": operation,
            "operationParameters": _WRITE_PARAMETERS if written else {"predicate": "id = 1"},
            **({} if written else read),
            "engineInfo": "delta-rs:py-1.6.6",
            "operationMetrics": _DELTA_RS_METRICS,
            "clientVersion": "delta-rs.py-1.6.6",
        }
        return json.dumps({"commitInfo": info})
    hosted = shape == Shape.PLAIN
    info = {
        **head,
        **({"userId": "7264839201", "userName": "etl@example.org"} if hosted else {}),
        "operation": operation,
        "operationParameters": _WRITE_PARAMETERS if written else _MERGE_PARAMETERS,
        **({"clusterId": "0517-093012-abcd1234"} if hosted else {}),
        **read,
        "isolationLevel": "Serializable",
        "isBlindAppend": written,
        "operationMetrics": _WRITE_METRICS if written else _MERGE_METRICS,
        "engineInfo": "Apache-Spark/4.2.0 Delta-Lake/4.4.0",
        "txnId": f"5a1c7a52-0000-4000-8000-{version:012}",
    }
    return json.dumps({"commitInfo": info | more})


_DELTA_RS_METRICS = {
    "num_added_files": 1,
    "num_removed_files": 0,
    "num_partitions": 0,
    "num_added_rows": 8000,
    "execution_time_ms": 12,
    "num_retries": 0,
}
_WRITE_PARAMETERS = {"mode": "Append", "partitionBy": '["date"]'}
_WRITE_METRICS = {"numFiles": "2", "numOutputRows": "45000", "numOutputBytes": "60000000"}
_MERGE_PARAMETERS = {
    "predicate": '["(id#16588L = id#16590L)"]',
    "matchedPredicates": '[{"actionType":"update"}]',
    "notMatchedPredicates": '[{"actionType":"insert"}]',
    "notMatchedBySourcePredicates": "[]",
}
_MERGE_METRICS = {
    f"numTarget{name}": "12"
    for name in (
        *("RowsCopied", "RowsDeleted", "BytesRemoved", "DeletionVectorsAdded", "RowsUpdated"),
        *("RowsMatchedUpdated", "RowsMatchedDeleted", "ChangeFilesAdded", "FilesAdded"),
        *("BytesAdded", "RowsInserted", "DeletionVectorsUpdated", "DeletionVectorsRemoved"),
        *("RowsNotMatchedBySourceDeleted", "RowsNotMatchedBySourceUpdated", "FilesRemoved"),
    )
} | {"executionTimeMs": "2785", "scanTimeMs": "1538", "rewriteTimeMs": "1105"}
