"""Find the versions in which each file was live, with one pass over the commits.

If a file has no action in the range of versions, it was live in all or in none of them. For every
other (path, deletion vector), the commits show the versions: a file is live from an ``add`` to a
``remove``. If its first action is a ``remove``, it was live before the range. But a ``remove`` of
the file of a deletion vector only protects this file: DROP FEATURE writes it, and no ``add`` has
its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import CommitScan
from deltactl.log.physical_names import needs_mask
from deltactl.numpy_types import Flags, Integers
from deltactl.protocol.vacuum_names import vector_mask

VersionRange: TypeAlias = tuple[int, int]
"""The first and the last version of a range."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """When files were live: each row of ``files`` in the versions ``born`` to ``died`` - 1.

    ``files`` has the columns ``path``, ``vector_file``, ``vector_end``, ``key`` and ``size_bytes``,
    as ``EVENTS``. ``first`` and ``last`` are the oldest and the newest version.
    """

    first: int
    last: int
    files: pa.Table = field(repr=False)
    born: Integers = field(repr=False)
    died: Integers = field(repr=False)

    @classmethod
    def of(cls, scan: CommitScan, first: int) -> Lifetimes:
        """Convert the events of the commits to lifetimes from version ``first`` on."""
        events = scan.events
        codes, order = _sort_events(events)
        version = events["version"].to_numpy()[order]
        is_add = np.asarray(events["is_add"].to_numpy(zero_copy_only=False))[order]
        codes = codes[order]
        starts_key = np.ones(len(codes), np.bool_)
        starts_key[1:] = codes[1:] != codes[:-1]
        ends_key = np.ones(len(codes), np.bool_)
        ends_key[:-1] = starts_key[1:]
        died = np.empty_like(version)
        died[:-1] = version[1:]
        died[ends_key] = scan.last + 1
        # If the first action on a file is a remove, the file was live before the range.
        was_there = starts_key & ~is_add
        paths = events["path"].take(pa.array(order[was_there]))
        was_there[was_there] = ~vector_mask(paths).to_numpy()
        born = np.where(was_there, first, version)
        died = np.where(was_there, version, died)
        # The scan may begin before the range.
        born = np.maximum(born, first)
        chosen = (is_add | was_there) & (born < died)
        columns = ["path", "vector_file", "vector_end", "key", "size_bytes"]
        files = events.select(columns).take(pa.array(order[chosen]))
        return cls(first, scan.last, files, born[chosen], died[chosen])

    def mask(self, names: pa.Array | pa.ChunkedArray) -> Flags:
        """Return a mask of the lifetimes whose data file or deletion vector is in ``names``."""
        return np.asarray(needs_mask(self.files, names).to_numpy(), np.bool_)

    def count(self, chosen: Flags, weights: Integers | None = None) -> Integers:
        """Return, for each version, the number (or total weight) of the chosen lifetimes in it."""
        changes = np.zeros(self.last - self.first + 2, np.int64)
        weight = 1 if weights is None else weights[chosen]
        np.add.at(changes, self.born[chosen] - self.first, weight)
        np.add.at(changes, self.died[chosen] - self.first, -weight)
        totals: Integers = np.cumsum(changes)[:-1]
        return totals


def added_by_text(scan: CommitScan) -> pa.Table:
    """Return the adds that no ``remove`` with the same path text follows.

    If all path texts are normalized, the result is empty. For readers that compare path texts as
    written, these files are still live. But if a writer normalizes paths, its checkpoints omit
    them.
    """
    events = scan.events
    if events["text_key"].equals(events["key"]):
        return events.slice(0, 0)
    codes, order = _sort_events(events, "text_key")
    codes = codes[order]
    is_last = np.ones(len(codes), np.bool_)
    is_last[:-1] = codes[1:] != codes[:-1]
    last = events.take(pa.array(order[is_last]))
    return last.filter(last["is_add"])


def _sort_events(events: pa.Table, key: str = "key") -> tuple[Integers, Integers]:
    """Return a number for each key, and the order of events by key and version.

    Within a version, removes come first: if a commit has both actions, the file is live after it.
    """
    if not events.num_rows:
        empty = np.zeros(0, np.int64)
        return empty, empty
    # In Arrow's own pool, huge pages make the growth of a large hash table several times slower.
    coded = pc.dictionary_encode(events[key], memory_pool=pa.system_memory_pool())
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks]).astype(np.int64)
    is_add = events["is_add"].to_numpy(zero_copy_only=False)
    return codes, np.lexsort((is_add, events["version"].to_numpy(), codes))


def version_ranges(first: int, flags: Flags) -> list[VersionRange]:
    """Return the ranges of versions whose flag is set.

    ``first`` is the version of the first flag.
    """
    padded = np.concatenate([[False], flags, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return [
        (first + int(a), first + int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)
    ]
