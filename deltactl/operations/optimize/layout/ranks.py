"""Replace values by their ranks in a sample, so that all types become whole numbers.

A rank decides only the file of a row, not its values, so it is enough to compare prefixes of
strings and decimals. No I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.numpy_types import Array, Integers
from deltactl.operations.skipping.lookups import bytes_matrix
from deltactl.parquet.hashes import INTEGERS

MAX_RANK: Final = 1 << 17
"""Ranks are smaller than this."""

_MOST_BOUNDS: Final = (MAX_RANK >> 1) - 2
# The number of characters in statistics of most writers.
_PREFIX_CHARACTERS: Final = 32
_MOST_BYTES_A_CHARACTER: Final = 4


@dataclass(frozen=True, eq=False)
class ColumnRanks:
    """The distinct values of a column in a sample, in order; nulls are before all of them.

    Only ``prefix_bytes`` of strings are compared, because statistics contain only prefixes.
    """

    bounds: Array
    prefix_bytes: int = 0

    @classmethod
    def of(cls, sample: pa.Array) -> ColumnRanks:
        """Return the ranks of a sample."""
        prefix_bytes = _choose_prefix(sample)
        bounds = np.unique(comparable(sample.drop_null(), prefix_bytes))
        if len(bounds) > _MOST_BOUNDS:
            kept = np.linspace(0, len(bounds) - 1, _MOST_BOUNDS).round().astype(np.int64)
            bounds = bounds[kept]
        return cls(bounds, prefix_bytes)

    def rank(self, array: pa.Array) -> Integers:
        """Return 0 for null, even numbers for values of the sample, odd ones between them."""
        values = comparable(array, self.prefix_bytes)
        before = np.searchsorted(self.bounds, values)
        ranks = 2 * before + 1
        if len(self.bounds):
            ranks += self.bounds[np.minimum(before, len(self.bounds) - 1)] == values
        if array.null_count:
            ranks[np.asarray(array.is_null())] = 0
        return ranks


def divide_ranks(column: ColumnRanks, ranks: Integers, bits: int) -> Integers:
    """Return for each rank one of about 2^bits ranges with equal row counts, by those of a sample.

    There are far fewer ranges than ranks.
    """
    counts = np.bincount(ranks, minlength=2 * len(column.bounds) + 2)
    before = np.cumsum(counts) - counts
    shares = np.minimum((before << bits) // max(len(ranks), 1), (1 << bits) - 1)
    ranges: Integers = shares.astype(np.int32)
    # Values between two of the sample belong to the range of the greater one.
    ranges[1:-1:2] = ranges[2::2]
    return ranges


def _choose_prefix(sample: pa.Array) -> int:
    """Return the number of bytes of each string to compare (32 characters)."""
    if not _is_bytes(sample.type):
        return 0
    is_ascii = pa.types.is_binary(sample.type) or pc.all(pc.string_is_ascii(sample)).as_py()
    return _PREFIX_CHARACTERS * (1 if is_ascii in (True, None) else _MOST_BYTES_A_CHARACTER)


def cut(array: pa.Array) -> pa.Array:
    """Return strings without the bytes that no rank depends on; other values as they are.

    The last character may be incomplete.
    """
    if not _is_bytes(array.type):
        return array
    prefixes = pc.binary_slice(
        array.view(pa.binary()), 0, _PREFIX_CHARACTERS * _MOST_BYTES_A_CHARACTER
    )
    return prefixes.view(array.type)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def comparable(array: pa.Array, prefix_bytes: int) -> Array:
    """Return values that NumPy sorts in the order of Delta; values of nulls are undefined."""
    kind = array.type
    if _is_bytes(kind):
        matrix = bytes_matrix(array, 0, prefix_bytes)
        return np.ascontiguousarray(matrix).view(f"S{prefix_bytes}")[:, 0]
    if pa.types.is_decimal(kind):
        return np.asarray(pc.fill_null(array.cast(pa.float64()), 0.0))
    if pa.types.is_floating(kind):
        return np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array, False)).astype(np.int64)
    whole = array.view(INTEGERS[kind.bit_width])
    return np.asarray(pc.fill_null(whole, 0)).astype(np.int64)


def rank_columns(columns: Sequence[ColumnRanks], arrays: Sequence[pa.Array]) -> Integers:
    """Return the ranks of rows: a row for each of them, a column for each array."""
    pairs = zip(columns, arrays, strict=True)
    return np.stack([column.rank(array) for column, array in pairs], axis=1)
