"""Find clustered files: of liquid clustering, or of a Z-order commit of another tool."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.z_orders import ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags
from deltactl.operations.optimize.layout.tags import CUBE_TAG, is_laid_out
from deltactl.protocol.partitions import lookup_map
from deltactl.storage.names import is_local_uri

# Timestamps of files are from the clock of the writer, those of commits from the clock of the
# store.
_SKEW_MS: Final = 10 * 60 * 1000


def clustered_mask(
    log: DeltaLog, snapshot: Snapshot, files: pa.Table, z_orders: ZOrderCommits
) -> Flags:
    """Return a mask of clustered files: with a provider or tag, or from a Z-order commit.

    Delta on Spark does not tag Z-ordered files, so commits that are not older than the oldest file
    are searched. For a local table, all commits in the log are searched; on object stores, where
    each commit needs a request, only those that were read for the snapshot: ``z_orders`` visited
    them. Earlier Z-order commits are not found.
    """
    marked = pc.or_(
        files["clustering_provider"].is_valid(), lookup_map(files["tags"], CUBE_TAG).is_valid()
    )
    marked = pc.or_(marked, pa.array(is_laid_out(files)))
    oldest_ms = pc.min(files["modification_time_ms"]).as_py()
    if oldest_ms is not None:
        since_ms = oldest_ms - _SKEW_MS
        ordered = _z_ordered_paths(log, snapshot, since_ms, z_orders)
        marked = pc.or_(marked, pc.is_in(files["path"], value_set=ordered))
    return np.asarray(marked)


def _z_ordered_paths(
    log: DeltaLog, snapshot: Snapshot, since_ms: int, z_orders: ZOrderCommits
) -> pa.ChunkedArray:
    if not is_local_uri(log.uri):
        tail = snapshot.segment.tail_commits
        return z_orders.paths([v for v, file in tail.items() if file.modified_ms >= since_ms])

    def search() -> pa.ChunkedArray:
        versions = [
            version
            for version, file in sorted(log.commit_files.items())
            if version <= snapshot.version and file.modified_ms >= since_ms
        ]
        log.scan(versions, z_orders)
        return z_orders.paths(versions)

    return log.retry_after_cleanup(search)
