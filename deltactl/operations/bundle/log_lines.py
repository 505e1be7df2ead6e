"""Lines of commits without user data; fields that the protocol does not define are replaced."""

from __future__ import annotations

import json
from typing import Any, Final

from deltactl.log.commits.info import parse_json_line
from deltactl.operations.bundle.pseudonyms import Pseudonyms
from deltactl.operations.bundle.rules import (
    Rule,
    columns,
    count_text,
    feature,
    hide,
    inside_text,
    items,
    keyed,
    known_keys,
    like,
    members,
    name,
    number,
    one_of,
    path,
    setting,
)
from deltactl.protocol.properties import KNOWN_PROPERTIES

_OPERATIONS: Final = one_of(
    *("WRITE", "STREAMING UPDATE", "DELETE", "TRUNCATE", "CONVERT", "MERGE", "UPDATE"),
    *("CREATE TABLE", "REPLACE TABLE", "CREATE OR REPLACE TABLE", "CREATE TABLE AS SELECT"),
    *("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "SET TBLPROPERTIES"),
    *("UNSET TBLPROPERTIES", "ADD COLUMNS", "DROP COLUMNS", "RENAME COLUMN", "CHANGE COLUMN"),
    *("CHANGE COLUMNS", "REPLACE COLUMNS", "UPGRADE PROTOCOL", "UPDATE SCHEMA", "ADD CONSTRAINT"),
    *("DROP CONSTRAINT", "FSCK", "OPTIMIZE", "REORG", "RESTORE", "CLONE", "VACUUM START"),
    *("VACUUM END", "CLUSTER BY", "ROW TRACKING BACKFILL", "COMPUTE STATS", "DROP FEATURE"),
    *("SET DOMAIN METADATA", "REPAIR", "CONVERT SYNC", "MANUAL UPDATE", "EMPTY COMMIT"),
)
_METRIC: Final = like(
    r"(?:num|min|max|p25|p50|p75|size|total)[A-Za-z0-9]{0,60}|[a-z]{1,20}TimeMs"
    r"|num_[a-z_]{1,40}|(?:execution|scan|rewrite)_time_ms"
)
# A build of a company often has its name in the version.
_RELEASE: Final = (
    r"[vV]?[0-9]{1,4}(?:\.[0-9x]{1,5}){0,3}"
    r"(?:[-.](?:SNAPSHOT|amzn|preview|photon|scala|alpha|beta|rc|dev)[0-9]{0,4}(?:\.[0-9]{1,4})?"
    r"|-[0-9]{1,4}){0,3}"
)
_ENGINE: Final = like(
    r"(?:(?:Apache-Spark|Delta-Lake|Databricks-Runtime|delta-rs|py-deltalake|deltactl|Flink|Trino"
    rf"|Kernel(?:-Default)?|Default)(?:[:.](?:py|rust)-|[/:. -])?{_RELEASE}(?:[ /]|$)){{1,4}}"
)
_NAMES_AS_TEXT: Final = inside_text(items(name))
_TEXT_PARAMETERS: Final = {
    "mode": one_of("Append", "Overwrite", "ErrorIfExists", "Ignore", "Complete", "Update"),
    "outputMode": one_of("Append", "Complete", "Update"),
    "partitionBy": _NAMES_AS_TEXT,
    "clusterBy": _NAMES_AS_TEXT,
    "zOrderBy": _NAMES_AS_TEXT,
    "isManaged": count_text,
    "auto": count_text,
    "epochId": count_text,
    "batchId": count_text,
    "targetSize": count_text,
    "retentionCheckEnabled": count_text,
    "specifiedRetentionMillis": count_text,
    "defaultRetentionMillis": count_text,
    "statsOnLoad": count_text,
    "version": count_text,
    "status": one_of("COMPLETED", "FAILED"),
}
OPERATION_PARAMETERS: Final = members(
    _TEXT_PARAMETERS | dict.fromkeys(("predicate", "properties", "queryId", "description"), hide)
)
OPERATION_METRICS: Final = keyed(_METRIC, count_text)
COMMIT_INFO: Final[dict[str, Rule]] = {
    "timestamp": number,
    "inCommitTimestamp": number,
    "version": number,
    "readVersion": number,
    "isBlindAppend": number,
    "isolationLevel": one_of("Serializable", "WriteSerializable", "SnapshotIsolation"),
    "operation": _OPERATIONS,
    "operationParameters": OPERATION_PARAMETERS,
    "operationMetrics": OPERATION_METRICS,
    "engineInfo": _ENGINE,
    "txnId": hide,
    "userName": hide,
    "userId": hide,
    "userMetadata": hide,
    "clusterId": hide,
    "job": keyed(like("jobId|jobName|jobRunId|runId|jobOwnerId|triggerType"), hide),
    "notebook": keyed(like("notebookId"), hide),
    "tags": known_keys(frozenset(), hide),
    "clientVersion": _ENGINE,
}


def _bounds(names: Pseudonyms, value: Any) -> Any:
    if isinstance(value, dict):
        return {names.name(key): _bounds(names, item) for key, item in value.items()}
    return names.hide(value)


def _null_counts(names: Pseudonyms, value: Any) -> Any:
    if isinstance(value, dict):
        return {names.name(key): _null_counts(names, item) for key, item in value.items()}
    return number(names, value)


_SIMPLE_TYPE: Final = like(
    r"string|long|integer|short|byte|float|double|boolean|binary|date|timestamp|timestamp_ntz"
    r"|decimal\([0-9]{1,2}, ?-?[0-9]{1,2}\)|variant|void|struct|array|map"
)


def _type(names: Pseudonyms, value: Any) -> Any:
    if isinstance(value, str):
        return _SIMPLE_TYPE(names, value)
    return _TYPE(names, value)


_FIELD: Final = members(
    {
        "name": name,
        "type": _type,
        "nullable": number,
        "metadata": members(
            {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": name,
                "delta.generationExpression": hide,
                "delta.invariants": hide,
                "comment": hide,
            }
        ),
    }
)
_TYPE: Final = members(
    {
        "type": _type,
        "fields": items(_FIELD),
        "elementType": _type,
        "containsNull": number,
        "keyType": _type,
        "valueType": _type,
        "valueContainsNull": number,
    }
)
_STATS: Final = inside_text(
    members(
        {
            "numRecords": number,
            "tightBounds": number,
            "minValues": _bounds,
            "maxValues": _bounds,
            "nullCount": _null_counts,
        }
    )
)
_VECTOR: Final = members(
    {
        "storageType": one_of("u", "i", "p"),
        "pathOrInlineDv": hide,
        "offset": number,
        "sizeInBytes": number,
        "cardinality": number,
    }
)
_TAGS: Final = members(
    {
        "INSERTION_TIME": count_text,
        "MIN_INSERTION_TIME": count_text,
        "MAX_INSERTION_TIME": count_text,
        "OPTIMIZE_TARGET_SIZE": count_text,
        "deltactl.targetFileSize": count_text,
    },
    key=name,
)
_FILE_MEMBERS: Final = members(
    {
        "path": path,
        "partitionValues": keyed(name, hide),
        "size": number,
        "modificationTime": number,
        "deletionTimestamp": number,
        "extendedFileMetadata": number,
        "dataChange": number,
        "stats": _STATS,
        "tags": _TAGS,
        "deletionVector": _VECTOR,
        "baseRowId": number,
        "defaultRowCommitVersion": number,
        "clusteringProvider": one_of("liquid"),
    }
)


def _file(names: Pseudonyms, value: Any) -> Any:
    values = value.get("partitionValues") if isinstance(value, dict) else None
    names.learn_columns(values if isinstance(values, dict) else ())  # the path may come first
    return _FILE_MEMBERS(names, value)


_ENUMERATED: Final = {
    "delta.checkpointPolicy": one_of("classic", "v2"),
    "delta.columnMapping.mode": one_of("none", "id", "name"),
    "delta.isolationLevel": one_of("Serializable", "WriteSerializable", "SnapshotIsolation"),
    "delta.parquet.compression.codec": one_of(
        "zstd", "snappy", "gzip", "lz4", "lz4_raw", "brotli", "none", "uncompressed"
    ),
    "delta.universalFormat.enabledFormats": one_of("iceberg", "hudi", "iceberg,hudi"),
    "delta.dataSkippingStatsColumns": hide,
    "delta.columnMapping.maxColumnId": count_text,
}
PROPERTIES: Final = members({**dict.fromkeys(KNOWN_PROPERTIES, setting), **_ENUMERATED}, key=name)
_DOMAIN: Final = members(
    {
        "domain": like(r"delta\.[A-Za-z]{1,40}"),
        "configuration": inside_text(
            members(
                {
                    "rowIdHighWaterMark": number,
                    "clusteringColumns": items(items(name)),
                }
            )
        ),
        "removed": number,
    }
)
_ACTION: Final = members(
    {
        "commitInfo": members(COMMIT_INFO),
        "add": _file,
        "remove": _file,
        "cdc": _file,
        "metaData": members(
            {
                "id": hide,
                "name": name,
                "description": hide,
                "format": members({"provider": one_of("parquet"), "options": keyed(name, hide)}),
                "schemaString": inside_text(_type),
                "partitionColumns": columns,
                "configuration": PROPERTIES,
                "createdTime": number,
            }
        ),
        "protocol": members(
            {
                "minReaderVersion": number,
                "minWriterVersion": number,
                "readerFeatures": items(feature),
                "writerFeatures": items(feature),
            }
        ),
        "txn": members({"appId": hide, "version": number, "lastUpdated": number}),
        "domainMetadata": _DOMAIN,
        "sidecar": members({"path": path, "sizeInBytes": number, "modificationTime": number}),
        "checkpointMetadata": members({"version": number}),
    }
)


def redact_commit(names: Pseudonyms, data: bytes) -> bytes:
    """Return a commit with pseudonyms, line by line; lines that do not parse as length and hash."""
    lines = data.split(b"\n")
    return b"\n".join(_redact_line(names, line) for line in lines)


def _redact_line(names: Pseudonyms, line: bytes) -> bytes:
    if not line.strip():
        return b""
    try:
        found = parse_json_line(line)
        redacted = _ACTION(names, found) if isinstance(found, dict) else names.hide_bytes(line)
        return json.dumps(redacted).encode()
    except (ValueError, RecursionError):
        return json.dumps(names.hide_bytes(line)).encode()
