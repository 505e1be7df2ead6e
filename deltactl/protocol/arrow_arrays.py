"""Make Arrow arrays and tables without Python values.

If pandas is installed, Arrow imports it before it looks at a Python value or a NumPy array, which
takes longer than all other imports of a program that loads a table. These functions only pass
memory on, so nothing is imported.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_TYPES: Final = {"int32": pa.int32(), "int64": pa.int64()}


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows."""
    return pa.Table.from_batches([], schema)


def array_of(values: npt.NDArray[Any]) -> pa.Array:
    """Return the integers of an array, of 32 or 64 bits, or its truth values."""
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(_TYPES[values.dtype.name], len(values), [None, buffer])


def texts_of(values: list[str]) -> pa.Array:
    """Return a few strings."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def numbers_of(array: pa.Array) -> npt.NDArray[Any]:
    """Return integers without nulls as a NumPy array, which shares their memory."""
    width = array.type.bit_width // 8
    kind = f"{'i' if pa.types.is_signed_integer(array.type) else 'u'}{width}"
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * width)


def flags_of(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return truth values without nulls as a NumPy array."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.zeros(0, np.bool_), *map(_flags, chunks)])


def _flags(array: pa.Array) -> npt.NDArray[np.bool_]:
    if not len(array):
        return np.zeros(0, np.bool_)
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    last = array.offset + len(array)
    return np.unpackbits(bits, count=last, bitorder="little")[array.offset :].view(np.bool_)
