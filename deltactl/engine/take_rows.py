"""Take rows of a batch in a given order, faster than Arrow if strings have one length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from deltactl.numpy_types import Integers


def take_rows(batch: pa.RecordBatch, order: Integers) -> pa.RecordBatch:
    """Return the rows whose numbers are in ``order``, in this order."""
    return next(take_in_parts(batch, order, max(1, len(order))), batch.slice(0, 0))


def take_in_parts(
    batch: pa.RecordBatch, order: Integers, most_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows as ``take_rows``, in batches of at most so many rows.

    Strings that all have one length, such as codes and UUIDs, are taken as values of fixed width.
    Such values have no offsets, and are copied in a quarter of the time.
    """
    columns = [_fix_width(column) for column in batch.columns]
    fixed = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    for start in range(0, len(order), most_rows):
        taken = fixed.take(pa.array(order[start : start + most_rows]))
        arrays = [
            _with_offsets(array, kind) if array.type != kind else array
            for array, kind in zip(taken.columns, batch.schema.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _fix_width(array: pa.Array) -> pa.Array:
    """Return strings that all have one length as values of fixed width; others as they are."""
    rows = len(array)
    if array.type not in (pa.string(), pa.binary()) or array.null_count or not rows:
        return array
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, rows + 1, 4 * array.offset)
    first, width = int(ends[0]), int(ends[1] - ends[0])
    if not width or int(ends[-1]) - first != rows * width or (np.diff(ends) != width).any():
        return array
    kind = pa.binary(width)
    return pa.Array.from_buffers(kind, rows, [None, data.slice(first, rows * width)])


def _with_offsets(array: pa.FixedSizeBinaryArray, kind: pa.DataType) -> pa.Array:
    """Return values of fixed width as strings or binary values."""
    rows, width = len(array), array.type.byte_width
    offsets = pa.py_buffer(np.arange(0, (rows + 1) * width, width, dtype=np.int32))
    return pa.Array.from_buffers(kind, rows, [None, offsets, array.buffers()[1]])
