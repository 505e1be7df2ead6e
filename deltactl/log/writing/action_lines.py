"""Encode file actions and commitInfo as lines of a commit."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.action_nodes import encode_domain
from deltactl.protocol.actions import DomainMetadata
from deltactl.protocol.arrow_schemas import (
    DELETION_VECTOR_JSON_NAMES,
    DELETION_VECTOR_TYPE,
    JSON_NAMES,
    REMOVE_SCHEMA,
)
from deltactl.protocol.deletion_vectors import DeletionVector
from deltactl.protocol.paths import encode_path

_ROWS_AT_ONCE = 4096


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

    ``row_ids`` are baseRowId and defaultRowCommitVersion, if the table has row tracking;
    ``data_change`` says whether the file adds rows to the table.
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


def file_lines(action: str, files: pa.Table, partition_keys: Collection[str]) -> Iterator[str]:
    """Yield each file action unchanged, with the same path text.

    Only for ``partition_keys``, null partition values are written.

    ``partition_keys`` are the physical names of the partition columns.
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


def as_removes(files: pa.Table, *, data_change: bool = False) -> pa.Table:
    """Return live files as rows of ``REMOVE_SCHEMA``, with the same path texts as their adds.

    They get the time of their deletion when they are committed.

    If the files have ``num_records``, it replaces the statistics, which need not be there.
    ``data_change`` says whether the rows of the files are removed from the table.
    """
    rows = files.num_rows
    new = {
        "deletion_timestamp_ms": pa.nulls(rows, pa.int64()),
        "data_change": pa.array(np.full(rows, data_change, np.bool_)),
        "extended_file_metadata": pa.array(np.ones(rows, np.bool_)),
    }
    if "num_records" in files.column_names:
        counts = files["num_records"].cast(pa.string())
        new["stats"] = pc.binary_join_element_wise('{"numRecords":', counts, "}", "")
    columns = [new[name] if name in new else files[name] for name in REMOVE_SCHEMA.names]
    return pa.table(columns, schema=REMOVE_SCHEMA)


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
