"""The time-travel horizon: which versions can be read, and which a vacuum would end."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.lifetimes import Counts, Flags, LogSweep, Stretches, version_ranges
from deltactl.log.physical_names import locate
from deltactl.storage.store import Store

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Horizon:
    """Ranges of versions, both ends included.

    ``readable`` are those readable now, as far as is known; ``ends`` those of them that the run
    would end. Keeping all of those would take ``cost_bytes``; ``costs`` has for the newest of them
    the bytes that each needs by itself.
    """

    first_version: int
    last_version: int
    readable: tuple[Range, ...] = ()
    ends: tuple[Range, ...] = ()
    cost_bytes: int = 0
    costs: tuple[tuple[int, int], ...] = field(default=(), repr=False)


_SHOWN_COSTS = 100


def place_stretches(store: Store, stretches: Stretches) -> Stretches:
    """The stretches with physical names in place of the log's; outside the root: null."""
    files = stretches.files
    for column in ("path", "vector_file"):
        position = files.schema.get_field_index(column)
        files = files.set_column(position, column, locate(store, files[column]))
    return Stretches(stretches.first, stretches.last, files, stretches.born, stretches.died)


def find_horizon(
    store: Store,
    sweep: LogSweep,
    first: int,
    planned: pa.Table,
    missing: pa.ChunkedArray | None,
) -> Horizon:
    """What deleting ``planned`` files would do to the versions from ``first`` on.

    Args:
        store: the table's.
        sweep: what the commits say; they begin after, or at, ``first``.
        first: the oldest version that the log can rebuild.
        planned: files with ``path`` and ``size_bytes``.
        missing: names known not to be there any more.
    """
    stretches = place_stretches(store, Stretches.of(sweep, first))
    now_gone = np.zeros(len(stretches.born), np.bool_)
    if missing is not None and len(missing):
        now_gone = stretches.mask(missing)
    hit = stretches.mask(planned["path"].combine_chunks())
    readable = stretches.count(now_gone) == 0
    ends = readable & (stretches.count(hit) > 0)
    costs = _costs(stretches, hit, planned)
    ended = np.flatnonzero(ends)[-_SHOWN_COSTS:]
    return Horizon(
        first,
        stretches.last,
        tuple(version_ranges(first, readable)),
        tuple(version_ranges(first, ends)),
        _needed_bytes(stretches, hit, ends, planned),
        tuple((first + int(v), int(costs[v])) for v in ended[::-1]),
    )


def _costs(stretches: Stretches, hit: Flags, planned: pa.Table) -> Counts:
    """Bytes of planned files that each version needs; vectors are too small to count."""
    sizes = _planned_sizes(stretches, planned)
    return stretches.count(hit, sizes)


def _planned_sizes(stretches: Stretches, planned: pa.Table) -> Counts:
    index = pc.index_in(stretches.files["path"], value_set=planned["path"].combine_chunks())
    sizes: Counts = pc.fill_null(planned["size_bytes"].take(index), 0).to_numpy()
    return sizes


def _needed_bytes(
    stretches: Stretches,
    hit: Flags,
    ends: Flags,
    planned: pa.Table,
) -> int:
    """Bytes of the planned files that the ended versions need, each file once."""
    before = np.concatenate([[0], np.cumsum(ends)])
    born = stretches.born - stretches.first
    died = stretches.died - stretches.first
    needed = hit & (before[died] - before[born] > 0)
    paths = pc.unique(stretches.files["path"].filter(pa.array(needed)).drop_null())
    chosen = planned.filter(pc.is_in(planned["path"], value_set=paths))
    return int(pc.sum(chosen["size_bytes"]).as_py() or 0)
