"""Convert rows of a table of file actions to objects, for the files that a command reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from deltactl.protocol.deletion_vectors import DeletionVector


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file to read, as its ``add`` action describes it; ``path`` is decoded."""

    path: str
    size_bytes: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None


def iter_data_files(files: pa.Table) -> Iterator[DataFile]:
    """Yield each row of a table with ``ADD_SCHEMA`` columns as a :class:`DataFile`, in order."""
    # So many rows are Python dictionaries at the same time.
    for batch in files.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            yield DataFile(
                path=row["path"],
                size_bytes=row["size_bytes"] or 0,
                partition_values=dict(row["partition_values"] or ()),
                deletion_vector=_vector(row["deletion_vector"]),
                base_row_id=row["base_row_id"],
                default_row_commit_version=row["default_row_commit_version"],
            )


def _vector(node: Mapping[str, Any] | None) -> DeletionVector | None:
    return None if node is None else DeletionVector(**node)
