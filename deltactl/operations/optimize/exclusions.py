"""Find the layout of each partition, and exclude files that need no rewrite: the second step."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import ZOrderCommits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Flags
from deltactl.operations.optimize.candidates import Candidates
from deltactl.operations.optimize.layout.plan import ClusterLimit, ExistingLayout
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.operations.optimize.layout.tags import CUBE_TAG, is_clustered_otherwise, is_laid_out
from deltactl.operations.optimize.options import NOTHING_TO_PURGE, OptimizeOptions
from deltactl.operations.optimize.packing import PackingRule
from deltactl.operations.optimize.purged_files import purge_mask
from deltactl.option_names import option
from deltactl.protocol.partitions import lookup_map
from deltactl.storage.names import is_local_uri

TARGET_TAG: Final = "deltactl.targetFileSize"
"""Tag of an output: the target size in bytes at the time of writing."""

IN_LAYOUT: Final = "already in this layout"

# Timestamps of files are from the clock of the writer, those of commits from the clock of the
# store.
_SKEW_MS: Final = 10 * 60 * 1000


def exclude_files(
    candidates: Candidates,
    log: DeltaLog,
    snapshot: Snapshot,
    options: OptimizeOptions,
    *,
    request: LayoutRequest | None,
    rule: PackingRule,
    z_orders: ZOrderCommits,
) -> tuple[ExistingLayout, ClusterLimit]:
    """Return the layout of each partition; exclude files that need no rewrite.

    The layout is that of ``request``, else that of the tags. Return also the limit of a cluster.
    """
    files, groups = candidates.files, candidates.groups
    if request is not None:
        layouts = ExistingLayout.of_request(files, groups, request)
    elif options.keeps_layouts:
        layouts = ExistingLayout.of_tags(snapshot, files, groups)
    else:
        layouts = ExistingLayout.none(files, groups)
    divides = bool(layouts.is_laid.any()) and not (request is not None and request.kind == "zorder")
    limit = ClusterLimit.of(options.max_bytes, rule.target_bytes, divides=divides)
    if options.purge:
        wanted = purge_mask(snapshot, files, options.purged)
        candidates.leave(~wanted, NOTHING_TO_PURGE)
        candidates.forced = wanted
    elif request is None:
        clustered = clustered_mask(log, snapshot, files, z_orders) & ~layouts.is_placed
        candidates.leave(
            clustered,
            f"clustered or Z-ordered (rewrite with {option('cluster_by')} or "
            f"{option('full', True)})",
        )
        _leave_unless_small(candidates, options, layouts, rule, limit)
    elif not options.places_again:
        if request.kind != "zorder":
            candidates.outgrown = _find_outgrown(candidates, layouts, rule)
        _leave_placed(candidates, options, request, layouts, limit)
    return layouts, limit


def _find_outgrown(candidates: Candidates, layouts: ExistingLayout, rule: PackingRule) -> Flags:
    """Return the files to merge because the target size is at least twice that of their run.

    So a file is written again at most once for each doubling, also if the target size of a growing
    table rises each day.
    """
    tags = lookup_map(candidates.files["tags"], TARGET_TAG)
    is_size = pc.fill_null(pc.match_substring_regex(tags, r"^\d{1,18}$"), False)
    known = pc.cast(pc.if_else(is_size, tags, None), pa.int64())
    is_old = pc.fill_null(pc.less_equal(known, rule.target_bytes // 2), False).to_numpy()
    return np.asarray(layouts.is_placed & is_old & (candidates.sizes <= rule.most_bytes))


def _leave_unless_small(
    candidates: Candidates,
    options: OptimizeOptions,
    layouts: ExistingLayout,
    rule: PackingRule,
    limit: ClusterLimit,
) -> None:
    """Exclude large files, except new files of a partition with a layout.

    If a cluster fills more than one file, its files are merged only for another target size.
    Otherwise each run would write them again.
    """
    files, sizes = candidates.files, candidates.sizes
    candidates.forced = _over_ratio(files, options.max_deleted_rows_ratio)
    of_target = pc.equal(lookup_map(files["tags"], TARGET_TAG), str(rule.target_bytes))
    candidates.settled = pc.fill_null(of_target, False).to_numpy()
    is_large = sizes >= rule.min_bytes
    finished = layouts.find_finished(sizes, limit.finished(rule.min_bytes)) & candidates.settled
    placed = layouts.is_placed & (is_large | finished)
    candidates.leave(placed & ~candidates.forced, IN_LAYOUT)
    new_in_layout = layouts.is_laid[candidates.groups.ids]
    candidates.leave(is_large & ~new_in_layout & ~candidates.forced, "large enough")


def _leave_placed(
    candidates: Candidates,
    options: OptimizeOptions,
    request: LayoutRequest,
    layouts: ExistingLayout,
    limit: ClusterLimit,
) -> None:
    """Exclude files that have the requested layout already."""
    if request.kind == "liquid" and not options.full:
        otherwise = is_clustered_otherwise(candidates.files, request)
        candidates.leave(
            otherwise, f"clustered by other columns (rewrite with {option('full', True)})"
        )
    candidates.forced = _over_ratio(candidates.files, options.max_deleted_rows_ratio)
    if request.kind != "zorder":
        least = limit.finished(options.min_cluster_bytes)
        finished = layouts.find_finished(candidates.sizes, least)
        is_left = finished & ~candidates.outgrown & ~candidates.forced
        candidates.leave(is_left, "in a finished cluster")


def _over_ratio(files: pa.Table, ratio: float) -> Flags:
    """Return files with more than ``ratio`` of their rows deleted, or an unknown ratio."""
    vectors = files["deletion_vector"]
    deleted = pc.cast(pc.struct_field(vectors, "cardinality"), pa.float64(), safe=False)
    share = pc.divide(deleted, pc.cast(files["num_records"], pa.float64(), safe=False))
    over = pc.if_else(pc.is_null(share), vectors.is_valid(), pc.greater(share, ratio))
    return np.asarray(pc.fill_null(over, False))


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
        tail = enumerate(snapshot.segment.tail, snapshot.segment.checkpoint_version + 1)
        return z_orders.paths([v for v, file in tail if file.modified_ms >= since_ms])

    def search() -> pa.ChunkedArray:
        versions = [
            version
            for version, file in sorted(log.commit_files.items())
            if version <= snapshot.version and file.modified_ms >= since_ms
        ]
        log.scan(versions, z_orders)
        return z_orders.paths(versions)

    return log.retry_after_cleanup(search)
