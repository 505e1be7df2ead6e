"""Full verification: read the output again and compare it with the live input, row by row.

A rewrite keeps the order, so equality is exact. Inputs are read by separate, simple code, so that a
bug of the reader is not repeated here: columns are found by id or name and cast by Arrow, deleted
rows are removed by position, row ids are counted from the file's start. The reader's conversion is
used only for nested columns that a file stores with an older type, and for variants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.errors import CorruptLogError, DataFileError, VerificationError
from deltactl.numpy_types import Integers
from deltactl.operations.optimize.input_columns import StoredColumns, find_column, has_own_ids
from deltactl.operations.row_proofs import RowTrackingColumns
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.nested import null_array
from deltactl.parquet.null_counts import count_nulls
from deltactl.parquet.open_files import naming_file, read_deletion_vector
from deltactl.parquet.projection import Matcher, convert
from deltactl.parquet.reader import LiveBatch, RowReader, read_batches
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.schema import Field, PrimitiveType, is_variant
from deltactl.storage.store import Store

_ROWS = 1 << 16


def ensure_equal_rows(
    store: Store,
    reader: RowReader,
    files: Sequence[DataFile],
    output: str,
    row_tracking: RowTrackingColumns | None,
) -> None:
    """Compare an output with the live rows of its inputs, batch by batch.

    Raises:
        VerificationError: the message has the file, the column and the first row that differs.
    """
    source = _PlainReader(reader, row_tracking)
    expected = (batch for file in files for batch in source.read(store, file))
    names = reader.schema.names
    done = 0
    with naming_file(output), store.open_input(output) as opened:
        parquet = pq.ParquetFile(opened)
        _PlainReader(reader.of_written, row_tracking).ensure_found(parquet.schema_arrow, output)
        written = read_batches(parquet, None, names, _ROWS)
        for want, got in _aligned(expected, written, output):
            for name in names:
                left, right = _comparable(want.column(name)), _comparable(got.column(name))
                if left.type != right.type:
                    raise VerificationError(
                        f"{output}: column {name!r} has the type {right.type}, but {left.type} in "
                        "the input files"
                    )
                if not left.equals(right):
                    row = done + _first_difference(left, right)
                    raise VerificationError(
                        f"{output}: column {name!r} differs from the input in row {row}"
                    )
            done += want.num_rows


def ensure_nulls(
    store: Store,
    reader: RowReader,
    files: Sequence[DataFile],
    *,
    nulls: Mapping[str, int],
    column: str,
) -> None:
    """Count the nulls of a column of the inputs again, and compare with those that were read.

    Raises:
        VerificationError: they differ.
    """
    source = _PlainReader(reader.select({column}), None)
    batches = (batch for file in files for batch in source.read(store, file))
    found = sum(count_nulls(batch.column(column)) for batch in batches)
    if found != nulls[column]:
        raise VerificationError(
            f"column {column!r} has {found} nulls in {len(files)} input files, such as "
            f"{files[0].path!r}, but {nulls[column]} nulls were read"
        )


@dataclass(frozen=True)
class _PlainReader:
    """Read live rows of files in the columns of a reader, with independent code."""

    reader: RowReader
    row_tracking: RowTrackingColumns | None

    def ensure_found(self, present: pa.Schema, name: str) -> None:
        """Check that readers of the table find the columns of an output."""
        found = self._find(present, name)
        partition = {field.physical_name for field in self.reader.partition_fields}
        for column in self.reader.schema.names:
            if column not in partition and found.get(column) != column:
                raise VerificationError(
                    f"{name}: readers of the table do not find column {column!r} in this file"
                )

    def read(self, store: Store, file: DataFile) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a file."""
        deleted = _deleted_rows(store, file)
        with naming_file(file.path), store.open_input(file.path) as source:
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            stored = self._find(parquet.schema_arrow, file.path)
            first_row = 0
            for group in range(parquet.num_row_groups):
                for batch in _read_group(parquet, group, set(stored.values())):
                    live = _live_rows(deleted, first_row, batch.num_rows)
                    # Convert first: Arrow cannot select rows of string views.
                    plain = self._convert(batch, stored, first_row, file)
                    yield plain.take(pa.array(live - first_row))
                    first_row += batch.num_rows

    def _find(self, schema: pa.Schema, path: str) -> dict[str, str]:
        """Map each wanted column to its name in the file; omit those that the file lacks."""
        present = StoredColumns(schema)
        found = {e.name: e.name for e in self.reader.extra if e.name in present.names}
        partition = {field.name for field in self.reader.partition_fields}
        mode = self.reader.mapping_mode
        fields = self.reader.fields
        own_ids = has_own_ids(fields.values(), present, mode)
        for column, field in fields.items():
            name = find_column(field, present, mode, path, own_ids=own_ids)
            if name is not None and field.name not in partition:
                found[column] = name
        return found

    def _convert(
        self, batch: pa.RecordBatch, stored: dict[str, str], first_row: int, file: DataFile
    ) -> pa.RecordBatch:
        rows = np.arange(first_row, first_row + batch.num_rows, dtype=np.int64)
        partition = {field.name for field in self.reader.partition_fields}
        arrays = []
        for column, field in self.reader.fields.items():
            name, wanted = stored.get(column), self.reader.schema.field(column)
            if field.name in partition:
                text = pa.array([file.partition_values.get(field.physical_name)], pa.string())
                value = parse_partition_column(text, wanted.type, column=field.name)[0]
                arrays.append(pa.repeat(value, batch.num_rows))
            elif name is None:
                arrays.append(null_array(batch.num_rows, wanted.type))
            else:
                arrays.append(self._column(batch.column(name), field, wanted))
        for extra in self.reader.extra:
            value = self._implied(extra.name, rows, file)
            if extra.name in stored:
                value = pc.coalesce(batch.column(extra.name).cast(extra.type), value)
            arrays.append(value)
        return pa.RecordBatch.from_arrays(arrays, schema=self.reader.schema)

    def _column(self, array: pa.Array, field: Field, wanted: pa.Field) -> pa.Array:
        if array.type == wanted.type:
            return array
        try:
            if isinstance(field.type, PrimitiveType) and not is_variant(field.type):
                return _cast(array, wanted.type)
            return convert(array, field.type, wanted.type, Matcher(self.reader.mapping_mode))
        except pa.ArrowException as error:
            raise DataFileError(
                f"column {field.name!r} cannot be read as {wanted.type}: {error}"
            ) from error

    def _implied(self, name: str, rows: Integers, file: DataFile) -> pa.Array:
        """Return row ids from the row indexes, or the commit version of the file."""
        if self.row_tracking is not None and name == self.row_tracking.row_id:
            base = file.base_row_id
            return pa.array(rows + base) if base is not None else pa.nulls(len(rows), pa.int64())
        return pa.array([file.default_row_commit_version] * len(rows), pa.int64())


