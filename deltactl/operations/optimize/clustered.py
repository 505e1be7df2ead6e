"""Find clustered files: of liquid clustering, or of a Z-order commit of another tool."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ObjectNotFoundError
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.z_orders import ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import is_compacted
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags
from deltactl.operations.optimize.layout.tags import CUBE_TAG, is_laid_out
from deltactl.protocol.partitions import lookup_map
from deltactl.storage.names import is_local_uri
from deltactl.storage.store import FileInfo, Store

# Timestamps of files are from the clock of the writer, those of commits from the clock of the
# store.
_SKEW_MS: Final = 10 * 60 * 1000


def clustered_mask(log: DeltaLog, snapshot: Snapshot, files: pa.Table) -> Flags:
    """Return a mask of clustered files: with a provider or tag, or from a Z-order commit.

    Delta on Spark does not tag Z-ordered files, so commits that are not older than the oldest file
    are searched. For a local table, all commits in the log are searched; on object stores, where
    each commit needs a request, only those since the checkpoint. Earlier Z-order commits are not
    found.
    """
    marked = pc.or_(
        files["clustering_provider"].is_valid(), lookup_map(files["tags"], CUBE_TAG).is_valid()
    )
    marked = pc.or_(marked, pa.array(is_laid_out(files)))
    oldest_ms = pc.min(files["modification_time_ms"]).as_py()
    if oldest_ms is not None:
        ordered = _z_ordered_paths(log, snapshot, oldest_ms)
        marked = pc.or_(marked, pc.is_in(files["path"], value_set=ordered))
    return np.asarray(marked)


def _z_ordered_paths(log: DeltaLog, snapshot: Snapshot, oldest_ms: int) -> pa.Array:
    known = snapshot.tail.z_orders or ZOrderCommits()
    first = 0
    if not is_local_uri(snapshot.store.uri):
        tail = [info for info in snapshot.segment.tail if not is_compacted(info.name)]
        with suppress(ObjectNotFoundError):
            return _paths_in(snapshot.store, known, tail, oldest_ms)
        # A log cleanup deleted a commit during the search: continue with the others.
        first = snapshot.segment.checkpoint_version + 1

    def search() -> pa.Array:
        commits = sorted(log.listing.commits.items())
        chosen = [info for version, info in commits if first <= version <= snapshot.version]
        return _paths_in(snapshot.store, known, chosen, oldest_ms)

    return log.retry_after_cleanup(search)


def _paths_in(
    store: Store, known: ZOrderCommits, commits: Sequence[FileInfo], oldest_ms: int
) -> pa.Array:
    """Return the paths of the files that Z-order commits among these added.

    Raises:
        ObjectNotFoundError: a commit no longer exists.
    """
    names = [info.name for info in commits if info.modified_ms >= oldest_ms - _SKEW_MS]
    unread = [name for name in names if not known.has(name)]
    known.parse(
        CommitBytes(name, data) for name, data in zip(unread, store.read_many(unread), strict=True)
    )
    return known.paths(names)
