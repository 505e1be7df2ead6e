"""Assign rows to files and sort them, by a sample. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.numpy_types import Integers
from deltactl.operations.optimize.layout.curves import (
    CODE_BITS,
    bits_per_column,
    encode_hilbert,
    encode_z_order,
)
from deltactl.operations.optimize.layout.ranks import (
    MAX_RANK,
    ColumnRanges,
    ColumnRanks,
    rank_columns,
)
from deltactl.operations.optimize.layout.tiles import Tiles, cut_tiles
from deltactl.operations.optimize.options import Layout

_RANK_BITS = MAX_RANK.bit_length() - 1


@dataclass(frozen=True, eq=False)
class Placement:
    """Assign rows to destinations; each destination is a file of about the target size.

    The ``ranges`` of a column have equal row counts; their number is the number of values that the
    bits of a curve can distinguish. Within a file of tiles, the rows follow a Hilbert curve.
    """

    layout: Layout
    columns: tuple[ColumnRanks, ...]
    ranges: tuple[ColumnRanges, ...]
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
        codes = _encode(self.layout, self.columns, self.ranges, arrays)
        is_tile = self.layout == "tile"
        levels = rank_columns(self.columns, arrays) if is_tile else codes[:, None]
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
    bits = bits_per_column(len(columns))
    ranges = tuple(
        ColumnRanges.of(column, ranks[:, number], bits) for number, column in enumerate(columns)
    )
    levels = ranks if layout == "tile" else _encode(layout, columns, ranges, sample)[:, None]
    span = MAX_RANK if layout == "tile" else 1 << CODE_BITS
    return Placement(layout, columns, ranges, cut_tiles(levels, files, span))


def _encode(
    layout: Layout,
    columns: Sequence[ColumnRanks],
    ranges: Sequence[ColumnRanges],
    arrays: Sequence[pa.Array],
) -> Integers:
    """Return the positions of rows on a curve, or for a sorted layout numbers in its order."""
    if layout == "linear":
        codes = np.zeros(len(arrays[0]), np.int64)
        for column, array in zip(columns[: CODE_BITS // _RANK_BITS], arrays, strict=False):
            codes = (codes << _RANK_BITS) | column.rank(array)
        return codes
    points = [each.find(array) for each, array in zip(ranges, arrays, strict=True)]
    encode = encode_z_order if layout == "zorder" else encode_hilbert
    return encode(points, bits_per_column(len(points)))
