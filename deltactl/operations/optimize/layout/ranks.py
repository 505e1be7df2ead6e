"""Ranks of values among the values of a sample: all types become whole numbers in the same order.

Pure. A rank decides only where a row is written, never what: so strings and decimals may be
compared by their beginnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.operations.skipping.lookups import bytes_matrix
from deltactl.parquet.digest import INTEGERS

Ranks = npt.NDArray[np.int64]
Values = npt.NDArray[Any]

MAX_RANK: Final = 1 << 17
"""Ranks are smaller than this."""

_MOST_BOUNDS: Final = (MAX_RANK >> 1) - 2
# As many bytes as the statistics of most writers have characters.
_PREFIX_BYTES: Final = 32


@dataclass(frozen=True, eq=False)
class ColumnRanks:
    """The distinct values of a column in a sample, in order; nulls are before all of them."""

    bounds: Values

    @classmethod
    def of(cls, sample: pa.Array) -> ColumnRanks:
        """Return the ranks of a sample."""
        present = comparable(sample.drop_null())
        bounds = np.unique(present)
        if len(bounds) > _MOST_BOUNDS:
            kept = np.linspace(0, len(bounds) - 1, _MOST_BOUNDS).round().astype(np.int64)
            bounds = bounds[kept]
        return cls(bounds)

    def rank(self, array: pa.Array) -> Ranks:
        """Return 0 for null, even numbers for values of the sample, odd ones between them."""
        values = comparable(array)
        after = np.searchsorted(self.bounds, values, "right")
        ranks = 2 * after + 1
        if len(self.bounds):
            nearest = self.bounds[np.maximum(after, 1) - 1]
            ranks -= (nearest == values) & (after > 0)
        if array.null_count:
            ranks[np.asarray(array.is_null())] = 0
        return ranks.astype(np.int64)


def comparable(array: pa.Array) -> Values:
    """Return values that NumPy orders as Delta does; those of nulls have no meaning."""
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _prefixes(array)
    if pa.types.is_decimal(kind):
        return np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0))
    if pa.types.is_floating(kind):
        return np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array, False)).astype(np.int64)
    whole = array.view(INTEGERS[kind.bit_width])
    return np.asarray(pc.fill_null(whole, 0)).astype(np.int64)


def _prefixes(array: pa.Array) -> Values:
    """Return the first bytes of strings as byte strings of one length."""
    matrix = bytes_matrix(array, 0, _PREFIX_BYTES)
    return np.ascontiguousarray(matrix).view(f"S{_PREFIX_BYTES}")[:, 0]


def rank_columns(columns: Sequence[ColumnRanks], arrays: Sequence[pa.Array]) -> Ranks:
    """Return the ranks of rows: a row for each of them, a column for each array."""
    pairs = zip(columns, arrays, strict=True)
    return np.stack([column.rank(array) for column, array in pairs], axis=1)
