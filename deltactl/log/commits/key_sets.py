"""Hold the file actions of commits, above a limit on disk; find equal keys among them.

Many keys are compared by their hashes of 128 bits, with the key of this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.lazy import cached_property
from deltactl.log.commits.file_actions import file_keys, text_keys
from deltactl.log.keyed_hash import hash_pairs
from deltactl.numpy_types import Flags, Hashes, Integers
from deltactl.protocol.arrow_schemas import array_of
from deltactl.storage.local.spill import Spill

_FEW: Final = 1 << 13


@dataclass(frozen=True, slots=True)
class Repeats:
    """The rows whose key may occur more than once; equal keys, and only these, have equal codes.

    The keys of all other rows occur once.
    """

    rows: Integers
    codes: Integers


def find_repeated_hashes(first: Hashes, second: Hashes) -> Repeats:
    """Return the rows whose hash, given in two halves, may occur more than once.

    Keys are not compared. So the hashes must be those of :func:`hash_pairs`.
    """
    # Few keys occur twice. So sort one half of the hashes, and then only rows whose half repeats.
    ordered = np.sort(first)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        none = np.zeros(0, np.int64)
        return Repeats(none, none)
    place = np.minimum(np.searchsorted(twice, first), len(twice) - 1)
    rows = np.flatnonzero(twice[place] == first)
    order = np.lexsort((second[rows], first[rows]))
    halves = (half[rows][order] for half in (first, second))
    is_new = np.logical_or.reduce([np.diff(half, prepend=half[:1]) != 0 for half in halves])
    return Repeats(rows[order], np.cumsum(is_new))


class KeySet(Protocol):
    """A set of keys of :func:`file_keys`, or of ``text_keys``."""

    def __len__(self) -> int: ...

    def mask(self, keys: pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of the keys are in the set. The keys must not be null."""
        ...


def make_key_set(keys: Iterable[pa.ChunkedArray], first: Hashes, second: Hashes) -> KeySet:
    """Return the set of some keys; the hashes are those of :func:`hash_pairs`."""
    if len(first) > _FEW:
        return KeyHashes(first, second)
    return KeyTexts(pa.chunked_array([it for part in keys for it in part.chunks], pa.string()))


@dataclass(frozen=True)
class KeyTexts:
    """A set of few keys, which Arrow finds in less time than hashes of all other keys take."""

    texts: pa.ChunkedArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def mask(self, keys: pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of the keys are in the set."""
        found = pc.is_in(keys, value_set=self.texts)
        # concat_arrays refuses an empty list.
        return pa.concat_arrays([*found.chunks, pa.array([], pa.bool_())])


@dataclass(frozen=True)
class KeyHashes:
    """A set of keys without texts: hashes of 128 bits, with the key of this process."""

    first: Hashes = field(repr=False)
    second: Hashes = field(repr=False)

    def __len__(self) -> int:
        return len(self.first)

    def mask(self, keys: pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of the keys are in the set."""
        # Arrow would build a hash table of the whole set for each call.
        first, second, longest = self._order
        wanted = hash_pairs(keys)
        place = np.searchsorted(first, wanted[0])
        found = np.zeros(len(keys), np.bool_)
        # Keys with the same first half are adjacent: compare as many as the most frequent one has.
        for step in range(longest):
            at = np.minimum(place + step, len(first) - 1)
            found |= (first[at] == wanted[0]) & (second[at] == wanted[1])
        return array_of(found)

    @cached_property
    def _order(self) -> tuple[Hashes, Hashes, int]:
        """Return both halves, sorted by the first, and how often one first half occurs at most."""
        order = np.argsort(self.first)
        first = self.first[order]
        edges = np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1], [True]]))
        longest = int(np.diff(edges).max(initial=0)) if len(first) else 0
        return first, self.second[order], longest


@dataclass(frozen=True, slots=True)
class StoredRows:
    """File actions in parts, in the order of the log; ``kept``: which rows of each are included."""

    spill: Spill = field(repr=False)
    kept: Sequence[Flags] = field(repr=False)

    @property
    def num_rows(self) -> int:
        """Return the number of actions."""
        return sum(int(np.count_nonzero(mask)) for mask in self.kept)

    @property
    def table(self) -> pa.Table:
        """Return all actions, read into memory."""
        parts = list(self.batches(self.spill.schema.names))
        return pa.concat_tables([self.spill.schema.empty_table(), *parts])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the actions with the given columns, part by part. If there are none, yield nothing.

        Raises:
            StorageError: the file on disk cannot be read.
        """
        for number, mask in enumerate(self.kept):
            if mask.any():
                rows = pa.Table.from_batches(list(self.spill.read(number, columns)))
                rows = rows.select(columns)
                yield rows if mask.all() else rows.filter(array_of(mask))


class RowStore:
    """File actions of one kind: the first in memory, and on disk when there are too many.

    Facts for action reconciliation are in memory.
    """

    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        self._spill = Spill(schema, memory_bytes)
        self._counts: list[int] = []
        self._keys: list[tuple[Hashes, Hashes]] = []
        self._text_keys: list[tuple[Hashes, Hashes]] = []
        self.seq: list[Integers] = []
        """The ``seq`` of each action, in parts."""
        self.has_other_texts = False
        """Whether a path is not normalized. If so, ``text_keys`` differ from ``file_keys``."""

    def add(self, rows: pa.Table) -> None:
        """Add the next rows, which have a column ``seq``.

        Raises:
            StorageError: the disk is too small, full or failed.
        """
        keys, texts = file_keys(rows), text_keys(rows)
        hashes = hash_pairs(keys)
        is_other = not keys.equals(texts)
        self.has_other_texts |= is_other
        self._keys.append(hashes)
        # Nearly all paths are normalized. Then both lists share the hashes.
        self._text_keys.append(hash_pairs(texts) if is_other else hashes)
        # to_numpy would import pandas.
        self.seq += [np.asarray(np.from_dlpack(it), np.int64) for it in rows["seq"].chunks]
        stored = rows.select(self._spill.schema.names)
        self._spill.keep([(len(self._counts), it) for it in stored.to_batches()], stored.nbytes)
        self._counts.append(rows.num_rows)

    @property
    def num_rows(self) -> int:
        """Return the number of actions."""
        return sum(self._counts)

    def hashes(self, *, by_text: bool) -> Sequence[tuple[Hashes, Hashes]]:
        """Return the hash of each key, in two halves; the actions are in parts."""
        return self._text_keys if by_text else self._keys

    def select(self, won: Flags) -> StoredRows:
        """Return the rows for which the mask ``won`` is true."""
        ends = np.cumsum(np.array(self._counts, np.int64))
        # np.split also returns the rows after the last end: none.
        return StoredRows(self._spill, np.split(won, ends)[: len(ends)])


def join_hashes(stores: Sequence[RowStore], *, by_text: bool) -> tuple[Hashes, Hashes, Integers]:
    """Return, for all rows of the stores, both halves of the hash of the key, and ``seq``."""
    none, no_seq = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    parts = [it for store in stores for it in store.hashes(by_text=by_text)]
    first, second = (np.concatenate([none, *(it[half] for it in parts)]) for half in (0, 1))
    return first, second, np.concatenate([no_seq, *(it for store in stores for it in store.seq)])
