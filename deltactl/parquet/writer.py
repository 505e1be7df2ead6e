"""Write a data file from batches in bounded memory; read its statistics from the stored footer.

Physical types are as Delta on Spark reads them. Source: PROTOCOL.md, "Data Files", "Column
Mapping".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import DataFileError, DeltactlError, UnsupportedFeatureError
from deltactl.parquet.amend import HeldSink, amend_footer
from deltactl.parquet.calendar import PROLEPTIC_CALENDAR, has_datetimes
from deltactl.parquet.encodings import (
    DICTIONARY_PAGE_BYTES,
    choose_dictionary_columns,
    choose_levels,
)
from deltactl.parquet.facts import FactCollector
from deltactl.parquet.footer import read_file_stats
from deltactl.parquet.footer_bytes import count_footer
from deltactl.parquet.nested import walk_types
from deltactl.parquet.null_counts import read_null_counts
from deltactl.parquet.stored_columns import StoredColumn
from deltactl.protocol.stats_columns import StatsColumns
from deltactl.protocol.stats_encoding import encode_stats
from deltactl.storage.store import Store

DEFAULT_ROW_GROUP_BYTES: Final = 128 << 20
DEFAULT_ROW_GROUP_ROWS: Final = 1 << 20
_WRITE_BATCH_ROWS: Final = 1 << 14
_LEVELLED: Final = frozenset({"zstd", "gzip", "brotli"})


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of Parquet files. A row group ends when it reaches one of its two limits.

    ``codec`` is zstd, snappy, gzip, lz4, brotli or none. ``level`` is the highest level for a
    column (see ``choose_levels``); ``None`` is the codec's default. ``variants`` are the groups to
    annotate as variants (see ``schema.variant_groups``). ``undecoded`` are columns beside the
    schema, of which all row groups are copied.
    """

    codec: str = "zstd"
    level: int | None = None
    row_group_bytes: int = DEFAULT_ROW_GROUP_BYTES
    row_group_rows: int = DEFAULT_ROW_GROUP_ROWS
    data_page_version: str = "1.0"
    format_version: str = "2.6"
    variants: frozenset[tuple[str, ...]] = frozenset()
    undecoded: Sequence[StoredColumn] = ()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A stored file. Row count and ``null_counts`` (see ``count_nulls``) come from its footer."""

    name: str
    size_bytes: int
    num_rows: int
    stats_json: str
    null_counts: dict[str, int]


class PendingRows:
    """Rows that are collected until they fill a row group."""

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        """Collect rows of ``schema``, up to the size of a row group that the options give."""
        self._schema, self._options = schema, options
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._rows = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        """Append rows; yield each complete row group."""
        while rows.num_rows:
            size_bytes = int(rows.nbytes)
            count = self._count_that_fit(rows, size_bytes)
            if count:
                fitting = rows.slice(0, count)
                self._batches.append(fitting)
                self._bytes += size_bytes if count == rows.num_rows else int(fitting.nbytes)
                self._rows += count
                rows = rows.slice(count)
            if rows.num_rows or self._is_full():
                yield self.take()

    def take(self) -> pa.Table:
        """Return all collected rows (perhaps none), and remove them."""
        table = pa.Table.from_batches(self._batches, self._schema)
        self._batches.clear()
        self._bytes = self._rows = 0
        return table

    def _is_full(self) -> bool:
        limits = self._options
        return self._bytes >= limits.row_group_bytes or self._rows >= limits.row_group_rows

    def _count_that_fit(self, rows: pa.RecordBatch, size_bytes: int) -> int:
        """Return how many rows fit into the row group; at least one if the row group is empty."""
        count = min(int(rows.num_rows), self._options.row_group_rows - self._rows)
        space = self._options.row_group_bytes - self._bytes
        if size_bytes > space:
            count = min(count, rows.num_rows * max(space, 0) // size_bytes)
        return count if self._batches else max(count, 1)


class DataFileWriter:
    """Write one data file. If the ``with`` block ends before ``close``, the file is discarded.

    Args:
        store: the store to write to.
        name: the name of the file, relative to the store's root; the file must not exist.
        schema: physical names, with Parquet field ids if the table has them.
        options: the options of the file.
        stats: the leaves whose statistics are returned.

    Raises:
        UnsupportedFeatureError: Parquet cannot store the schema.
    """

    def __init__(
        self, store: Store, name: str, schema: pa.Schema, options: WriteOptions, stats: StatsColumns
    ) -> None:
        ensure_storable(schema)
        self._store = store
        self._name = name
        self._schema = schema
        self._options = options
        self._stats = stats
        self._facts = FactCollector(schema, stats)
        self._pending = PendingRows(schema, options)
        self._num_rows = 0
        self._closed = False
        self._writer: pq.ParquetWriter | None = None
        self._sink = store.open_output(name)
        self._held = HeldSink(self._sink)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. They are kept until a row group is full.

        Raises:
            DataFileError: the columns differ from the schema, or values do not fit it.
            StorageError: the store failed.
        """
        if not batch.schema.equals(self._schema, check_metadata=True):
            batch = self._with_own_schema(batch)
        for table in self._pending.add(batch):
            self._write_group(table)

    def close(self, before_sync: Callable[[], None] = lambda: None) -> WrittenFile:
        """Store the remaining rows, read the footer from the store, and return the facts in it.

        ``before_sync`` is called when the file is written, and only has to become durable.

        Raises:
            DataFileError: the stored file differs from the rows that were written.
            StorageError: the store failed.
        """
        with self._naming_file():
            self._flush()
            self._finish_parquet()
            before_sync()
            self._sink.close()
            # From the store, not from Arrow's writer: what counts is what was stored.
            with self._store.open_input(self._name) as source:
                size_bytes = int(source.size())
                metadata = pq.read_metadata(source)
        # The null counts below read its schema.
        count_footer(metadata)
        if metadata.num_rows != self._num_rows:
            raise DataFileError(
                f"{self._name}: {self._num_rows} rows were written, but the stored file has "
                f"{metadata.num_rows}"
            )
        file_stats = read_file_stats(metadata, self._stats, self._facts.finish())
        written = WrittenFile(
            name=self._name,
            size_bytes=size_bytes,
            num_rows=metadata.num_rows,
            stats_json=encode_stats(file_stats, self._stats),
            null_counts=read_null_counts(metadata),
        )
        self._closed = True
        return written

    def abort(self) -> None:
        """Discard the file unless it was closed. An error here does not hide an earlier error."""
        if self._closed:
            return
        self._closed = True
        self._pending.take()
        with suppress(Exception):
            # Without this, the destructor would write the footer later, to a closed sink.
            if self._writer is not None:
                self._writer.close()
        with suppress(OSError, ValueError, DeltactlError):
            self._sink.close()
        with suppress(DeltactlError):
            self._store.delete_many([self._name])

    def _with_own_schema(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.schema.names != self._schema.names or batch.schema.types != self._schema.types:
            # Arrow would cast the values, or match columns by position.
            raise DataFileError(f"{self._name}: the rows to write have other columns than the file")
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _write_group(self, table: pa.Table) -> None:
        self._facts.collect(table)
        with self._naming_file():
            self._open_writer(table).write_table(table, row_group_size=table.num_rows)
        self._num_rows += table.num_rows

    def _flush(self) -> None:
        table = self._pending.take()
        if table.num_rows:
            self._write_group(table)

    def _finish_parquet(self) -> None:
        """Write the footer, without metadata that make readers return wrong results."""
        # What Arrow writes on close is held back, because the footer in it may be amended.
        self._held.hold()
        # Without rows, there is no writer yet.
        self._open_writer(self._schema.empty_table()).close()
        tail = self._held.release()
        unbounded, opaque = self._facts.nan_columns, self._facts.negative_zero_columns
        variants = self._options.variants
        # Otherwise Arrow's footer stays as it is.
        if unbounded or opaque or variants:
            tail = amend_footer(tail, unbounded=unbounded, opaque=opaque, variants=variants)
        self._sink.write(tail)

    def _open_writer(self, first: pa.Table) -> pq.ParquetWriter:
        """Return a Parquet writer whose encodings are chosen by the first row group."""
        if self._writer is None:
            self._writer = open_parquet(self._held, first, self._options)
        return self._writer

    @contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"{self._name} cannot be written: {error}"[:500]) from error


