"""Find live files that do not exist, among those that the commits of a plan added.

A commit that rewrites files, such as OPTIMIZE, adds files with the rows of those that it removes.
If an added file is lost, the removed ones have its rows, and a restore brings them back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import StorageError, UsageError
from deltactl.log.commits.events import CommitScan
from deltactl.log.lifetimes import Lifetimes
from deltactl.log.physical_names import locate, locate_or_keep
from deltactl.operations.missing_files import Missing, find_missing
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.spellings import distinct_names
from deltactl.storage.store import Store
from deltactl.units import format_count

_NONE: Final = pa.chunked_array([], pa.string())


def find_missing_adds(
    store: Store,
    scan: CommitScan,
    removable: pa.ChunkedArray,
    context: RunContext,
    listed: pa.ChunkedArray | None = None,
) -> pa.ChunkedArray:
    """Return names of live files and their vectors that do not exist, also outside the root.

    They are among those that commits added since the first commit that removed one of the
    ``removable`` names. Names that are ``listed`` exist. Warn of files outside the root that cannot
    be looked up.

    Raises:
        DeltactlError: it cannot be found out of a file below the root.
    """
    events = scan.events
    removes = events.filter(pc.invert(events["is_add"]))
    hit = pc.is_in(locate_or_keep(store, removes["path"]), value_set=removable)
    vectors = locate_or_keep(store, removes["vector_file"])
    hit = pc.or_(hit, pc.is_in(vectors, value_set=removable, skip_nulls=True))
    first = pc.min(removes["version"].filter(hit)).as_py()
    if first is None:
        return _NONE
    later = events.filter(pc.greater_equal(events["version"], first))
    lifetimes = Lifetimes.of(replace(scan, first=first, events=later), first)
    live = lifetimes.files.filter(pa.array(lifetimes.died > lifetimes.last))
    logged = distinct_names(live["path"], live["vector_file"].drop_null())
    located = locate(store, logged)
    names = located.drop_null()
    if listed is not None:
        names = names.filter(pc.invert(pc.is_in(names, value_set=listed)))
    missing = find_missing(store, [_unsized(names)], context, _NONE)
    outside = logged.filter(pc.is_null(located))
    if len(outside):
        missing += _find_outside(store, outside, context)
    return pa.chunked_array([[it.path for it in missing]], pa.string())


def _find_outside(store: Store, names: pa.ChunkedArray, context: RunContext) -> tuple[Missing, ...]:
    """Look for files outside the root; warn if this user cannot, such as in another account."""
    try:
        return find_missing(store, [_unsized(names)], context, everywhere=True)
    except (StorageError, UsageError) as error:
        files = format_count(len(names), "live file")
        context.warn(f"{files} outside the table directory could not be looked up: {error.message}")
        return ()


def _unsized(names: pa.ChunkedArray) -> pa.Table:
    nulls = pa.nulls(len(names), pa.int64())
    return pa.table({"path": names, "size_bytes": nulls, "deletion_vector": nulls})
