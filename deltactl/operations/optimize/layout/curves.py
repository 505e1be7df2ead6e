"""Compute space-filling curves over columns of small whole numbers. No I/O.

Sources: the bits of Delta's Z-order (column 1 gives the highest bit of each group); J. Skilling,
"Programming the Hilbert curve" (2004), for the Hilbert curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from deltactl.numpy_types import Integers

Coordinates = Sequence[Integers]
"""An array for each dimension, with a number for each point."""

CODE_BITS: Final = 62
MOST_BITS: Final = 10
"""Delta on Spark divides each column into 1000 ranges."""

_BITS_OF_ONE: Final = 20
# Number of points whose coordinates fit into the cache of a core.
_CACHED_POINTS: Final = 1 << 14


def bits_per_column(columns: int, most: int = MOST_BITS) -> int:
    """Return the number of bits of each column in a code; a single column gives a sorted order."""
    if columns == 1:
        return _BITS_OF_ONE
    return max(1, min(most, CODE_BITS // columns))


def encode_z_order(points: Coordinates, bits: int) -> Integers:
    """Return codes with the bits of all columns interleaved, the highest first.

    ``bits`` of several columns are few (see ``MOST_BITS``): each number is looked up in a table.
    """
    columns = len(points)
    if columns == 1:
        return points[0].astype(np.int64)
    spread = _spread_bits(bits, columns)
    codes = np.zeros(len(points[0]), np.int64)
    for numbers in points:
        codes <<= 1
        codes |= spread[numbers]
    return codes


@lru_cache(maxsize=64)
def _spread_bits(bits: int, columns: int) -> Integers:
    """Return each number of so many bits with its bits so many places apart."""
    numbers = np.arange(1 << bits)
    spread = np.zeros_like(numbers)
    for bit in range(bits):
        spread |= (numbers >> bit & 1) << (bit * columns)
    return spread


def encode_hilbert(points: Coordinates, bits: int) -> Integers:
    """Return the positions of points on a Hilbert curve."""
    starts = range(0, max(len(points[0]), 1), _CACHED_POINTS)
    parts = [slice(start, start + _CACHED_POINTS) for start in starts]
    return np.concatenate([_encode_some([axis[part] for axis in points], bits) for part in parts])


def _encode_some(points: Coordinates, bits: int) -> Integers:
    columns = len(points)
    axes = [axis.astype(np.int32) for axis in points]
    for shift in range(bits - 1, 0, -1):
        low = np.int32((1 << shift) - 1)
        for number in range(columns):
            # All bits where this one is set: no branch for each point.
            is_set = -((axes[number] >> shift) & 1)
            swapped = (axes[0] ^ axes[number]) & (low & ~is_set)
            axes[0] ^= swapped
            axes[0] ^= is_set & low
            if number:
                axes[number] ^= swapped
    for number in range(1, columns):
        axes[number] ^= axes[number - 1]
    turn = np.zeros(len(axes[0]), np.int32)
    for shift in range(bits - 1, 0, -1):
        turn ^= -((axes[-1] >> shift) & 1) & np.int32((1 << shift) - 1)
    return encode_z_order([axis ^ turn for axis in axes], bits)
