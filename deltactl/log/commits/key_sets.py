"""Find equal keys of files, and keys that are among those of the log's tail.

Many keys are compared by their hashes of 128 bits, with the key of this process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.keyed_hash import hash_pairs
from deltactl.numpy_types import Hashes, Integers
from deltactl.protocol.arrow_schemas import array_of

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
    ordered = np.sort(first)
    twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
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


def make_key_set(keys: pa.ChunkedArray, first: Hashes, second: Hashes) -> KeySet:
    """Return the set of some keys; the hashes are those of :func:`hash_pairs`."""
    return KeyTexts(keys) if len(keys) <= _FEW else KeyHashes(first, second)


@dataclass(frozen=True)
class KeyTexts:
    """A set of few keys, which Arrow finds in less time than hashes of all other keys take."""

    texts: pa.ChunkedArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def mask(self, keys: pa.ChunkedArray) -> pa.BooleanArray:
        """Return which of the keys are in the set."""
        found = pc.is_in(keys, value_set=self.texts)
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
        return array_of(found)

    @cached_property
    def _order(self) -> tuple[Hashes, Hashes, int]:
        """Return both halves, sorted by the first, and how often one first half occurs at most."""
        order = np.argsort(self.first)
        first = self.first[order]
        edges = np.flatnonzero(np.concatenate([[True], first[1:] != first[:-1], [True]]))
        longest = int(np.diff(edges).max(initial=0)) if len(first) else 0
        return first, self.second[order], longest
