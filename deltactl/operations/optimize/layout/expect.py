"""Estimate the share of files that lookups skip in a layout, from the log. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import UsageError
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Floats, Integers
from deltactl.operations.file_sizes import sum_groups
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.optimize.layout.placement import Placement, choose_slices, learn_placement
from deltactl.operations.optimize.layout.plan import count_outputs
from deltactl.operations.optimize.layout.ranks import MAX_RANK, rank_columns
from deltactl.operations.optimize.layout.request import LayoutRequest, find_columns
from deltactl.operations.optimize.layout.tags import number_layouts
from deltactl.operations.optimize.options import Layout
from deltactl.operations.partition_groups import group_partitions
from deltactl.operations.skipping.lookups import Lookups, RewrittenSets, select_bounds
from deltactl.operations.skipping.report import ColumnSkipping, LayoutReport
from deltactl.operations.target_size import choose_target_bytes
from deltactl.option_names import option
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.stats_decoding import bounds_type, parse_stats

_TRIED_ROWS: Final = 1 << 14
_TRIED_FILES: Final = 256
_MOST_VALUES: Final = 1 << 40
_SEED: Final = 24

Shares = tuple[float, ...]
"""For each column, the share of files that a lookup opens."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedSkipping:
    """The share of files that lookups skip, before and after clusters are placed.

    Attributes:
        request: the columns and the rule.
        columns: the bounds of each column in all files that are considered.
        sets: the files of each cluster, and its number of outputs.
        others: the clusters with another layout; a lookup may open all their outputs.
    """

    request: LayoutRequest
    columns: tuple[Lookups, ...]
    sets: RewrittenSets
    others: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        request: LayoutRequest,
        bounds: pa.ChunkedArray,
        sets: RewrittenSets,
        others: frozenset[int] = frozenset(),
    ) -> ExpectedSkipping:
        """Read the bounds of the columns of a layout."""
        columns = tuple(Lookups.of(select_bounds(bounds, path)) for path in request.paths)
        return cls(request, columns, sets, others)

    def find_least(self) -> float | None:
        """Return the share that lookups skip now, for the column with the lowest share."""
        shares = [column.expect_skipped() for column in self.columns]
        known = [share for share in shares if share is not None]
        return min(known, default=None)

    def report(self) -> LayoutReport:
        """Return the shares."""
        opened = self._estimate_opened()
        columns = tuple(
            ColumnSkipping(
                name,
                column.expect_skipped(),
                self.sets.expect_skipped(column, opened[:, number]),
                int(column.is_always_read.sum()),
            )
            for number, (name, column) in enumerate(
                zip(self.request.names, self.columns, strict=True)
            )
        )
        stays = int((self.sets.sets < 0).sum())
        return LayoutReport(
            self.request.layout, len(self.sets.sets), stays + int(self.sets.outputs.sum()), columns
        )

    def _estimate_opened(self) -> Floats:
        values = np.stack([self.sets.count_values(column) for column in self.columns], axis=1)
        limits = np.minimum(values, _MOST_VALUES).astype(np.int64)
        outputs = self.sets.outputs.tolist()
        opened = [
            estimate_opened(self.request.layout, 1 if number in self.others else files, tuple(row))
            for number, (files, row) in enumerate(zip(outputs, limits.tolist(), strict=True))
        ]
        return np.array(opened, np.float64).reshape(len(outputs), len(self.columns))


@cache
def estimate_opened(layout: Layout, files: int, most: tuple[int, ...]) -> Shares:
    """Return the share of files that a lookup opens, for independent columns.

    For tiles, a lookup opens the files of one slice; the product of the slices of all columns is
    the number of files. For curves, it is simulated with uniform random numbers and at most 256
    files.

    ``most`` is the maximum number of distinct values of each column.
    """
    if files <= 1:
        return (1.0,) * len(most)
    if layout == "tile":
        return tuple(1 / slices for slices in choose_slices(files, most))
    return _try_curve(layout, min(files, _TRIED_FILES), tuple(min(n, _TRIED_ROWS) for n in most))


