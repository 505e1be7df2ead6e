"""Read all live rows of a snapshot as one stream."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from deltactl.errors import UsageError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.missing_columns import ensure_columns
from deltactl.parquet.data_file import iter_data_files
from deltactl.parquet.reader import RowReader
from deltactl.protocol.column_names import Columns, find_column, format_column, list_columns
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.schema import StructType

_COLUMNS = (
    "path",
    "size_bytes",
    "partition_values",
    "deletion_vector",
    "base_row_id",
    "default_row_commit_version",
)


def scan_snapshot(snapshot: Snapshot, columns: Columns | None = None) -> pa.RecordBatchReader:
    """Stream live logical rows, partition columns included.

    ``columns`` are top-level columns in the requested order; all in schema order if ``None``.

    Raises:
        UnsupportedFeatureError: before the first row, naming features that forbid reading.
        UsageError: an unknown column.
        SafetyError: there are live files, but the schema has no columns.
        DataFileError: while reading.
        MissingLogFileError: while reading, because a log cleanup deleted the checkpoint: reload.
    """
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.READ)
    metadata = snapshot.metadata
    chosen = _choose(metadata.schema, columns)
    if not metadata.schema.fields:
        ensure_columns(snapshot, "read rows", unless_empty=True)
        return pa.RecordBatchReader.from_batches(pa.schema([]), [])
    reader = RowReader(chosen, metadata.partition_fields, metadata.column_mapping_mode)

    def batches() -> Iterator[pa.RecordBatch]:
        for table in snapshot.file_batches(_COLUMNS):
            for file in iter_data_files(table):
                for live in reader.read(snapshot.store, file):
                    if live.columns.num_rows:
                        yield live.columns

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _choose(schema: StructType, columns: Columns | None) -> StructType:
    if columns is None:
        return schema
    chosen = []
    for name in list_columns(columns):
        fields = find_column(schema, name)
        if fields is None:
            known = ", ".join(format_column([f.name]) for f in schema.fields)
            raise UsageError(
                f"the table has no column {name!r}", hint=f"Choose from these columns: {known}."
            )
        if len(fields) > 1:
            whole = format_column([fields[0].name])
            raise UsageError(
                f"{name!r} is a field of the column {whole}, but a scan reads whole columns",
                hint=f"Read {whole}, and take the field from its values.",
            )
        chosen.append(fields[0])
    return StructType(tuple(chosen))
