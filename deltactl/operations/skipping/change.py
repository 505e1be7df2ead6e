"""Estimate the share of files that lookups skip, after files are rewritten. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltactl.numpy_types import Floats, Integers
from deltactl.operations.skipping.lookups import Lookups


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
