"""A data file of a table as its live logical rows.

Source: PROTOCOL.md, "Deletion Vectors", "Column Mapping", "Type Widening", "Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import overload

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from deltactl.errors import (
    DataFileError,
    DeltactlError,
    ObjectNotFoundError,
    UnsupportedFeatureError,
    first_line,
)
from deltactl.parquet.calendar import holds_disputed_days, old_columns
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.projection import FileFields, Matcher, convert, ensure_field_ids
from deltactl.protocol.deletion_vectors import (
    FRAME_OVERHEAD,
    DeletionVector,
    decode_bitmap,
    decode_inline,
    ensure_within,
    live_mask,
    read_framed,
)
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.paths import is_absolute, leaves_root
from deltactl.protocol.schema import (
    Field,
    Naming,
    StructType,
    arrow_schema,
    arrow_type,
    is_void,
)
from deltactl.storage.store import Store

DEFAULT_BATCH_ROWS = 1 << 16
_READ_WHOLE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Live rows of a run of physical rows: ``first_row`` is the first one's place in the file.

    ``mask`` tells which of the physical rows ``first_row`` ... are live; ``None`` means all.
    """

    columns: pa.RecordBatch
    first_row: int
    num_physical_rows: int
    mask: pa.BooleanArray | None = None


@dataclass(frozen=True)
class RowReader:
    """Reads files of one table with one schema, names and mapping mode.

    ``extra`` columns (row tracking's materialised ones) are looked for by plain name and are null
    where a file lacks them. ``verify_pages``: check the checksums of pages, where a file has them.
    ``for_rewrite``: refuse values that mean something else to some readers once they stand in
    another file (see ``calendar``).
    """

    struct: StructType
    partition_fields: tuple[Field, ...]
    mapping_mode: str
    naming: Naming = "logical"
    extra: tuple[pa.Field, ...] = ()
    verify_pages: bool = False
    for_rewrite: bool = False

    def __post_init__(self) -> None:
        stored = [f for f in self.struct.fields if self.naming == "logical" or not is_void(f.type)]
        object.__setattr__(self, "_fields", stored)
        target = arrow_schema(StructType(tuple(stored)), self.naming)
        object.__setattr__(self, "schema", pa.schema([*target, *self.extra]))

    schema: pa.Schema = field(init=False, repr=False, compare=False)
    _fields: Sequence[Field] = field(init=False, repr=False, compare=False)

    def select(self, names: Set[str]) -> RowReader:
        """Return a reader of some of the columns, by the names that ``schema`` has."""
        fields = (
            f for f, stored in zip(self._fields, self.schema, strict=False) if stored.name in names
        )
        extra = tuple(e for e in self.extra if e.name in names)
        return replace(self, struct=StructType(tuple(fields)), extra=extra)

    def read(
        self,
        store: Store,
        file: DataFile,
        *,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        source: pa.NativeFile | None = None,
    ) -> Iterator[LiveBatch]:
        """Stream the live rows of a file in file order, from ``source`` where it is open already.

        Raises:
            DataFileError: file or deletion vector missing, broken, or not what the log says.
            UnsupportedFeatureError: a type or deletion vector this program does not know.
        """
        deleted = read_deletion_vector(store, file)
        with self.open(store, file, source) as parquet:
            yield from self.read_groups(parquet, file, deleted, batch_rows=batch_rows)

    @contextmanager
    def open(
        self, store: Store, file: DataFile, source: pa.NativeFile | None = None
    ) -> Iterator[pq.ParquetFile]:
        """Open a file, from ``source`` if it is open already; close it at the end.

        Raises:
            DataFileError: the file is missing or broken.
        """
        ensure_readable_path(file.path)
        with naming_file(file.path), source or store.open_input(file.path) as opened:
            yield pq.ParquetFile(
                opened,
                coerce_int96_timestamp_unit="us",
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
    ) -> Iterator[LiveBatch]:
        """Stream the live rows of consecutive row groups of an open file; ``None``: of all.

        Raises as :meth:`read`.
        """
        num_rows = parquet.metadata.num_rows
        if deleted is not None:
            ensure_within(deleted, num_rows, file.path)
        for batch in self._read_physical(parquet, file, groups, batch_rows):
            if deleted is None:
                yield batch
                continue
            mask = live_mask(deleted, batch.first_row, batch.num_physical_rows)
            yield replace(batch, columns=batch.columns.filter(mask), mask=mask)

    def read_physical(
        self,
        store: Store,
        file: DataFile,
        *,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        source: pa.NativeFile | None = None,
    ) -> Iterator[LiveBatch]:
        """Stream all rows of a file, deleted ones included. Raises as :meth:`read`."""
        with self.open(store, file, source) as parquet:
            yield from self._read_physical(parquet, file, None, batch_rows)

    def _read_physical(
        self,
        parquet: pq.ParquetFile,
        file: DataFile,
        groups: Sequence[int] | None,
        batch_rows: int,
    ) -> Iterator[LiveBatch]:
        with naming_file(file.path):
            first_row, expected = 0, parquet.metadata.num_rows
            if groups is not None:
                sizes = [parquet.metadata.row_group(i).num_rows for i in range(groups[-1] + 1)]
                first_row, expected = sum(sizes[: groups[0]]), sum(sizes)
            for batch in self._physical(parquet, file, groups, batch_rows):
                yield LiveBatch(batch, first_row, batch.num_rows)
                first_row += batch.num_rows
            if first_row != expected:
                raise DataFileError(
                    f"data file {file.path!r} holds {first_row} rows, its footer says {expected}"
                )

    def _physical(
        self,
        parquet: pq.ParquetFile,
        file: DataFile,
        groups: Sequence[int] | None,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """All rows of these row groups, deleted ones included, in the wanted columns."""
        matcher = Matcher(self.mapping_mode)
        schema = parquet.schema_arrow
        present = FileFields(schema)
        constants = self._constants(file)
        sources = [
            None if i in constants or is_void(f.type) else matcher.find(f, present)
            for i, f in enumerate(self._fields)
        ]
        if len(constants) < len(self._fields):
            ensure_field_ids(matcher, schema, file.path)
        names = {present.names[s] for s in sources if s is not None}
        names |= {e.name for e in self.extra} & present.by_name.keys()
        if not names:
            footer = parquet.metadata
            chosen_groups = range(footer.num_row_groups) if groups is None else groups
            rows = sum(footer.row_group(i).num_rows for i in chosen_groups)
            yield from self._constant_batches(rows, constants, batch_rows)
            return
        disputed = old_columns(parquet.metadata, names) if self.for_rewrite else frozenset()
        # Bins run side by side already: threads inside each would only get in their way.
        chosen = sorted(names)
        for batch in parquet.iter_batches(
            batch_rows, row_groups=groups, columns=chosen, use_threads=False
        ):
            _ensure_undisputed_days(batch, disputed, file.path)
            arrays = [
                constants[i].take_rows(batch.num_rows)
                if i in constants
                else self._column(batch, None if s is None else present.names[s], i, matcher)
                for i, s in enumerate(sources)
            ]
            arrays += [self._extra_column(batch, extra) for extra in self.extra]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _column(
        self, batch: pa.RecordBatch, name: str | None, index: int, matcher: Matcher
    ) -> pa.Array:
        target = self.schema.field(index).type
        if name is None:
            return pa.nulls(batch.num_rows, target)
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
                constants[i].take_rows(rows) if i in constants else pa.nulls(rows, f.type)
                for i, f in enumerate(self.schema)
            ]
            if not arrays:
                rows_only = pa.array([{}] * rows, pa.struct([]))
                yield pa.RecordBatch.from_struct_array(rows_only)
                continue
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _ensure_undisputed_days(batch: pa.RecordBatch, columns: Set[str], path: str) -> None:
    for name in columns:
        if holds_disputed_days(batch.column(name)):
            raise UnsupportedFeatureError(
                f"data file {path!r} has dates before 1582-10-15 or timestamps before 1900 in "
                f"column {name!r}, written by Spark in its legacy calendar: a rewrite would change "
                "them",
                hint="Rewrite the file with Spark, which knows both calendars.",
            )


