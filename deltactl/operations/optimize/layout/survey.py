"""Estimate how many files lookups skip, for ``describe-detail --layout``, from the log only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import UsageError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.optimize.layout.expect import ExpectedSkipping
from deltactl.operations.optimize.layout.plan import count_outputs
from deltactl.operations.optimize.layout.request import (
    LayoutColumn,
    LayoutRequest,
    find_columns,
    resolve_columns,
)
from deltactl.operations.optimize.layout.tags import number_layouts
from deltactl.operations.optimize.options import DEFAULT_LAYOUT, Layout
from deltactl.operations.partition_groups import group_partitions
from deltactl.operations.skipping.lookups import RewrittenSets
from deltactl.operations.skipping.report import LayoutReport
from deltactl.operations.target_size import choose_target_bytes
from deltactl.option_names import option
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.column_names import Columns
from deltactl.protocol.stats_decoding import bounds_type, parse_stats


def survey_layout(snapshot: Snapshot, columns: Columns | None = None) -> LayoutReport:
    """Estimate how many files a lookup skips.

    The columns are the given ones, else the clustering columns of the table, else those of the tags
    with most bytes.

    Raises:
        CorruptLogError: a partition value is not valid for the type of its column.
        SafetyError: no query skips files by a given column.
        UsageError: a given column cannot be used, or the table has no clustering columns.
    """
    ensure_columns(snapshot, "describe the layout", unless_empty=True)
    request = _choose_request(snapshot, columns)
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
    totals = np.zeros(groups.num_groups, np.int64)
    np.add.at(totals, groups.ids, sizes)
    known = snapshot.properties.target_file_size
    target = choose_target_bytes(None, known, int(sizes.sum()))
    return RewrittenSets(groups.ids, count_outputs(totals, target))


def _choose_request(snapshot: Snapshot, columns: Columns | None) -> LayoutRequest | None:
    defined = clustering_columns(snapshot.domains)
    if columns is not None:
        chosen = resolve_columns(snapshot, option("layout"), columns)
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
        f"{option('layout')}: the table has no clustering columns",
        hint="Run `deltactl describe-detail TABLE COLUMNS --layout` with the columns to examine.",
    )
