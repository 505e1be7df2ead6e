"""Estimate what lookups skip before and after a run with layouts, for dry runs and thresholds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Integers
from deltactl.operations.optimize.layout.expect import ExpectedSkipping
from deltactl.operations.optimize.plan import OptimizePlan
from deltactl.operations.predicate.parse import parse_predicate
from deltactl.operations.skipping.change import RewrittenSets
from deltactl.protocol.stats_decoding import bounds_type, parse_stats

_READ_COLUMNS = ("path", "partition_values", "stats")


def expect_skipping(snapshot: Snapshot, plan: OptimizePlan) -> ExpectedSkipping | None:
    """Return the shares for the columns of the layout; ``None`` without a layout.

    If layouts are kept, these are the columns of the first one. They are known only after all tags
    were read, so the statistics are read again.
    """
    layout = plan.layout
    if layout is None:
        return None
    metadata, request = snapshot.metadata, layout.request
    predicate = None
    if plan.predicate is not None:
        predicate = parse_predicate(plan.predicate, metadata.known_partition_fields)
    kind = bounds_type(metadata, request.paths)
    bounds: list[pa.Array] = []
    sets: list[Integers] = [np.empty(0, np.int64)]
    bins = plan.files["bin"].combine_chunks()
    for batch in snapshot.file_batches(_READ_COLUMNS):
        matched = batch
        if predicate is not None:
            matched = batch.filter(predicate.evaluate(batch["partition_values"]))
        bounds += parse_stats(matched["stats"], kind).chunks
        rows = pc.index_in(matched["path"], value_set=plan.files["path"])
        sets.append(pc.fill_null(pc.take(bins, rows), -1).to_numpy())
    others = frozenset(n for n, kept in enumerate(layout.requests) if kept not in (None, request))
    rewritten = RewrittenSets(np.concatenate(sets), np.array(layout.files_after, np.int64))
    return ExpectedSkipping.of(request, pa.chunked_array(bounds, kind), rewritten, others)
