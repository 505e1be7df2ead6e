"""The work of one bin: read the live rows of its files, write them as one, verify.

Runs on any engine: a task is a small picklable value, the store is opened by URI in the worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from deltactl.errors import DeltactlError, VerificationError
from deltactl.log.writing.action_lines import NewFile
from deltactl.operations.optimize.row_ids import RowTrackingColumns, keep_row_ids
from deltactl.operations.optimize.verify import ensure_equal_rows
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.footer import count_nulls
from deltactl.parquet.reader import RowReader, open_in_turn
from deltactl.parquet.writer import DataFileWriter, WriteOptions, WrittenFile
from deltactl.protocol.stats_columns import StatsColumns
from deltactl.storage.open import open_store
from deltactl.storage.store import Store


@dataclass(frozen=True, slots=True)
class RewriteSpec:
    """What all bins of a run share."""

    table_uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    run_id: str
    reader: RowReader
    write_options: WriteOptions
    stats_columns: StatsColumns
    verify: Literal["counts", "full"]
    row_tracking: RowTrackingColumns | None = None


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """One bin: its files in order, and the output directory (with slash, or empty)."""

    number: int
    folder: str
    files: tuple[DataFile, ...]
    partition_values: Mapping[str, str | None]
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The result of a task: no output if no row was live.

    The output has the live rows of the inputs in order. ``inputs`` has a row for each input, in the
    order of the task's files: ``first_row``, where its live rows begin in the output, and
    ``physical_rows``, deleted ones included.
    """

    outputs: tuple[NewFile, ...]
    inputs: pa.RecordBatch


def rewrite_files(spec: RewriteSpec, task: RewriteTask, attempt: int) -> RewriteResult:
    """Rewrite a bin; delete the output if it fails.

    Raises:
        DataFileError: an input is missing or broken.
        VerificationError: the output differs from the input.
    """
    store = open_store(spec.table_uri, spec.storage_options)
    suffix = "" if spec.write_options.codec == "none" else f".{spec.write_options.codec}"
    name = f"{task.folder}part-{task.number:05d}-{spec.run_id}-{attempt}.c000{suffix}.parquet"
    counts = _Counts()
    with (
        DataFileWriter(
            store, name, spec.reader.schema, spec.write_options, spec.stats_columns
        ) as writer,
        closing(open_in_turn(store, task.files)) as sources,
    ):
        for file, source in zip(task.files, sources, strict=True):
            for columns in _live_columns(store, spec, file, source, counts):
                writer.write(columns)
        written = writer.close()
    try:
        _ensure_counts(name, counts, written)
        if spec.verify == "full":
            ensure_equal_rows(store, spec.reader, task.files, name, spec.row_tracking)
        if not written.num_rows:
            store.delete_many([name])
            return RewriteResult((), counts.inputs())
        new_file = _new_file(store, task, written)
    except BaseException:
        with suppress(DeltactlError):  # the first error is raised
            store.delete_many([name])
        raise
    return RewriteResult((new_file,), counts.inputs())


@dataclass(slots=True)
class _Counts:
    """Counts of the input: live rows, and nulls by column; rows of each file that ended."""

    rows: int = 0
    nulls: Counter[str] = field(default_factory=Counter)
    first_rows: list[int] = field(default_factory=list)
    physical_rows: list[int] = field(default_factory=list)

    def add(self, columns: pa.RecordBatch) -> None:
        self.rows += columns.num_rows
        for name, column in zip(columns.schema.names, columns.columns, strict=True):
            self.nulls[name] += count_nulls(column)

    def inputs(self) -> pa.RecordBatch:
        """Return the table of ``RewriteResult.inputs``."""
        columns = {"first_row": self.first_rows, "physical_rows": self.physical_rows}
        return pa.record_batch({name: pa.array(n, pa.int64()) for name, n in columns.items()})

    def end_file(self, file: DataFile, first_row: int, physical_rows: int) -> None:
        """Check the number of live rows against the cardinality of the deletion vector."""
        self.first_rows.append(first_row)
        self.physical_rows.append(physical_rows)
        vector = file.deletion_vector
        expected = physical_rows - (0 if vector is None else vector.cardinality)
        live = self.rows - first_row
        if live != expected:
            raise VerificationError(
                f"{file.path!r} has {physical_rows} rows of which {physical_rows - expected} are "
                f"deleted, but {live} live rows were read"
            )


def _live_columns(
    store: Store, spec: RewriteSpec, file: DataFile, source: pa.NativeFile, counts: _Counts
) -> Iterator[pa.RecordBatch]:
    first_row, physical_rows = counts.rows, 0
    for live in spec.reader.read(store, file, source=source):
        columns = live.columns
        if spec.row_tracking is not None:
            columns = keep_row_ids(live, file, spec.row_tracking)
        counts.add(columns)
        physical_rows += live.num_physical_rows
        if columns.num_rows:
            yield columns
    counts.end_file(file, first_row, physical_rows)


def _ensure_counts(name: str, counts: _Counts, written: WrittenFile) -> None:
    """Compare the counts of the input with the footer of the output."""
    if written.num_rows != counts.rows:
        raise VerificationError(
            f"{name}: {counts.rows} live rows were read but {written.num_rows} were written"
        )
    for column, nulls in written.null_counts.items():
        if nulls != counts.nulls[column]:
            raise VerificationError(
                f"{name}: column {column!r} had {counts.nulls[column]} nulls when read "
                f"but {nulls} when written"
            )


def _new_file(store: Store, task: RewriteTask, written: WrittenFile) -> NewFile:
    (info,) = store.stat_many([written.name])
    if info is None or info.size_bytes != written.size_bytes:
        raise VerificationError(
            f"{written.name} is missing in the store, or has another size than written"
        )
    return NewFile(
        path=written.name,
        partition_values=task.partition_values,
        size_bytes=written.size_bytes,
        modification_time_ms=info.modified_ms,
        num_records=written.num_rows,
        stats=written.stats_json,
        tags=task.tags,
    )
