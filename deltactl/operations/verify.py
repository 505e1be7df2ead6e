"""Full verification: the output read again and compared with the live input, row by row.

Order is kept by a rewrite, so equality is exact. Deleted rows are struck out here by another way
than the reader's: by position against the sorted list of deleted places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import VerificationError
from deltactl.parquet.reader import DataFile, RowReader, naming_file, read_deletion_vector
from deltactl.storage.store import Store

if TYPE_CHECKING:
    from deltactl.operations.optimize_tasks import RowTrackingColumns

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
        VerificationError: naming the file, the column and the first row that differs.
    """
    hidden = set() if row_tracking is None else {row_tracking.row_id, row_tracking.commit_version}
    names = [name for name in reader.schema.names if name not in hidden]
    expected = (b.select(names) for f in files for b in _live_rows(store, reader, f))
    done = 0
    with naming_file(output), store.open_input(output) as source:
        written = pq.ParquetFile(source).iter_batches(_ROWS, columns=names)
        for want, got in _aligned(expected, written, output):
            for name in names:
                left, right = _comparable(want.column(name)), _comparable(got.column(name))
                if not left.equals(right.cast(left.type)):
                    row = done + _first_difference(left, right)
                    raise VerificationError(f"{output}: column {name!r} differs in row {row}")
            done += want.num_rows


def _live_rows(store: Store, reader: RowReader, file: DataFile) -> Iterator[pa.RecordBatch]:
    deleted = read_deletion_vector(store, file)
    places = np.asarray([] if deleted is None else list(deleted), dtype=np.int64)
    for batch in reader.read_physical(store, file):
        num_rows = batch.num_physical_rows
        first, last = np.searchsorted(places, [batch.first_row, batch.first_row + num_rows])
        gone = places[first:last] - batch.first_row
        rows = np.delete(np.arange(num_rows), gone)
        yield batch.columns.take(pa.array(rows)) if len(gone) else batch.columns


def _aligned(
    left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch], output: str
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Both streams cut to the same lengths."""
    want = got = None
    while True:
        want = _next(left) if want is None else want
        got = _next(right) if got is None else got
        if want is None and got is None:
            return
        if want is None or got is None:
            raise VerificationError(f"{output}: the number of rows differs from the live input")
        rows = min(want.num_rows, got.num_rows)
        yield want.slice(0, rows), got.slice(0, rows)
        want = want.slice(rows) if rows < want.num_rows else None
        got = got.slice(rows) if rows < got.num_rows else None


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next((batch for batch in batches if batch.num_rows), None)


def _comparable(array: pa.Array) -> pa.Array:
    """Floats as their bits, at any depth: NaN equals NaN, and -0.0 is not 0.0."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _comparable(array.storage)
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
