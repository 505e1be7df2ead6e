"""Find what the files of a table have of a feature.

Source: PROTOCOL.md; DROP FEATURE in Delta on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.features import DELETION_VECTORS, ROW_TRACKING

if TYPE_CHECKING:
    from deltactl.operations.optimize.plan import OptimizePlan

TRACES: Final = {DELETION_VECTORS.name: "deletion_vector", ROW_TRACKING.name: "base_row_id"}
"""Columns of file actions that are empty without a feature."""


def list_unmarked_vectors(snapshot: Snapshot) -> pa.ChunkedArray:
    """Return the files of deletion vectors of tombstones that have no tombstone themselves.

    Only files inside the table: no vacuum of it deletes others.
    """
    named, marked = [], []
    for batch in snapshot.tombstone_batches(("path", "deletion_vector")):
        marked.append(batch["path"])
        named.append(vector_files(batch["deletion_vector"]).drop_null())
    files = pc.unique(_chain(named))
    outside = pc.match_substring_regex(files, "^(?:/|[A-Za-z][A-Za-z0-9+.-]*:)")
    files = files.filter(pc.invert(outside))
    return pa.chunked_array([files.filter(pc.invert(pc.is_in(files, value_set=_chain(marked))))])


def _chain(arrays: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for array in arrays for chunk in array.chunks], pa.string())


def count_traces(snapshot: Snapshot, column: str) -> int:
    """Return the number of live files that have a value in a column."""
    batches = snapshot.file_batches(("path", column))
    return sum(batch.num_rows - batch[column].null_count for batch in batches)


def plan_rewrite(
    log: DeltaLog, snapshot: Snapshot, options: OptimizeOptions, now_ms: int
) -> OptimizePlan:
    """Return the files to rewrite, so that none has what is purged; may read footers.

    Raises:
        SafetyError: ``optimize`` leaves some of them as they are.
    """
    from deltactl.operations.optimize.plan import plan_optimize

    return plan_optimize(log, snapshot, options, now_ms, z_orders=ZOrderCommits())
