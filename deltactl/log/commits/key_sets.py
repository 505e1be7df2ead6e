"""Find out which keys of files are among the keys of the log's tail."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.repeats import hash_texts
from deltactl.log.keyed_hash import Hashes, hash_pairs
from deltactl.protocol.arrow_schemas import array_of

_FEW: Final = 1 << 13

Flags = np.ndarray[Any, np.dtype[np.bool_]]


class KeySet(Protocol):
    """A set of keys of :func:`file_keys`, or of ``text_keys``."""

    def __len__(self) -> int: ...

    def mask(self, keys: pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of the keys are in the set. The keys must not be null."""
        ...


@dataclass(frozen=True)
class KeyTexts:
    """A set of keys and their texts. Hashes only choose which texts to compare."""

    texts: pa.ChunkedArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def mask(self, keys: pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of the keys are in the set."""
        if len(self) <= _FEW:
            return _are_in(keys, self.texts)
        # Arrow would build a hash table of the whole set in each call.
        order, ordered = self._order
        hashes = hash_texts(keys)
        first = np.searchsorted(ordered, hashes)
        may = ordered[np.minimum(first, len(ordered) - 1)] == hashes
        if not may.any():
            return array_of(may)
        wanted = np.unique(hashes[may])
        rows = order[_ranges(np.searchsorted(ordered, wanted), ordered, wanted)]
        found = _are_in(keys.filter(array_of(may)), self.texts.take(array_of(np.sort(rows))))
        may[may] = found.to_numpy(zero_copy_only=False)
        return array_of(may)

    @cached_property
    def _order(self) -> tuple[npt.NDArray[np.int64], Hashes]:
        hashes = hash_texts(self.texts)
        order = np.argsort(hashes)
        return order, hashes[order]


def _ranges(first: npt.NDArray[np.int64], ordered: Hashes, wanted: Hashes) -> Any:
    """Return the positions of all occurrences of the wanted values; each of them must occur."""
    counts = np.searchsorted(ordered, wanted, side="right") - first
    starts = first - np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.repeat(starts, counts) + np.arange(counts.sum())


def _are_in(keys: pa.ChunkedArray, texts: pa.ChunkedArray) -> pa.BooleanArray:
    found = pc.is_in(keys, value_set=texts)
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
        first, second, longest = self._order
        wanted = hash_pairs(keys)
        place = np.searchsorted(first, wanted[0])
        found = np.zeros(len(keys), np.bool_)
        for step in range(longest):
            at = np.minimum(place + step, len(first) - 1)
            found |= (first[at] == wanted[0]) & (second[at] == wanted[1])
        return pa.array(found)

    @cached_property
    def _order(self) -> tuple[Hashes, Hashes, int]:
        """Return both halves, sorted by the first, and how often one first half occurs at most."""
        order = np.argsort(self.first)
        first = self.first[order]
        edges = np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1], [True]]))
        longest = int(np.diff(edges).max(initial=0)) if len(first) else 0
        return first, self.second[order], longest