@overload
def open_in_turn(
    store: Store, files: Sequence[DataFile]
) -> Generator[pa.NativeFile, None, None]: ...


@overload
def open_in_turn(
    store: Store, files: Sequence[DataFile], leave: Callable[[DataFile], bool]
) -> Generator[pa.NativeFile | None, None, None]: ...


def open_in_turn(
    store: Store, files: Sequence[DataFile], leave: Callable[[DataFile], bool] = lambda file: False
) -> Generator[pa.NativeFile | None, None, None]:
    """Open each file, small ones whole: that is cheaper, and a far store is asked ahead.

    A file is closed when the next one is asked for, or this is closed. Those that ``leave`` accepts
    are not opened; ``None`` stands for them.

    Raises:
        DataFileError: a file is missing, or its path leaves the table's folder.
    """
    for file in files:
        ensure_readable_path(file.path)
    read_whole = [_is_small(file) and not leave(file) for file in files]
    contents = store.read_many(
        [f.path for f, whole in zip(files, read_whole, strict=True) if whole]
    )
    for file, is_whole in zip(files, read_whole, strict=True):
        if leave(file):
            yield None
            continue
        with naming_file(file.path):
            whole = next(contents) if is_whole else None
            source = store.open_input(file.path) if whole is None else pa.BufferReader(whole)
        with source:
            yield source


