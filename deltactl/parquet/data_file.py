"""Convert rows of a table of file actions to objects, for the files that a command reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import pyarrow as pa

from deltactl.protocol.deletion_vectors import DeletionVector
from deltactl.protocol.stats import FieldPath

FLOAT_STATS: Final = "float_stats"
"""A column that file actions can have if their files may be copied: see ``LoggedFloats``."""


@dataclass(frozen=True, slots=True)
class LoggedFloats:
    """Statistics of float leaves in ``add.stats``, by which readers already skip a file.

    ``leaves`` has minimum, maximum and null count by physical path. It contains a leaf only if all
    three are in the log and the bounds are finite numbers.
    """

    num_records: int
    leaves: Mapping[FieldPath, tuple[float, float, int]]


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file to read, as its ``add`` action describes it; ``path`` is decoded.

    ``floats`` is ``None`` if it is not known, or if the bounds also cover deleted rows.
    """

    path: str
    size_bytes: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    floats: LoggedFloats | None = None


def iter_data_files(files: pa.Table) -> Iterator[DataFile]:
    """Yield each row of a table with ``ADD_SCHEMA`` columns as a :class:`DataFile`, in order."""
    for batch in files.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            yield DataFile(
                path=row["path"],
                size_bytes=row["size_bytes"] or 0,
                partition_values=dict(row["partition_values"] or ()),
                deletion_vector=_vector(row["deletion_vector"]),
                base_row_id=row["base_row_id"],
                default_row_commit_version=row["default_row_commit_version"],
                floats=_floats(row),
            )


def _vector(node: Mapping[str, Any] | None) -> DeletionVector | None:
    return None if node is None else DeletionVector(**node)


def _floats(row: Mapping[str, Any]) -> LoggedFloats | None:
    found = row.get(FLOAT_STATS)
    if not found or row["deletion_vector"] is not None:
        return None
    stats = found[0]
    if stats["numRecords"] is None or stats["tightBounds"] is False:
        return None
    leaves = {
        path: (lower, upper, nulls)
        for path, lower in _walk(stats["minValues"])
        if (upper := _find(stats["maxValues"], path)) is not None
        and (nulls := _find(stats["nullCount"], path)) is not None
        and isfinite(lower)
        and isfinite(upper)
    }
    return LoggedFloats(stats["numRecords"], leaves)


def _walk(node: Mapping[str, Any] | None, above: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield path and value of all members of a struct that are not null, also of nested structs."""
    for name, value in (node or {}).items():
        if isinstance(value, dict):
            yield from _walk(value, (*above, name))
        elif value is not None:
            yield (*above, name), value


def _find(node: Mapping[str, Any] | None, path: FieldPath) -> Any:
    for name in path:
        node = None if node is None else node.get(name)
    return node
