"""Encode file actions and commitInfo as lines of a commit."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from deltactl.protocol.action_nodes import encode_domain
from deltactl.protocol.actions import DomainMetadata
from deltactl.protocol.arrow_schemas import (
    DELETION_VECTOR_JSON_NAMES,
    DELETION_VECTOR_TYPE,
    JSON_NAMES,
)
from deltactl.protocol.deletion_vectors import DeletionVector
from deltactl.protocol.paths import encode_path

_ROWS_AT_ONCE = 4096
_REMOVE_COLUMNS = (
    "partition_values",
    "size_bytes",
    "tags",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to add to the log. ``path`` is decoded; ``stats`` is JSON text or ``None``."""

    path: str
    partition_values: Mapping[str, str | None]
    size_bytes: int
    modification_time_ms: int
    num_records: int
    stats: str | None
    tags: Mapping[str, str] = field(default_factory=dict)
    deletion_vector: DeletionVector | None = None
    clustering_provider: str | None = None


def line(action: str, body: Mapping[str, Any]) -> str:
    """Return one action as a line of JSON, without the line end."""
    return json.dumps({action: body}, ensure_ascii=False, separators=(",", ":"))


def add_line(file: NewFile, row_ids: tuple[int, int] | None, *, data_change: bool = False) -> str:
    """Return an ``add`` action as a line.

    Args:
        file: the file that was written or found.
        row_ids: baseRowId and defaultRowCommitVersion, if the table has row tracking.
        data_change: whether the file adds rows to the table.
    """
    body: dict[str, Any] = {
        "path": encode_path(file.path),
        "partitionValues": dict(file.partition_values),
        "size": file.size_bytes,
        "modificationTime": file.modification_time_ms,
        "dataChange": data_change,
    }
    if file.stats is not None:
        body["stats"] = file.stats
    if file.tags:
        body["tags"] = dict(file.tags)
    if file.deletion_vector is not None:
        body["deletionVector"] = json_value("deletion_vector", asdict(file.deletion_vector))
    if row_ids is not None:
        body["baseRowId"], body["defaultRowCommitVersion"] = row_ids
    if file.clustering_provider is not None:
        body["clusteringProvider"] = file.clustering_provider
    return line("add", body)


def domain_line(domain: DomainMetadata) -> str:
    """Return a ``domainMetadata`` action as a line."""
    return line("domainMetadata", encode_domain(domain))


def remove_lines(
    files: pa.Table, deletion_timestamp_ms: int, *, data_change: bool = False
) -> Iterator[str]:
    """Yield a ``remove`` for each live file, with the same path text as its ``add``.

    Args:
        files: rows of ``ADD_SCHEMA`` plus ``num_records``.
        deletion_timestamp_ms: when the run began, ms since 1970 UTC.
        data_change: whether the rows of the files are removed from the table.
    """
    for row in files.to_pylist():
        body: dict[str, Any] = {
            "path": row["encoded_path"],
            "deletionTimestamp": deletion_timestamp_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
        }
        for column in _REMOVE_COLUMNS:
            value = row[column]
            if value is not None:
                body[JSON_NAMES[column]] = json_value(column, value)
        body.setdefault("partitionValues", {})
        if row["num_records"] is not None:
            body["stats"] = json.dumps({"numRecords": row["num_records"]}, separators=(",", ":"))
        yield line("remove", body)


def file_lines(action: str, files: pa.Table, partition_keys: Collection[str]) -> Iterator[str]:
    """Yield each file action unchanged, with the same path text.

    Only for ``partition_keys``, null partition values are written.

    Args:
        action: ``add`` or ``remove``.
        files: rows of ``ADD_SCHEMA`` or ``REMOVE_SCHEMA``.
        partition_keys: physical names of the partition columns.
    """
    for batch in files.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            row["path"] = row.pop("encoded_path")
            values = row["partition_values"]
            if values is not None:
                row["partition_values"] = [
                    (key, text) for key, text in values if text is not None or key in partition_keys
                ]
            body = {
                JSON_NAMES[column]: json_value(column, value)
                for column, value in row.items()
                if value is not None
            }
            yield line(action, body)


def all_change_data(files: pa.Table) -> pa.Table:
    """Return the files with ``data_change`` set to true."""
    changes = pa.array(np.ones(files.num_rows, np.bool_))
    return files.set_column(files.schema.get_field_index("data_change"), "data_change", changes)


def json_value(column: str, value: Any) -> Any:
    """Return a value of a column of file actions in its JSON form."""
    if column in ("partition_values", "tags"):
        return dict(value)
    if column == "deletion_vector":
        names = zip(DELETION_VECTOR_JSON_NAMES, DELETION_VECTOR_TYPE, strict=True)
        return {name: value[ours.name] for name, ours in names if value[ours.name] is not None}
    return value
