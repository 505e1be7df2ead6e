"""Find lost live files among those that the commits of a plan added."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import CommitScan
from deltactl.log.lifetimes import Lifetimes
from deltactl.log.physical_names import locate_or_keep, locate_rows, needs_mask
from deltactl.operations.losses import Losses, find_losses
from deltactl.operations.run_context import RunContext
from deltactl.operations.stored_files import Listing
from deltactl.operations.vacuum.spellings import distinct_names
from deltactl.storage.store import Store


def find_lost_adds(
    store: Store,
    scan: CommitScan,
    removable: pa.ChunkedArray,
    context: RunContext,
    listing: Listing | None = None,
) -> Losses:
    """Return the live files and their vectors that are lost, also outside the root.

    They are among those that commits added since the first commit that removed one of the
    ``removable`` names. Files that the ``listing`` has, with their sizes, are not looked up.

    Raises:
        DeltactlError: as ``find_losses``.
    """
    events = scan.events
    removes = events.filter(pc.invert(events["is_add"]))
    hit = needs_mask(locate_rows(store, removes), removable)
    first = pc.min(removes["version"].filter(hit)).as_py()
    if first is None:
        return Losses()
    later = events.filter(pc.greater_equal(events["version"], first))
    lifetimes = Lifetimes.of(replace(scan, first=first, events=later), first)
    live = lifetimes.files.filter(pa.array(lifetimes.died > lifetimes.last))
    vectors = distinct_names(live["vector_file"].drop_null())
    names = pa.chunked_array([*live["path"].chunks, *vectors.chunks], pa.string())
    no_sizes = pa.nulls(len(vectors), pa.int64())
    sizes = pa.chunked_array([*live["size_bytes"].chunks, no_sizes], pa.int64())
    files = pa.table({"path": locate_or_keep(store, names), "size_bytes": sizes})
    if listing is not None:
        files = _without_listed(files, listing)
    nothing = pa.nulls(files.num_rows, pa.int64())
    return find_losses(store, files.append_column("deletion_vector", nothing), context)


def _without_listed(files: pa.Table, listing: Listing) -> pa.Table:
    """Omit the files that a listing has, with the size of the log if the log has one."""
    places = pc.index_in(files["path"], value_set=listing.files)
    is_right = files["size_bytes"].is_null()
    if listing.sizes_bytes is not None:
        is_equal = pc.equal(files["size_bytes"], listing.sizes_bytes.take(places))
        is_right = pc.or_(is_right, pc.fill_null(is_equal, False))
    return files.filter(pc.invert(pc.and_(places.is_valid(), is_right)))
