"""Compute row count, null counts and bounds from the rows of a data file.

One batch of rows is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltactl.parquet.data_file import DataFile
from deltactl.parquet.facts import select_leaf
from deltactl.parquet.footer import decode_bound
from deltactl.parquet.reader import RowReader
from deltactl.protocol.deletion_vectors import live_mask
from deltactl.protocol.stats import FieldPath, LeafStats, Value
from deltactl.protocol.stats_columns import StatsLeaf
from deltactl.storage.store import Store


@dataclass(slots=True)
class Measured:
    """Counts of a file. Only ``num_rows`` and ``stored_nulls`` include deleted rows.

    ``leaves`` has the null counts and bounds of live rows, in the form of ``LeafStats``; bounds
    exclude NaN; ``with_nan`` are the leaves that have it in a live row. A string that is not UTF-8
    is no bound: then the bound is unknown.
    """

    num_rows: int = 0
    num_live: int = 0
    leaves: dict[FieldPath, LeafStats] = field(default_factory=dict)
    stored_nulls: dict[FieldPath, int] = field(default_factory=dict)
    with_nan: set[FieldPath] = field(default_factory=set)


def measure_file(
    store: Store,
    reader: RowReader,
    file: DataFile,
    leaves: Sequence[StatsLeaf],
    deleted: BitMap64 | None = None,
) -> Measured:
    """Read a whole file; return row counts, null counts and bounds.

    Args:
        store: the store of the table.
        reader: reads columns by physical names; its columns must include all ``leaves``.
        file: the file; its deletion vector is ignored.
        leaves: the leaves whose nulls are counted and whose bounds are computed.
        deleted: positions of deleted rows.

    Raises:
        DataFileError: the file cannot be read, or cannot be read with the types of the table.
    """
    found = Measured(
        leaves={leaf.path: LeafStats(0) for leaf in leaves},
        stored_nulls={leaf.path: 0 for leaf in leaves},
    )
    for batch in reader.read_physical(store, file):
        mask = (
            None
            if deleted is None
            else live_mask(deleted, batch.first_row, batch.num_physical_rows)
        )
        live = batch.columns if mask is None else batch.columns.filter(mask)
        found.num_rows += batch.num_physical_rows
        found.num_live += batch.num_physical_rows if mask is None else pc.sum(mask).as_py() or 0
        for leaf in leaves:
            found.stored_nulls[leaf.path] += select_leaf(batch.columns, leaf.path).null_count
            values = select_leaf(live, leaf.path)
            found.leaves[leaf.path] = _merge(found.leaves[leaf.path], values, leaf)
            if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
                found.with_nan.add(leaf.path)
    for path, stats in found.leaves.items():
        low, high = decode_bound(stats.minimum), decode_bound(stats.maximum)
        found.leaves[path] = LeafStats(stats.null_count, low, high)
    return found


def _merge(before: LeafStats, values: pa.Array, leaf: StatsLeaf) -> LeafStats:
    nulls = (before.null_count or 0) + values.null_count
    if not leaf.has_bounds or values.null_count == len(values):
        return LeafStats(nulls, before.minimum, before.maximum)
    bounds = pc.min_max(_comparable(values)).as_py()
    return LeafStats(
        nulls,
        _choose(min, before.minimum, bounds["min"]),
        _choose(max, before.maximum, bounds["max"]),
    )


def _comparable(values: pa.Array) -> pa.Array:
    """Return timestamps as microseconds, dates as days, strings as bytes; NaN becomes null."""
    kind = values.type
    if pa.types.is_string(kind):
        return values.cast(pa.binary())
    if pa.types.is_timestamp(kind):
        return values.view(pa.int64())
    if pa.types.is_date32(kind):
        return values.view(pa.int32())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
    return values


def _choose(choose: Any, before: Value | None, value: Value | None) -> Value | None:
    known = [v for v in (before, value) if v is not None]
    chosen: Value | None = choose(known) if known else None
    return chosen
