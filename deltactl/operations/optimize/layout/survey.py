"""Estimate how many files lookups skip, for ``describe-detail --layout``, from the log only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import UsageError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.optimize.layout.clusters import count_outputs
from deltactl.operations.optimize.layout.expect import ExpectedSkipping
from deltactl.operations.optimize.layout.request import (
    LayoutColumn,
    LayoutRequest,
    find_columns,
    resolve_columns,
)
from deltactl.operations.optimize.layout.tags import number_layouts
from deltactl.operations.optimize.options import DEFAULT_LAYOUT, Layout
from deltactl.operations.partition_groups import group_partitions
from deltactl.operations.skipping.change import RewrittenSets
from deltactl.operations.skipping.report import LayoutReport
from deltactl.operations.target_size import choose_target_bytes
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.stats_decoding import bounds_type, parse_stats

OPTION: Final = "--layout"
_READ_COLUMNS: Final = ("path", "size_bytes", "partition_values", "tags", "stats")


class LayoutSurvey:
    """Collect statistics while the snapshot is streamed.

    Then estimate how many files a lookup skips. The columns are the given ones, else the clustering
    columns of the table, else those of the tags with most bytes. In the last case, statistics are
    read after the tags.
    """

    def __init__(self, snapshot: Snapshot, columns: str | None) -> None:
        """Choose the columns, if the tags are not needed for this.

        Raises:
            SafetyError: no query skips files by a given column.
            UsageError: a given column cannot be used.
        """
        ensure_columns(snapshot, "describe the layout", unless_empty=True)
        self._snapshot = snapshot
        self._request = _choose_request(snapshot, columns)
        self.columns: Sequence[str] = _READ_COLUMNS[:-1] if self._request is None else _READ_COLUMNS
        """The columns of files to read."""
        self._files: list[pa.Table] = []
        self._bounds: list[pa.Array] = []

    def add(self, batch: pa.Table) -> None:
        """Add the next files: statistics are kept as typed columns, not as text."""
        if self._request is not None:
            self._bounds += self._parse(batch, self._request)
            batch = batch.drop_columns(["stats", "path", "tags"])
        self._files.append(batch)

    def report(self) -> LayoutReport:
        """Return the shares of files that lookups skip.

        Raises:
            UsageError: the table has no clustering columns.
            CorruptLogError: a partition value is not valid for the type of its column.
        """
        if self._request is None:
            self._request = _find_tagged(self._snapshot, self._files)
            for batch in self._snapshot.file_batches(["stats"]):
                self._bounds += self._parse(batch, self._request)
        metadata = self._snapshot.metadata
        kind = bounds_type(metadata, self._request.paths)
        sets = self._form_sets()
        bounds = pa.chunked_array(self._bounds, kind)
        return ExpectedSkipping.of(self._request, bounds, sets).report()

    def _parse(self, batch: pa.Table, request: LayoutRequest) -> list[pa.Array]:
        kind = bounds_type(self._snapshot.metadata, request.paths)
        return list(parse_stats(batch["stats"], kind).chunks)

    def _form_sets(self) -> RewrittenSets:
        """Return the partitions of the table, as if each is placed again."""
        if not self._files:
            return RewrittenSets(np.empty(0, np.int64), np.empty(0, np.int64))
        files = pa.concat_tables(self._files)
        fields = self._snapshot.metadata.partition_fields
        groups = group_partitions(files["partition_values"], fields)
        sizes = pc.fill_null(files["size_bytes"], 0).to_numpy()
        totals = np.zeros(groups.num_groups, np.int64)
        np.add.at(totals, groups.ids, sizes)
        known = self._snapshot.properties.target_file_size
        target = choose_target_bytes(None, known, int(sizes.sum()))
        return RewrittenSets(groups.ids, count_outputs(totals, target))


def _choose_request(snapshot: Snapshot, columns: str | None) -> LayoutRequest | None:
    defined = clustering_columns(snapshot.domains)
    if columns is not None:
        chosen = resolve_columns(snapshot, OPTION, columns)
        is_defined = tuple(column.path for column in chosen) == defined
        return _request(chosen, "hilbert" if is_defined else DEFAULT_LAYOUT)
    own = find_columns(snapshot, defined) if defined else None
    return None if own is None else _request(own, "hilbert")


def _request(columns: tuple[LayoutColumn, ...], layout: Layout) -> LayoutRequest:
    return LayoutRequest("liquid" if layout == "hilbert" else "cluster", layout, columns)


def _find_tagged(snapshot: Snapshot, batches: Sequence[pa.Table]) -> LayoutRequest:
    """Return the layout with most bytes, from the tags of deltactl."""
    if batches:
        files = pa.concat_tables(batches)
        numbers, requests = number_layouts(snapshot, files)
        sizes = pc.fill_null(files["size_bytes"], 0).to_numpy()
        totals = np.zeros(len(requests) + 1, np.int64)  # the last is for files without a layout
        np.add.at(totals, numbers, sizes)
        if requests:
            return requests[int(totals[:-1].argmax())]
    raise UsageError(
        f"{OPTION}: the table has no clustering columns",
        hint="Run `deltactl describe-detail TABLE COLUMNS --layout` with the columns to examine.",
    )