def _read_group(parquet: pq.ParquetFile, group: int, names: set[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one row group; rows without columns if none is wanted."""
    if names:
        yield from parquet.iter_batches(_ROWS, row_groups=[group], columns=sorted(names))
        return
    num_rows = parquet.metadata.row_group(group).num_rows
    for start in range(0, num_rows, _ROWS):
        yield pa.RecordBatch.from_arrays([pa.nulls(min(_ROWS, num_rows - start))], names=[""])


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(target):
        # A timestamp has the same number of microseconds with and without a zone.
        micros = array.cast(pa.timestamp("us", array.type.tz), safe=False)
        return micros.view(pa.int64()).view(target)
    return array.cast(target)


def _deleted_rows(store: Store, file: DataFile) -> Integers:
    deleted = read_deletion_vector(store, file)
    return np.asarray([] if deleted is None else deleted.to_array(), dtype=np.int64)


def _live_rows(deleted: Integers, first_row: int, num_rows: int) -> Integers:
    """Return the indexes of the live rows among ``num_rows`` from ``first_row`` on."""
    first, last = np.searchsorted(deleted, [first_row, first_row + num_rows])
    rows = np.arange(first_row, first_row + num_rows, dtype=np.int64)
    return np.delete(rows, deleted[first:last] - first_row)


def _aligned(
    left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch], output: str
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield both streams in batches of equal lengths."""
    want = got = None
    while True:
        want = _next(left) if want is None else want
        got = _next(right) if got is None else got
        if want is None and got is None:
            return
        if want is None or got is None:
            raise VerificationError(
                f"{output}: the number of rows differs from the number of live rows in the input "
                "files"
            )
        rows = min(want.num_rows, got.num_rows)
        yield want.slice(0, rows), got.slice(0, rows)
        want = want.slice(rows) if rows < want.num_rows else None
        got = got.slice(rows) if rows < got.num_rows else None


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


def _comparable(array: pa.Array) -> pa.Array:
    """Return floats as their bits, at any depth: NaN equals NaN, and -0.0 is not 0.0.

    Strings become bytes: a value may not be UTF-8.
    """
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _comparable(array.storage)
    if pa.types.is_string(kind):
        return array.cast(pa.binary())
    if pa.types.is_floating(kind):
        return array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width])
    if pa.types.is_struct(kind):
        children = [_comparable(array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        if not children:
            return array
        return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
    if pa.types.is_map(kind):
        entries = array.values
        return _lists(array, _comparable(entries.field(0)), _comparable(entries.field(1)))
    if pa.types.is_list(kind):
        return _lists(array, _comparable(array.values))
    return array


def _lists(array: pa.Array, *children: pa.Array) -> pa.Array:
    offsets = pa.array(array.offsets.to_numpy(), pa.int32())
    parts = [pa.ListArray.from_arrays(offsets, child, mask=array.is_null()) for child in children]
    return pa.StructArray.from_arrays(parts, names=[str(i) for i in range(len(parts))])


def _first_difference(left: pa.Array, right: pa.Array) -> int:
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return next((row for row, (a, b) in enumerate(pairs) if a != b), 0)


def keep_row_ids(live: LiveBatch, file: DataFile, names: RowTrackingColumns) -> pa.RecordBatch:
    """Fill the hidden columns: the value stored in the file, else the one implied by the row index.

    A row's implied id counts physical rows, deleted ones included (PROTOCOL.md, "Row Tracking").

    Raises:
        CorruptLogError: the log gives the file no base id.
    """
    columns = live.columns
    if file.base_row_id is None or file.default_row_commit_version is None:
        raise CorruptLogError(
            f"{file.path!r} has no baseRowId, but the table has row tracking",
            hint="Run `deltactl alter TABLE --drop-feature rowTracking`, then `deltactl alter "
            "TABLE --set delta.enableRowTracking=true`, which gives all rows new ids. Then rerun.",
        )
    positions = np.arange(live.first_row, live.first_row + live.num_physical_rows, dtype=np.int64)
    if live.mask is not None:
        positions = positions[np.asarray(live.mask)]
    implied = {
        names.row_id: pa.array(positions + file.base_row_id),
        names.commit_version: pa.scalar(file.default_row_commit_version, pa.int64()),
    }
    for name, value in implied.items():
        index = columns.schema.get_field_index(name)
        filled = pc.coalesce(columns.column(index), value)
        columns = columns.set_column(index, columns.schema.field(index), filled)
    return columns