@cache
def _try_curve(layout: Layout, files: int, most: tuple[int, ...]) -> Shares:
    random = np.random.default_rng(_SEED)
    sample = [pa.array(random.integers(0, count, _TRIED_ROWS)) for count in most]
    return measure_opened(learn_placement(layout, sample, files), sample)


def measure_opened(placement: Placement, sample: Sequence[pa.Array]) -> Shares:
    """Return the share of the files of a placement that a lookup opens, from rows of a sample."""
    files = placement.num_destinations
    if not len(sample[0]):
        return (1.0,) * len(sample)
    ranks = rank_columns(placement.columns, sample)
    destinations = placement.assign(sample)
    return tuple(
        _measure_column(ranks[:, column], destinations, files) for column in range(len(sample))
    )


def _measure_column(ranks: Integers, destinations: Integers, files: int) -> float:
    """Return the share of files whose range includes the value of a row.

    Nulls are not looked up.
    """
    is_value = ranks > 0
    ranks, destinations = ranks[is_value], destinations[is_value]
    if not len(ranks):
        return 0.0
    least, most = np.full(files, MAX_RANK), np.full(files, -1)
    np.minimum.at(least, destinations, ranks)
    np.maximum.at(most, destinations, ranks)
    has_values = most >= 0
    steps = np.bincount(least[has_values], minlength=MAX_RANK + 1)
    steps -= np.bincount(most[has_values] + 1, minlength=MAX_RANK + 1)
    return float(np.cumsum(steps)[ranks].mean()) / files


def survey_layout(snapshot: Snapshot) -> LayoutReport:
    """Estimate how many files a lookup skips.

    The columns are the clustering columns of the table, else those of the tags with most bytes.

    Raises:
        CorruptLogError: a partition value is not valid for the type of its column.
        UsageError: the table has no clustering columns.
    """
    ensure_columns(snapshot, "describe the layout", unless_empty=True)
    defined = clustering_columns(snapshot.domains)
    own = find_columns(snapshot, defined) if defined else None
    request = None if own is None else LayoutRequest("liquid", "hilbert", own)
    names = ["size_bytes", "partition_values", *(() if request else ("path", "tags"))]
    files = list(snapshot.file_batches(names))
    if request is None:
        request = _find_tagged(snapshot, files)
    kind = bounds_type(snapshot.metadata, request.paths)
    texts = (batch["stats"] for batch in snapshot.file_batches(["stats"]))
    bounds = pa.chunked_array(
        [chunk for text in texts for chunk in parse_stats(text, kind).chunks], kind
    )
    return ExpectedSkipping.of(request, bounds, _form_sets(snapshot, files)).report()


def _form_sets(snapshot: Snapshot, batches: Sequence[pa.Table]) -> RewrittenSets:
    """Return the partitions of the table, as if each is placed again."""
    if not batches:
        return RewrittenSets(np.empty(0, np.int64), np.empty(0, np.int64))
    files = pa.concat_tables(batches)
    groups = group_partitions(files["partition_values"], snapshot.metadata.partition_fields)
    sizes = pc.fill_null(files["size_bytes"], 0).to_numpy()
    _, totals = sum_groups(groups.ids, sizes, groups.num_groups)
    known = snapshot.properties.target_file_size
    target = choose_target_bytes(None, known, int(sizes.sum()))
    return RewrittenSets(groups.ids, count_outputs(totals, target))


def _find_tagged(snapshot: Snapshot, batches: Sequence[pa.Table]) -> LayoutRequest:
    """Return the layout with most bytes, from the tags of deltactl."""
    if batches:
        files = pa.concat_tables(batches)
        numbers, requests = number_layouts(snapshot, files)
        sizes = pc.fill_null(files["size_bytes"], 0).to_numpy()
        is_tagged = numbers >= 0
        _, totals = sum_groups(numbers[is_tagged], sizes[is_tagged], len(requests))
        if requests:
            return requests[int(totals.argmax())]
    raise UsageError(
        f"{option('layout')}: the table has no clustering columns",
        hint="Run `deltactl optimize TABLE --cluster-by COLUMNS --dry-run` to examine columns.",
    )
