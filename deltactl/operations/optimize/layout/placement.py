"""Assign rows to files and sort them, by a sample. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.operations.optimize.layout.curves import (
    CODE_BITS,
    bits_per_column,
    encode_hilbert,
    encode_z_order,
)
from deltactl.operations.optimize.layout.ranks import (
    MAX_RANK,
    ColumnRanks,
    Ranks,
    rank_columns,
)
from deltactl.operations.optimize.layout.tiles import Tiles, cut_tiles
from deltactl.operations.optimize.options import Layout

_RANK_BITS = MAX_RANK.bit_length() - 1


@dataclass(frozen=True, eq=False)
class Placement:
    """Assign rows to destinations; each destination is a file of about the target size.

    ``shares``: for each column, the number of the range of each rank. Ranges have equal row counts;
    their number is the number of values that the bits of a curve can distinguish. Within a file of
    tiles the rows follow a Hilbert curve.
    """

    layout: Layout
    columns: tuple[ColumnRanks, ...]
    shares: tuple[Ranks, ...]
    tiles: Tiles

    @property
    def num_destinations(self) -> int:
        """Return the number of files that are wanted."""
        return self.tiles.num_destinations

    def assign(self, arrays: Sequence[pa.Array], first_row: int = 0) -> npt.NDArray[np.int64]:
        """Return the destination of each row, from the columns of the layout."""
        return self.place(arrays, first_row)[0]

    def place(self, arrays: Sequence[pa.Array], first_row: int = 0) -> tuple[Ranks, Ranks]:
        """Return the destination of each row, and numbers in the order of :meth:`order`."""
        ranks = rank_columns(self.columns, arrays)
        codes = _encode(self.layout, ranks, self.shares)
        levels = ranks if self.layout == "tile" else codes[:, None]
        return self.tiles.assign(levels, first_row), codes

    def order(self, arrays: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
        """Return the order of rows in a file, so that row groups and pages have narrow bounds."""
        if self.layout == "linear" or len(arrays) == 1:
            return _sort_by_values(arrays)
        codes = _encode(self.layout, rank_columns(self.columns, arrays), self.shares)
        return np.argsort(codes, kind="stable")


def _sort_by_values(arrays: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
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
    shares = tuple(_share_out(ranks[:, column], bits) for column in range(len(columns)))
    levels = ranks if layout == "tile" else _encode(layout, ranks, shares)[:, None]
    span = MAX_RANK if layout == "tile" else 1 << CODE_BITS
    return Placement(layout, columns, shares, cut_tiles(levels, files, span))


def _share_out(ranks: Ranks, bits: int) -> Ranks:
    """Return for each rank the number of its range among 2^bits ranges of equal row counts."""
    counts = np.bincount(ranks, minlength=MAX_RANK)
    before = np.cumsum(counts) - counts
    return np.asarray(np.minimum((before << bits) // max(len(ranks), 1), (1 << bits) - 1))


def _encode(layout: Layout, ranks: Ranks, shares: Sequence[Ranks]) -> Ranks:
    """Return the positions of rows on a curve, or for a sorted layout numbers in its order."""
    columns = ranks.shape[1]
    if layout == "linear":
        codes = np.zeros(len(ranks), np.int64)
        for column in range(min(columns, CODE_BITS // _RANK_BITS)):
            codes = (codes << _RANK_BITS) | ranks[:, column]
        return codes
    points = np.stack([share[ranks[:, column]] for column, share in enumerate(shares)], axis=1)
    encode = encode_z_order if layout == "zorder" else encode_hilbert
    return encode(points, bits_per_column(columns))
