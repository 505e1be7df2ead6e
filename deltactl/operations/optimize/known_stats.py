"""Merge statistics of inputs that cannot be computed when their rows are written again.

These are the bounds of variants, and the null counts of lists and maps in columns that are not
decoded. If a reader can skip the output because of them, it could skip every input before.

For bounds of types that are not decoded, PROTOCOL.md defines no order: they are omitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from deltactl.log.snapshot import Snapshot
from deltactl.operations.optimize.undecoded import UndecodedColumns
from deltactl.protocol.stats import FieldPath, LeafStats
from deltactl.protocol.stats_columns import StatsLeaf, choose_stats_columns
from deltactl.protocol.stats_decoding import stats_type
from deltactl.protocol.variant_bounds import merge_variant_bounds


def mergeable_leaves(snapshot: Snapshot) -> tuple[StatsLeaf, ...]:
    """Return the leaves whose statistics are merged."""
    undecoded = UndecodedColumns.of(snapshot.metadata).names
    leaves = choose_stats_columns(snapshot.metadata, snapshot.protocol).leaves
    return tuple(
        leaf
        for leaf in leaves
        if leaf.kind == "variant" or (leaf.kind == "nested" and leaf.path[0] in undecoded)
    )


def known_stats_type(leaves: Sequence[StatsLeaf]) -> pa.StructType:
    """Return the type of the statistics of an input that are needed to merge these leaves."""
    bounds = {leaf.path: pa.string() for leaf in leaves if leaf.kind == "variant"}
    nulls = [leaf.path for leaf in leaves if leaf.kind == "nested"]
    return stats_type(bounds, nulls, tight=True)


def merge_known_stats(
    leaves: Sequence[StatsLeaf], inputs: Sequence[Mapping[str, Any] | None]
) -> dict[FieldPath, LeafStats]:
    """Return the statistics of a file with all rows of the inputs; unknown ones are omitted.

    Bounds that are not tight are omitted, because those of an output are.
    """
    known = [stats for stats in inputs if stats is not None and stats["tightBounds"] is not False]
    if not known or len(known) < len(inputs):
        return {}
    merged = {}
    for leaf in leaves:
        if leaf.kind == "variant":
            pairs = [(_at(s["minValues"], leaf), _at(s["maxValues"], leaf)) for s in known]
            if (bounds := merge_variant_bounds(pairs)) is not None:
                merged[leaf.path] = LeafStats(None, *bounds)
        else:
            nulls = [_at(stats["nullCount"], leaf) for stats in known]
            rows = [stats["numRecords"] for stats in known]
            if all(
                n is not None and row is not None and 0 <= n <= row
                for n, row in zip(nulls, rows, strict=True)
            ):
                merged[leaf.path] = LeafStats(sum(nulls))
    return merged


def _at(node: Any, leaf: StatsLeaf) -> Any:
    for name in leaf.path:
        node = None if node is None else node[name]
    return node
