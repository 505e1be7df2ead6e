"""Divide rows into tiles of equal row counts, by the ranks of a sample. No I/O.

Sort-tile-recursive: divide rows into slices by the first column, each slice by the second column,
and so on. The bounds of a file describe a box, and a tile is a box: so bounds of tiles overlap less
than bounds of sections of a curve. A curve is handled as one column, the position on the curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltactl.numpy_types import Integers
from deltactl.operations.optimize.layout.ranks import sort_distinct


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
    distinct = [len(sort_distinct(ranks[part.rows, column])) for column in columns]
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
