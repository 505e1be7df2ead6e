"""Assign rows to files and sort them, by a sample: along a space-filling curve, or in tiles.

No I/O. Sources: the bits of Delta's Z-order (column 1 gives the highest bit of each group);
J. Skilling, "Programming the Hilbert curve" (2004), for the Hilbert curve.

Sort-tile-recursive: divide rows into slices by the first column, each slice by the second column,
and so on. The bounds of a file describe a box, and a tile is a box: so bounds of tiles overlap less
than bounds of sections of a curve. A curve is handled as one column, the position on the curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.numpy_types import Integers
from deltactl.operations.optimize.layout.ranks import (
    MAX_RANK,
    ColumnRanks,
    divide_ranks,
    rank_columns,
)
from deltactl.operations.optimize.options import Layout

_RANK_BITS = MAX_RANK.bit_length() - 1

Coordinates = Sequence[Integers]
"""An array for each dimension, with a number for each point."""

CODE_BITS: Final = 62
MOST_BITS: Final = 10
"""Delta on Spark divides each column into 1000 ranges."""

_BITS_OF_ONE: Final = 20


@dataclass(frozen=True, eq=False)
class Placement:
    """Assign rows to destinations; each destination is a file of about the target size.

    ``ranges`` has the range of each rank of a column. The ranges have equal row counts; their
    number is the number of values that the bits of a curve can distinguish. Within a file of tiles,
    the rows follow a Hilbert curve.
    """

    layout: Layout
    columns: tuple[ColumnRanks, ...]
    ranges: tuple[Integers, ...]
    tiles: Tiles

    @property
    def num_destinations(self) -> int:
        """Return the number of files that are wanted."""
        return self.tiles.num_destinations

    def assign(self, arrays: Sequence[pa.Array], first_row: int = 0) -> Integers:
        """Return the destination of each row, from the columns of the layout."""
        return self.place(arrays, first_row)[0]

    def place(self, arrays: Sequence[pa.Array], first_row: int = 0) -> tuple[Integers, Integers]:
        """Return the destination of each row, and its place there for :meth:`order`."""
        ranks = rank_columns(self.columns, arrays)
        codes = _encode(self.layout, self.ranges, ranks)
        levels = ranks if self.layout == "tile" else codes[:, None]
        return self.tiles.assign(levels, first_row), codes

    def order(self, arrays: Sequence[pa.Array], places: Integers) -> Integers:
        """Return the order of the rows in a file: its row groups and pages get narrow bounds."""
        if self.layout == "linear" or len(arrays) == 1:
            return _sort_by_values(arrays)
        return np.argsort(places)


def _sort_by_values(arrays: Sequence[pa.Array]) -> Integers:
    """Return the order by the first column, then the next ones; nulls first."""
    keys: dict[str, pa.Array] = {}
    for number, array in enumerate(arrays):
        if array.null_count:
            keys[f"valid {number}"] = array.is_valid()
        keys[f"value {number}"] = array
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return np.asarray(order).astype(np.int64)


def learn_placement(layout: Layout, sample: Sequence[pa.Array], files: int) -> Placement:
    """Return a placement, learned from a sample, for an approximate number of files."""
    columns = tuple(ColumnRanks.of(array) for array in sample)
    ranks = rank_columns(columns, sample)
    bits = _bits_per_column(len(columns))
    ranges = tuple(
        divide_ranks(column, ranks[:, number], bits) for number, column in enumerate(columns)
    )
    levels = ranks if layout == "tile" else _encode(layout, ranges, ranks)[:, None]
    span = MAX_RANK if layout == "tile" else 1 << CODE_BITS
    return Placement(layout, columns, ranges, cut_tiles(levels, files, span))


def _encode(layout: Layout, ranges: Sequence[Integers], ranks: Integers) -> Integers:
    """Return the positions of rows on a curve, or for a sorted layout numbers in its order."""
    if layout == "linear":
        codes = np.zeros(len(ranks), np.int64)
        for column in ranks.T[: CODE_BITS // _RANK_BITS]:
            codes = (codes << _RANK_BITS) | column
        return codes
    points = [each[column] for each, column in zip(ranges, ranks.T, strict=True)]
    encode = encode_z_order if layout == "zorder" else encode_hilbert
    return encode(points, _bits_per_column(len(points)))


def _bits_per_column(columns: int) -> int:
    """Return the number of bits of each column in a code; a single column gives a sorted order."""
    if columns == 1:
        return _BITS_OF_ONE
    return max(1, min(MOST_BITS, CODE_BITS // columns))


def encode_z_order(points: Coordinates, bits: int) -> Integers:
    """Return codes with the bits of all columns interleaved, the highest first."""
    codes = np.zeros(len(points[0]), np.int64)
    for bit in reversed(range(bits)):
        for numbers in points:
            codes = codes << 1 | numbers >> bit & 1
    return codes


def encode_hilbert(points: Coordinates, bits: int) -> Integers:
    """Return the positions of points on a Hilbert curve."""
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


@dataclass(frozen=True, eq=False)
class Tiles:
    """The limits of slices of each level, and the number of destinations of each tile.

    ``cuts[level]`` are sorted numbers ``slice * span + rank``: the first rank of a slice that is
    not the first one of its slice of the level above. ``parts`` is more than 1 for a tile that no
    column can cut although it fills several files.
    """

    span: int
    cuts: tuple[Integers, ...]
    parts: Integers

    @property
    def num_destinations(self) -> int:
        """Return the number of files that are wanted."""
        return int(self.parts.sum())

    def locate(self, ranks: Integers) -> Integers:
        """Return the tile of each row."""
        found = np.zeros(len(ranks), np.int64)
        for level, cuts in enumerate(self.cuts):
            found += np.searchsorted(cuts, found * self.span + ranks[:, level], "right")
        return found

    def assign(self, ranks: Integers, first_row: int = 0) -> Integers:
        """Return the destination of each row; rows of a tile with parts are distributed evenly."""
        tiles = self.locate(ranks)
        firsts = np.cumsum(self.parts) - self.parts
        parts = self.parts[tiles]
        turns = np.arange(first_row, first_row + len(ranks))
        return np.asarray(firsts[tiles] + turns % parts)


@dataclass(frozen=True, eq=False)
class _Slice:
    """Rows of the sample, and the number of files for them."""

    rows: Integers
    files: float


def cut_tiles(ranks: Integers, files: int, span: int) -> Tiles:
    """Divide the rows of the sample so that each tile becomes one file.

    ``ranks``, a column for each level, are those of a sample; smaller than ``span``. ``files`` is
    the wanted number.
    """
    slices = [_Slice(np.arange(len(ranks)), float(files))]
    cuts = []
    for level in range(ranks.shape[1]):
        found: list[int] = []
        following: list[_Slice] = []
        for number, part in enumerate(slices):
            inner, pieces = _cut_slice(ranks, level, part)
            found += [number * span + rank for rank in inner]
            following += pieces
        cuts.append(np.array(found, np.int64))
        slices = following
    parts = np.array([max(1, math.floor(part.files + 0.5)) for part in slices], np.int64)
    return Tiles(span, tuple(cuts), parts)


def _cut_slice(ranks: Integers, level: int, part: _Slice) -> tuple[list[int], list[_Slice]]:
    """Return the limits at which a slice is divided, and its parts."""
    if not len(part.rows) or part.files < 1.5:
        return [], [part]
    columns = range(level, ranks.shape[1])
    distinct = [len(np.unique(ranks[part.rows, column])) for column in columns]
    wanted = choose_slices(part.files, distinct)[0]
    order = part.rows[np.argsort(ranks[part.rows, level], kind="stable")]
    ordered = ranks[order, level]
    cuts = _choose_cuts(ordered, wanted)
    edges = np.searchsorted(ordered, cuts)
    share = part.files / len(order)
    pieces = [_Slice(rows, len(rows) * share) for rows in np.split(order, edges)]
    return cuts, pieces


def _choose_cuts(ordered: Integers, slices: int) -> list[int]:
    """Return ranks at which to cut, nearest to equal row counts: equal ranks stay together."""
    cuts = set()
    for number in range(1, slices):
        place = number * len(ordered) // slices
        rank = int(ordered[place])
        start, end = np.searchsorted(ordered, [rank, rank + 1])
        if place - start <= end - place:
            cuts.add(rank)
        else:
            cuts.add(rank + 1)
    return sorted(cut for cut in cuts if ordered[0] < cut <= ordered[-1])


def choose_slices(files: float, most: Sequence[int]) -> list[int]:
    """Return the number of slices of each column: nearly equal, with a product near ``files``.

    ``files`` is the wanted product; ``most`` are the distinct values of each column.
    """
    slices = [1] * len(most)
    open_columns = [column for column, count in enumerate(most) if count > 1]
    left = files
    while open_columns:
        even = max(1, int(left ** (1 / len(open_columns)) + 1e-9))
        full = [column for column in open_columns if most[column] <= even]
        if not full:
            for column in open_columns:
                slices[column] = even
            break
        for column in full:
            slices[column] = most[column]
            left = max(1.0, left / most[column])
        open_columns = [column for column in open_columns if column not in full]
    return _fill_up(slices, files, open_columns, most)


def _fill_up(
    slices: list[int], files: float, columns: Sequence[int], most: Sequence[int]
) -> list[int]:
    """Add slices, to the columns with the fewest first, while that brings the product nearer."""
    product = math.prod(slices)
    while True:
        free = [column for column in columns if slices[column] < most[column]]
        if not free:
            return slices
        column = min(free, key=lambda column: (slices[column], column))
        more = product // slices[column] * (slices[column] + 1)
        if abs(math.log(more / files)) >= abs(math.log(product / files)):
            return slices
        slices[column] += 1
        product = more
