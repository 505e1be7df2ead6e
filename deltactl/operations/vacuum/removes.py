"""Find what the commits in the log removed, and the change data files that they wrote."""

from __future__ import annotations

from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import CommitScan
from deltactl.log.physical_names import event_names, locate
from deltactl.log.snapshot import Snapshot
from deltactl.operations.stored_files import Listing, stat_files
from deltactl.protocol.vacuum_names import HiddenRule, below_mask, writer_mask
from deltactl.storage.store import Store


def removed_until(scan: CommitScan, version: int) -> pa.Table:
    """Return the remove actions of the commits up to and including a version."""
    events = scan.events
    return events.filter(
        pc.and_(pc.less_equal(events["version"], version), pc.invert(events["is_add"]))
    )


def has_late_tombstones(scan: CommitScan, current: int, cutoff_ms: int) -> bool:
    """Return whether a tombstone of a commit up to ``current`` is younger than the cutoff."""
    late = pc.greater_equal(removed_until(scan, current)["deletion_timestamp_ms"], cutoff_ms)
    return bool(pc.any(late).as_py())


def strange_removes(snapshot: Snapshot, scan: CommitScan) -> pa.Table:
    """Return the files that were removed and have a name that no Delta writer gives."""
    columns = ("path", "deletion_timestamp_ms", "size_bytes")
    removes = removed_until(scan, scan.last).select(columns)
    parts = []
    for batch in chain([removes], snapshot.tombstone_batches(columns)):
        names = locate(snapshot.store, batch["path"])
        strange = pc.and_(names.is_valid(), pc.invert(writer_mask(names.fill_null(""))))
        parts.append(batch.set_column(0, "path", names).filter(strange))
    found = (
        pa.concat_tables(parts)
        .group_by("path")
        .aggregate([("deletion_timestamp_ms", "max"), ("size_bytes", "min"), ("size_bytes", "max")])
    )
    is_one = pc.equal(found["size_bytes_min"], found["size_bytes_max"])
    sizes = pc.if_else(is_one, found["size_bytes_min"], None)
    return pa.table([found["path"], found["deletion_timestamp_ms_max"], sizes], names=list(columns))


def missing_removes(
    store: Store, scan: CommitScan, listing: Listing, hidden: HiddenRule
) -> pa.ChunkedArray:
    """Return names of removed files that no longer exist."""
    names = event_names(store, removed_until(scan, scan.last))
    names = names.filter(pc.invert(hidden.mask(names)))
    if not len(names):
        return names
    names = names.filter(pc.invert(pc.is_in(names, value_set=listing.files)))
    is_link = pc.is_in(names, value_set=pa.array(listing.links, pa.string()))
    linked = names.filter(pc.or_(is_link, below_mask(names, listing.links)))
    found = stat_files(store, linked)["path"]  # no listing follows links
    return names.filter(pc.invert(pc.is_in(names, value_set=found)))


def change_files(store: Store, scan: CommitScan, last: int) -> pa.ChunkedArray:
    """Return the names of the change data files up to a version."""
    changes = scan.change_files.filter(pc.less_equal(scan.change_files["version"], last))
    return locate(store, changes["path"]).drop_null()
