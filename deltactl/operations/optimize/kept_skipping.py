"""Estimate what lookups skip before and after a plain run that keeps layouts, for a dry run."""

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


def expect_kept_skipping(
    snapshot: Snapshot, plan: OptimizePlan, where: str | None
) -> ExpectedSkipping | None:
    """Return the shares for the columns of the first layout that is kept; ``None`` if none is.

    The columns are known only after all tags were read, so the statistics are read again.
    """
    layout = plan.layout
    if layout is None or plan.is_empty:
        return None
    metadata, request = snapshot.metadata, layout.request
    predicate = None
    if where is not None:
        predicate = parse_predicate(where, metadata.known_partition_fields)
    kind = bounds_type(metadata, request.paths)
    bounds: list[pa.Array] = []
    sets: list[Integers] = []
    bins = plan.files["bin"].combine_chunks()
    for batch in snapshot.file_batches(_READ_COLUMNS):
        matched = batch
        if predicate is not None:
            matched = batch.filter(predicate.evaluate(batch["partition_values"]))
        bounds += parse_stats(matched["stats"], kind).chunks
        rows = pc.index_in(matched["path"], value_set=plan.files["path"])
        numbers = pc.fill_null(pc.take(bins, rows), -1)
        sets.append(numbers.to_numpy())
    others = frozenset(n for n, kept in enumerate(layout.requests) if kept not in (None, request))
    rewritten = RewrittenSets(np.concatenate(sets), np.asarray(layout.files_after, np.int64))
    return ExpectedSkipping.of(request, pa.chunked_array(bounds, kind), rewritten, others)