def _is_small(file: DataFile) -> bool:
    return 0 < file.size_bytes <= _READ_WHOLE_BYTES


@dataclass(frozen=True, slots=True)
class _Constant:
    """A partition value: the same for every row of a file."""

    value: pa.Scalar

    @classmethod
    def parse(cls, text: str | None, f: Field) -> _Constant:
        texts = pa.array([text], pa.string())
        return cls(parse_partition_column(texts, arrow_type(f.type), column=f.name)[0])

    def take_rows(self, num_rows: int) -> pa.Array:
        return pa.repeat(self.value, num_rows)


def ensure_readable_path(path: str) -> None:
    """Refuse a relative path that climbs out of the table's folder.

    Raises:
        DataFileError: naming the path.
    """
    if not is_absolute(path) and leaves_root(path):
        raise DataFileError(
            f"the log names {path!r}, which is outside the table's directory",
            hint="Do not use the file: its writer is defective or hostile. Nothing was read.",
        )


def read_deletion_vector(store: Store, file: DataFile) -> BitMap64 | None:
    """Rows of a file that are deleted, as physical positions; ``None`` without a vector.

    Raises:
        DataFileError: the vector's file is missing, torn, or fails its checksum.
    """
    vector = file.deletion_vector
    return None if vector is None else load_deletion_vector(store, vector)


def load_deletion_vector(store: Store, vector: DeletionVector, *, count: bool = True) -> BitMap64:
    """The rows that a vector deletes; ``count`` them, or take any number.

    Raises:
        DataFileError: the vector's file is missing, torn, or fails its checksum; another number of
            rows than the log promises.
    """
    name = vector.file_name
    if name is None:
        return decode_inline(vector, count=count)
    ensure_readable_path(name)
    with naming_file(name):
        length = vector.size_bytes + FRAME_OVERHEAD
        (framed,) = store.read_ranges(name, [(vector.offset or 0, length)])
        payload = read_framed(framed, vector, name)
        return decode_bitmap(payload, what=name, cardinality=vector.cardinality if count else None)


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Map what Arrow and the store raise to a ``DataFileError`` that names the file."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise DataFileError(
            f"data file {path!r} is in the log but not in the store",
            hint="Restore it, or restore an older version of the table. It was deleted without a "
            "commit, for example by a vacuum with too short a retention or by a lifecycle rule.",
        ) from error
    except DataFileError as error:
        if path in error.message:
            raise
        raise DataFileError(f"{path!r}: {error.message}", hint=error.hint) from error
    except (DeltactlError, MemoryError):  # Arrow's is one of both kinds, and no fault of the file
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # a name that is not UTF-8
        detail = first_line(error, 300) or type(error).__name__
        raise DataFileError(f"data file {path!r} cannot be read: {detail}") from error
