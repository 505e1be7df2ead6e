"""Warn of versions that a vacuum is to keep, and that cannot be read completely any more."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import CommitScan
from deltactl.log.lifetimes import Lifetimes, version_ranges
from deltactl.log.physical_names import event_names, locate_rows, needs_mask
from deltactl.numpy_types import Flags
from deltactl.operations.run_context import RunContext
from deltactl.operations.stored_files import stat_files
from deltactl.storage.store import Store
from deltactl.units import format_count


def warn_of_lost_versions(
    store: Store,
    scan: CommitScan,
    kept: Iterable[int],
    context: RunContext,
    listed: pa.ChunkedArray,
) -> None:
    """Warn if a file below the root that a kept version needs was removed and does not exist.

    ``scan`` has all commits after the oldest of the ``kept`` versions. Names that are ``listed``
    exist.
    """
    versions = np.array(sorted(kept), np.int64)
    if not len(versions):
        return
    first = int(versions[0])
    lifetimes = Lifetimes.of(scan, first)
    is_kept = np.zeros(lifetimes.last - first + 2, np.bool_)
    is_kept[versions - first] = True
    before = np.concatenate([[0], np.cumsum(is_kept)])
    needed = before[lifetimes.died - first] > before[lifetimes.born - first]
    removed: Flags = needed & (lifetimes.died <= lifetimes.last)
    files = lifetimes.files.filter(pa.array(removed))
    names = event_names(store, files)
    names = names.filter(pc.invert(pc.is_in(names, value_set=listed)))
    names = names.filter(pc.invert(pc.is_in(names, value_set=stat_files(store, names)["path"])))
    if not len(names):
        return
    hit = np.asarray(needs_mask(locate_rows(store, lifetimes.files), names).to_numpy(), np.bool_)
    is_lost = is_kept[: lifetimes.last - first + 1] & (lifetimes.count(hit & removed) > 0)
    ranges = [str(a) if a == b else f"{a}-{b}" for a, b in version_ranges(first, is_lost)]
    gone = format_count(len(pc.unique(names)), "file does", "files do")
    context.warn(
        f"versions to keep cannot be read completely any more ({', '.join(ranges)}): {gone} not "
        f"exist, such as {names[0].as_py()!r}. Run `deltactl describe-history TABLE --restorable` "
        "to see which versions have all their files"
    )