def open_parquet(sink: object, first: pa.Table, options: WriteOptions) -> pq.ParquetWriter:
    """Return a Parquet writer whose encodings suit ``first``, its first row group."""
    dictionaries = choose_dictionary_columns(first)

    def compress(rows: pa.Table, level: int) -> dict[str, int]:
        buffer = pa.BufferOutputStream()
        with new_parquet(buffer, rows.schema, options, dictionaries, level) as writer:
            writer.write_table(rows)
        group = pq.read_metadata(pa.BufferReader(buffer.getvalue())).row_group(0)
        chunks = map(group.column, range(group.num_columns))
        return {chunk.path_in_schema: chunk.total_compressed_size for chunk in chunks}

    level: int | dict[str, int] | None = None
    if options.level is not None and options.codec in _LEVELLED:
        level = choose_levels(first, options.level, compress)
    return new_parquet(sink, first.schema, options, dictionaries, level)


def new_parquet(
    sink: object,
    schema: pa.Schema,
    options: WriteOptions,
    dictionaries: list[str],
    level: int | dict[str, int] | None,
) -> pq.ParquetWriter:
    """Return a Parquet writer with the given dictionary columns and compression levels."""
    writer = pq.ParquetWriter(
        sink,
        schema,
        version=options.format_version,
        data_page_version=options.data_page_version,
        compression=options.codec,
        compression_level=level,
        use_dictionary=dictionaries,
        dictionary_pagesize_limit=DICTIONARY_PAGE_BYTES,
        # The number of values between two checks of the page size. The default of 1024 is slower.
        write_batch_size=_WRITE_BATCH_ROWS,
        # Page indexes let readers skip pages. Their cost was too small to measure.
        write_page_index=True,
        # If the footer had the Arrow schema, readers would restore types that the table does not
        # have.
        store_schema=False,
        # Short decimals are stored as INT32 and INT64, as other writers of Delta store them.
        store_decimal_as_integer=True,
        use_deprecated_int96_timestamps=False,
    )
    if has_datetimes(schema):
        writer.add_key_value_metadata(PROLEPTIC_CALENDAR)
    return writer


def ensure_storable(schema: pa.Schema) -> None:
    """Raise an error for types that Parquet cannot store, or can store only as another type."""
    if not len(schema):
        raise UnsupportedFeatureError(
            "data files of a table without stored columns cannot be rewritten",
            hint="Leave the files as they are: all columns are void or partition columns.",
        )
    for member in schema:
        for path, kind, _ in walk_types(member.type, (member.name,)):
            if pa.types.is_null(kind) or (pa.types.is_struct(kind) and kind.num_fields == 0):
                raise UnsupportedFeatureError(
                    f"column {'.'.join(path)!r} is void, or a struct without fields. Parquet "
                    "cannot store such a column",
                    hint="Change the type of the column with the engine that writes the table, or "
                    "do not rewrite its files.",
                )
