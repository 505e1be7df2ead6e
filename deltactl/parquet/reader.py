"""Read the live logical rows of a data file.

Source: PROTOCOL.md, "Deletion Vectors", "Column Mapping", "Type Widening", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltactl.errors import DataFileError, UnsupportedFeatureError
from deltactl.parquet.calendar import has_ambiguous_datetimes, legacy_columns
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.nested import null_array
from deltactl.parquet.open_files import ensure_readable_path, naming_file, read_deletion_vector
from deltactl.parquet.projection import FileFields, Matcher, convert, ensure_field_ids
from deltactl.protocol.arrow_schemas import Naming, arrow_schema, arrow_type
from deltactl.protocol.deletion_vectors import ensure_within, live_mask
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.schema import Field, StructType, is_void
from deltactl.storage.store import Store

DEFAULT_BATCH_ROWS = 1 << 16
_GROUPS_BYTES: Final = 32 << 20  # uncompressed size of row groups that are read at a time


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Live rows from a range of consecutive physical rows; ``first_row`` is the first row's number.

    ``mask`` marks which of the physical rows are live; ``None`` means all.
    """

    columns: pa.RecordBatch
    first_row: int
    num_physical_rows: int
    mask: pa.BooleanArray | None = None


@dataclass(frozen=True)
class RowReader:
    """Read files of one table with one schema, naming and column mapping mode.

    ``extra`` has the materialized columns of row tracking. They are found by name, and are null in
    files that do not have them. ``verify_pages``: verify the checksums of pages, in files that have
    checksums. ``for_rewrite``: raise an error for values that some readers would read differently
    after a rewrite (see ``calendar``), and for files of another size than in the log: a rewrite of
    a file that was replaced would make the loss of its rows permanent. ``written``: the same
    columns, without void ones, under the names of the rows that are returned.
    """

    struct: StructType
    partition_fields: tuple[Field, ...]
    mapping_mode: str
    naming: Naming = "logical"
    extra: tuple[pa.Field, ...] = ()
    verify_pages: bool = False
    for_rewrite: bool = False
    written: StructType | None = None

    def __post_init__(self) -> None:
        stored = [f for f in self.struct.fields if self.naming == "logical" or not is_void(f.type)]
        # A frozen dataclass can set its own fields only in this way.
        object.__setattr__(self, "_fields", stored)
        target = arrow_schema(self.written or StructType(tuple(stored)), self.naming)
        object.__setattr__(self, "schema", pa.schema([*target, *self.extra]))

    schema: pa.Schema = field(init=False, repr=False, compare=False)
    _fields: Sequence[Field] = field(init=False, repr=False, compare=False)

    def select(self, names: Set[str]) -> RowReader:
        """Return a reader that reads only these columns, given by their names in ``schema``."""
        chosen = [n for n, name in enumerate(self.fields) if name in names]
        struct = StructType(tuple(self._fields[n] for n in chosen))
        extra = tuple(e for e in self.extra if e.name in names)
        written = self.written
        if written is not None:
            written = StructType(tuple(written.fields[n] for n in chosen))
        return replace(self, struct=struct, extra=extra, written=written)

    @property
    def fields(self) -> Mapping[str, Field]:
        """Return the columns by their names in ``schema``, without ``extra``."""
        return dict(zip(self.schema.names, self._fields, strict=False))

    @property
    def of_written(self) -> RowReader:
        """Return the reader of files that have the names of ``schema``."""
        if self.written is None:
            return self
        return replace(self, struct=self.written, mapping_mode="none", written=None)

    def read(
        self,
        store: Store,
        file: DataFile,
        *,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        source: pa.NativeFile | None = None,
    ) -> Iterator[LiveBatch]:
        """Yield the live rows of a file in file order, from ``source`` if it is already open.

        Raises:
            DataFileError: the file or deletion vector is missing, invalid, or differs from the log.
            UnsupportedFeatureError: a type or deletion vector is not supported.
        """
        deleted = read_deletion_vector(store, file)
        with self.open(store, file, source) as parquet:
            yield from self.read_groups(parquet, file, deleted, batch_rows=batch_rows)

    @contextmanager
    def open(
        self, store: Store, file: DataFile, source: pa.NativeFile | None = None
    ) -> Iterator[pq.ParquetFile]:
        """Open a file, from ``source`` if it is already open; close it at the end of the block.

        Raises:
            DataFileError: the file is missing or broken; ``for_rewrite``: it has another size than
                in the log.
        """
        ensure_readable_path(file.path)
        with naming_file(file.path), source or store.open_input(file.path) as opened:
            if self.for_rewrite:
                _ensure_logged_size(opened, file)
            yield pq.ParquetFile(
                opened,
                coerce_int96_timestamp_unit="us",  # as Spark; nanoseconds end in the year 2262
                page_checksum_verification=self.verify_pages,
            )

    def read_groups(
        self,
        parquet: pq.ParquetFile,
        file: DataFile,
        deleted: BitMap64 | None,
        groups: Sequence[int] | None = None,
        *,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        use_threads: bool = False,  # usually, several files are decoded at the same time
    ) -> Iterator[LiveBatch]:
        """Yield the live rows of consecutive row groups of an open file; ``None`` means all groups.

        With ``use_threads``, Arrow decodes columns on all cores. This raises the same errors as
        :meth:`read`.
        """
        num_rows = parquet.metadata.num_rows
        if deleted is not None:
            ensure_within(deleted, num_rows, file.path)
        for batch in self._read_physical(parquet, file, groups, batch_rows, use_threads):
            if deleted is None:
                yield batch
                continue
            mask = live_mask(deleted, batch.first_row, batch.num_physical_rows)
            yield replace(batch, columns=batch.columns.filter(mask), mask=mask)

    def read_physical(self, store: Store, file: DataFile) -> Iterator[LiveBatch]:
        """Yield all rows of a file, also deleted rows. The errors are those of :meth:`read`."""
        with self.open(store, file) as parquet:
            yield from self._read_physical(parquet, file, None, DEFAULT_BATCH_ROWS)

    def _read_physical(
        self,
        parquet: pq.ParquetFile,
        file: DataFile,
        groups: Sequence[int] | None,
        batch_rows: int,
        use_threads: bool = False,
    ) -> Iterator[LiveBatch]:
        with naming_file(file.path):
            first_row, expected = 0, parquet.metadata.num_rows
            if groups is not None:
                sizes = [parquet.metadata.row_group(i).num_rows for i in range(groups[-1] + 1)]
                first_row, expected = sum(sizes[: groups[0]]), sum(sizes)
            for batch in self._physical(parquet, file, groups, batch_rows, use_threads):
                yield LiveBatch(batch, first_row, batch.num_rows)
                first_row += batch.num_rows
            # Deletion vectors count physical rows: after a missing one, they delete wrong rows.
            if first_row != expected:
                raise DataFileError(
                    f"data file {file.path!r} has {first_row} rows, but its footer says {expected}"
                )

    def _physical(
        self,
        parquet: pq.ParquetFile,
        file: DataFile,
        groups: Sequence[int] | None,
        batch_rows: int,
        use_threads: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows of these row groups, also deleted rows, in the columns of the reader."""
        constants = self._constants(file)
        names, chosen = self._find_names(parquet.schema_arrow, constants.keys(), file.path)
        # The rows have no column to read, so the footer gives their number.
        if not chosen:
            footer = parquet.metadata
            chosen_groups = range(footer.num_row_groups) if groups is None else groups
            rows = sum(footer.row_group(i).num_rows for i in chosen_groups)
            yield from self._constant_batches(rows, constants, batch_rows)
            return
        legacy = legacy_columns(parquet.metadata, set(chosen)) if self.for_rewrite else frozenset()
        for batch in read_batches(parquet, groups, chosen, batch_rows, use_threads=use_threads):
            _ensure_unambiguous(batch, legacy, file.path)
            arrays = self._convert(batch, names, constants)
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _find_names(
        self, schema: pa.Schema, constants: Set[int], path: str
    ) -> tuple[Sequence[str | None], Sequence[str]]:
        """Return for each field its column in the file, ``None`` without one; the columns to read.

        These are in the order of the fields.
        """
        matcher, present = Matcher(self.mapping_mode), FileFields(schema)
        found = [
            # The log has the partition values, also if a file stores such a column.
            None if i in constants or is_void(f.type) else matcher.find(f, present)
            for i, f in enumerate(self._fields)
        ]
        # For partition columns alone, no ids are needed.
        if len(constants) < len(self._fields):
            ensure_field_ids(matcher, schema, path)
        names = [None if index is None else present.names[index] for index in found]
        extra = [e.name for e in self.extra if e.name in present.by_name]
        return names, list(dict.fromkeys([*(name for name in names if name is not None), *extra]))

    def find_columns(self, schema: pa.Schema, path: str) -> dict[str, str | None]:
        """Return the column of a file that is read for each column; ``None``: nulls are returned.

        Partition columns and ``extra`` are not included. The keys are names in ``schema``.
        """
        partition = {f.name for f in self.partition_fields}
        constants = {i for i, f in enumerate(self._fields) if f.name in partition}
        names, _ = self._find_names(schema, constants, path)
        keys = self.schema.names  # Arrow makes a list of all names in each call
        return {keys[i]: name for i, name in enumerate(names) if i not in constants}

    def _convert(
        self, batch: pa.RecordBatch, names: Sequence[str | None], constants: Mapping[int, _Constant]
    ) -> list[pa.Array]:
        matcher = Matcher(self.mapping_mode)
        arrays = [
            constants[i].take_rows(batch.num_rows)
            if i in constants
            else self._column(batch, name, i, matcher)
            for i, name in enumerate(names)
        ]
        return arrays + [self._extra_column(batch, extra) for extra in self.extra]

    def _column(
        self, batch: pa.RecordBatch, name: str | None, index: int, matcher: Matcher
    ) -> pa.Array:
        target = self.schema.field(index).type
        if name is None:
            return null_array(batch.num_rows, target)
        try:
            return convert(batch.column(name), self._fields[index].type, target, matcher)
        except pa.ArrowException as error:
            raise DataFileError(
                f"column {self._fields[index].name!r} cannot be read as {target}: {error}"
            ) from error

    @staticmethod
    def _extra_column(batch: pa.RecordBatch, extra: pa.Field) -> pa.Array:
        if extra.name not in batch.schema.names:
            return pa.nulls(batch.num_rows, extra.type)
        return batch.column(extra.name).cast(extra.type)

    def _constants(self, file: DataFile) -> dict[int, _Constant]:
        partition = {f.name for f in self.partition_fields}
        return {
            index: _Constant.parse(file.partition_values.get(f.physical_name), f)
            for index, f in enumerate(self._fields)
            if f.name in partition
        }

    def _constant_batches(
        self, num_rows: int, constants: Mapping[int, _Constant], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        for start in range(0, num_rows, batch_rows):
            rows = min(batch_rows, num_rows - start)
            arrays = [
                constants[i].take_rows(rows) if i in constants else null_array(rows, f.type)
                for i, f in enumerate(self.schema)
            ]
            if not arrays:
                # from_arrays cannot make rows without columns.
                rows_only = pa.array([{}] * rows, pa.struct([]))
                yield pa.RecordBatch.from_struct_array(rows_only)
                continue
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def read_batches(
    parquet: pq.ParquetFile,
    groups: Sequence[int] | None,
    columns: Sequence[str],
    batch_rows: int,
    *,
    use_threads: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of row groups (by default all), with little more memory than one row group needs.

    This reads a few row groups at a time, because Arrow keeps the bytes of all requested row groups
    until the last one is read.
    """
    for part in _divide_groups(parquet.metadata, groups):
        yield from parquet.iter_batches(
            batch_rows, row_groups=part, columns=columns, use_threads=use_threads
        )


def _divide_groups(
    footer: pq.FileMetaData, groups: Sequence[int] | None
) -> Iterator[Sequence[int] | None]:
    if footer.num_row_groups <= 1:
        yield groups
        return
    part: list[int] = []
    size_bytes = 0
    for group in range(footer.num_row_groups) if groups is None else groups:
        part.append(group)
        size_bytes += footer.row_group(group).total_byte_size
        if size_bytes >= _GROUPS_BYTES:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _ensure_logged_size(opened: pa.NativeFile, file: DataFile) -> None:
    """Refuse a file of another size; a size in the log that is not positive is unknown."""
    if 0 < file.size_bytes != opened.size():
        raise DataFileError(
            f"{file.path!r} has {opened.size():,} bytes, but the log has {file.size_bytes:,}: it "
            "was replaced, or the write was truncated",
            hint="Run `deltactl explain FILE_SIZE`, which says how to keep the old rows, the new "
            "ones, or both. Then rerun.",
        )


def _ensure_unambiguous(batch: pa.RecordBatch, columns: Set[str], path: str) -> None:
    for name in columns:
        if has_ambiguous_datetimes(batch.column(name)):
            raise UnsupportedFeatureError(
                f"Spark wrote the data file {path!r} in its legacy calendar. Column {name!r} has "
                "dates before 1582-10-15 or timestamps before 1900, which a rewrite would "
                "change",
                hint="Rewrite the file with Spark, which supports both calendars.",
            )


@dataclass(frozen=True, slots=True)
class _Constant:
    """A partition value, which is the same for every row of a file."""

    value: pa.Scalar

    @classmethod
    def parse(cls, text: str | None, f: Field) -> _Constant:
        texts = pa.array([text], pa.string())
        return cls(parse_partition_column(texts, arrow_type(f.type), column=f.name)[0])

    def take_rows(self, num_rows: int) -> pa.Array:
        return pa.repeat(self.value, num_rows)
