"""Estimate how many files a point lookup opens, from minima and maxima only. No I/O.

The bounds of all files divide the values of a column into cells: each bound is a cell, and each gap
between two adjacent bounds is a cell. The width of a gap is the distance of its bounds; if bounds
have no distance, all cells have the same width. First, the rows of each file are distributed evenly
between its bounds. Then, a few times, they are distributed in proportion to the rows of the whole
table within these bounds, so that a few extreme values of a skewed column do not distort the
estimate. The number of files that a lookup opens is the mean over all rows.

Source of the bounds: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

from dataclasses import dataclass
from os.path import commonprefix
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.numpy_types import Bytes, Flags, Floats, Integers
from deltactl.parquet.hashes import INTEGERS
from deltactl.protocol.arrow_schemas import text_bytes
from deltactl.protocol.stats import FieldPath

ROUNDS: Final = 5
"""How often rows are distributed; the first time evenly."""

LEAST_WIDTH: Final = 1e-9
"""Minimum width of a cell, as a share of the widest: limits the effect of rounding."""

_POSITION_BYTES: Final = 12  # of a string; a double holds no more
_ROWS_AT_ONCE: Final = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Lookups:
    """The distribution of lookup values of a column, and the cells of each file.

    Attributes:
        rows: the estimated number of rows of the table in each cell.
        first: the first cell of each file; -1 if its bounds are not known.
        last: its last cell.
        is_always_read: files that a lookup always opens.
        values: the maximum number of values in each cell; infinite in gaps of types with fractions.
    """

    rows: Floats
    first: Integers
    last: Integers
    is_always_read: Flags
    values: Floats

    @classmethod
    def of(cls, files: FileBounds) -> Lookups:
        """Estimate the distribution of values."""
        known = files.is_known
        mask = pa.array(known)
        lower, upper = files.lower.filter(mask), files.upper.filter(mask)
        points = pa.concat_arrays([lower, upper]).unique()
        points = points.take(pc.sort_indices(points))
        first, last = np.full(len(known), -1), np.full(len(known), -1)
        first[known] = 2 * np.asarray(pc.index_in(lower, points))
        last[known] = 2 * np.asarray(pc.index_in(upper, points))
        widths, values = _measure_cells(points)
        rows = _spread_rows(widths, first[known], last[known], files.rows[known])
        return cls(rows, first, last, ~known & files.has_values, values)

    @property
    def is_empty(self) -> bool:
        """Return whether no value is known, so that no estimate is possible."""
        return not len(self.rows)

    def expect_opened(self, first: Integers, last: Integers, counts: Floats) -> float:
        """Return the average number of files that a lookup opens.

        Args:
            first: the first cell of each set of files; -1 for none.
            last: the last cell.
            counts: the number of files of the set that each lookup within these cells opens.
        """
        covered = first >= 0
        opened = _cover(len(self.rows), first[covered], last[covered], counts[covered])
        return float((opened * self.rows).sum() / self.rows.sum())

    def expect_skipped(self) -> float | None:
        """Return the share of the files that a lookup skips now; ``None`` if nothing is known."""
        if self.is_empty:
            return None
        opened = self.expect_opened(self.first, self.last, np.ones(len(self.first)))
        return 1.0 - (opened + float(self.is_always_read.sum())) / len(self.first)


def _spread_rows(widths: Floats, first: Integers, last: Integers, rows: Floats) -> Floats:
    """Return the number of rows in each cell, given the rows of each file."""
    found = widths
    for _ in range(ROUNDS):
        sums = np.concatenate([[0.0], np.cumsum(found)])
        within = np.where(first == last, found[first], sums[last + 1] - sums[first])
        is_one = first == last
        density = _cover(len(found), first[~is_one], last[~is_one], (rows / within)[~is_one])
        single = np.bincount(first[is_one], rows[is_one], minlength=len(found))
        found = np.maximum(density, 0.0) * found + single
    return found


def _cover(cells: int, first: Integers, last: Integers, weights: Floats) -> Floats:
    """Return the sum of the weights of the intervals that cover each cell."""
    steps = np.bincount(first, weights, minlength=cells + 1)
    steps -= np.bincount(last + 1, weights, minlength=cells + 1)
    return np.asarray(np.cumsum(steps)[:cells])


def _measure_cells(points: pa.Array) -> tuple[Floats, Floats]:
    """Return the width and the number of values of each cell; ``points`` are sorted."""
    if not len(points):
        return np.empty(0), np.empty(0)
    positions, is_whole = _positions(points)
    widths = np.full(2 * len(points) - 1, 1.0 if is_whole else 0.0)
    widths[1::2] = np.maximum(np.diff(positions) - (1.0 if is_whole else 0.0), 0.0)
    values = np.full(len(widths), np.inf)
    if is_whole:
        values = widths.copy()
    values[::2] = 1.0
    widest = float(widths.max())
    return np.maximum(widths, widest * LEAST_WIDTH if widest else 1.0), values


def _positions(points: pa.Array) -> tuple[Floats, bool]:
    """Return numbers in the order of the values, and whether their difference counts values."""
    kind = points.type
    if pa.types.is_string(kind):
        return _text_positions(points.cast(pa.binary())), False
    if pa.types.is_decimal(kind):
        return np.asarray(points.cast(pa.float64())), False
    if pa.types.is_floating(kind):
        # A quarter, so that no distance is infinite.
        most = np.finfo(np.float64).max
        return np.clip(np.asarray(points, np.float64), -most, most) / 4, False
    if pa.types.is_boolean(kind):
        return np.asarray(points.cast(pa.int8())).astype(np.float64), True
    return np.asarray(points.view(INTEGERS[kind.bit_width])).astype(np.float64), True


def _text_positions(points: pa.Array) -> Floats:
    """Return strings as fractions: digits are the bytes after their common prefix.

    The base is the number of different bytes, so that digits of numbers are spread evenly.
    """
    common = len(commonprefix([points[0].as_py(), points[-1].as_py()]))
    matrix = bytes_matrix(points, common, _POSITION_BYTES)
    digits = np.cumsum(np.bincount(matrix.ravel(), minlength=256) > 0) - 1
    base = float(digits[-1] + 1)
    return np.asarray(digits[matrix] @ base ** -np.arange(_POSITION_BYTES))


def bytes_matrix(array: pa.Array, start: int, count: int) -> Bytes:
    """Return ``count`` bytes of each string from a place on; zeros after its end."""
    data, starts = text_bytes(array)
    found = np.zeros((len(array), count), np.uint8)
    columns = np.arange(start, start + count)
    # In parts: the indices take eight times the memory of the bytes.
    for first in range(0, len(array) if len(data) else 0, _ROWS_AT_ONCE):
        edges = starts[first : first + _ROWS_AT_ONCE + 1]
        places = edges[:-1, None] + columns
        inside = places < edges[1:, None]
        found[first : first + _ROWS_AT_ONCE] = np.where(
            inside, data[np.minimum(places, len(data) - 1)], np.uint8(0)
        )
    return found


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


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenSets:
    """Sets of files of a table that are rewritten, each within its own bounds.

    ``sets``: the set of each file, -1 if the file is not rewritten; ``outputs``: the number of
    outputs of each set.
    """

    sets: Integers
    outputs: Integers

    def expect_skipped(self, column: Lookups, opened: Floats) -> float | None:
        """Return the share of all files that a lookup will skip.

        ``opened`` is the share of the outputs of each set that a lookup within its bounds opens.
        """
        stays = self.sets < 0
        total = int(stays.sum()) + int(self.outputs.sum())
        if column.is_empty or not total:
            return None
        first, last = self.find_ranges(column)
        found = column.expect_opened(
            np.concatenate([column.first[stays], first]),
            np.concatenate([column.last[stays], last]),
            np.concatenate([np.ones(int(stays.sum())), opened * self.outputs]),
        )
        return 1.0 - (found + float(column.is_always_read[stays].sum())) / total

    def find_ranges(self, column: Lookups) -> tuple[Integers, Integers]:
        """Return the first and the last cell of each set; -1 for sets without a value.

        Rows without bounds may be in any cell.
        """
        moved = self.sets >= 0
        sets, first, last = self.sets[moved], column.first[moved], column.last[moved]
        is_open = column.is_always_read[moved]
        first = np.where(is_open, 0, first)
        last = np.where(is_open, len(column.rows) - 1, last)
        present = first >= 0
        lowest = np.full(len(self.outputs), len(column.rows), np.int64)
        highest = np.full(len(self.outputs), -1, np.int64)
        np.minimum.at(lowest, sets[present], first[present])
        np.maximum.at(highest, sets[present], last[present])
        return np.where(highest < 0, -1, lowest), highest

    def count_values(self, column: Lookups) -> Floats:
        """Return the maximum number of distinct values of each set."""
        first, last = self.find_ranges(column)
        found = np.where(first == last, 1.0, np.inf)
        is_finite = np.isfinite(column.values)
        if is_finite.all():
            sums = np.concatenate([[0.0], np.cumsum(column.values)])
            found = np.where(first < 0, 1.0, sums[last + 1] - sums[first])
        return found
