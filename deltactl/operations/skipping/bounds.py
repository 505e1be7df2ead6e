"""Read minima, maxima and row counts of some columns of many files, as columns. No I/O.

Source: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.numpy_types import Flags, Floats
from deltactl.protocol.stats import FieldPath


@dataclass(frozen=True, slots=True, eq=False)
class FileBounds:
    """One column in many files.

    Attributes:
        lower: the minimum in each file; null if unknown.
        upper: the maximum.
        rows: rows with a value. A file without a row count has that of an average file.
        has_values: whether there may be a row with a value.
    """

    lower: pa.Array
    upper: pa.Array
    rows: Floats
    has_values: Flags

    @property
    def is_known(self) -> Flags:
        """Return a mask of files with values and both bounds, in order.

        Other files are always read.
        """
        ordered = pc.fill_null(pc.less_equal(self.lower, self.upper), False)
        return np.asarray(ordered).astype(np.bool_) & self.has_values


def select_bounds(parsed: pa.ChunkedArray, path: FieldPath) -> FileBounds:
    """Return one column of the result of :func:`~deltactl.protocol.stats_decoding.parse_stats`."""
    structs = parsed.combine_chunks()
    if isinstance(structs, pa.ChunkedArray):
        structs = pa.concat_arrays(structs.chunks or [pa.array([], structs.type)])
    rows = _numbers(pc.struct_field(structs, ["numRecords"]))
    nulls = _numbers(pc.struct_field(structs, ["nullCount", *path]))
    is_empty = (rows == 0) | (rows == nulls)
    usual = float(np.nanmean(rows)) if np.isfinite(rows).any() else 1.0
    rows = np.where(np.isnan(rows), usual, rows) - np.where(np.isnan(nulls), 0.0, nulls)
    return FileBounds(
        _without_nan(pc.struct_field(structs, ["minValues", *path])),
        _without_nan(pc.struct_field(structs, ["maxValues", *path])),
        np.maximum(rows, 1.0),
        ~is_empty,
    )


def _numbers(array: pa.Array) -> Floats:
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _without_nan(array: pa.Array) -> pa.Array:
    """Return bounds without NaN, which is not a bound; both zeros are equal."""
    if not pa.types.is_floating(array.type):
        return array
    doubles = pc.add(array.cast(pa.float64()), 0.0)
    return pc.if_else(pc.is_nan(doubles), pa.scalar(None, pa.float64()), doubles)
