"""Hash names with a key that is random for each process.

Other people choose the paths in a log. For a hash without a key, anyone can construct texts with
equal hashes. With the hash of this module, two texts have equal hashes of 128 bits with a
probability of 2^-128, even if somebody chose the texts. The reason: the key is chosen later at
random and never leaves the process. So hashes of two processes differ.

Each 32 bits of the hash are the upper half of a sum. Its terms are the words of the text and its
length, each multiplied by a random number of 64 bits (Lemire and Kaser, "Strongly universal string
hashing is fast", 2014).
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from deltactl.numpy_types import Bytes, Hashes, Integers, WideHashes
from deltactl.protocol.arrow_schemas import array_of, text_bytes

_PARTS: Final = 4  # of 32 bits each
# A list of one array: a longer array replaces it, while other threads may still use the old one.
_NUMBERS: Final = [np.zeros((_PARTS, 0), np.uint64)]
_LOCK: Final = threading.Lock()
_BLOCK_ROWS: Final = 1 << 14  # so small that the words of a block stay in the cache
_WORD_BYTES: Final = 4
_HALF: Final = np.uint64(32)
_SHIFT: Final = np.uint64(33)


def wide_hash_names(names: pa.ChunkedArray) -> WideHashes:
    """Return a hash of 128 bits for each name, as 16 bytes. Their order has no meaning.

    Compare them as arrays: as Python objects, they have no zero bytes at the end.
    """
    return np.concatenate([np.zeros(0, "S16"), *map(_wide_hash, names.chunks)])


def hash_pairs(names: pa.ChunkedArray) -> tuple[Hashes, Hashes]:
    """Return a hash of 128 bits for each name, in two halves. The names must not be null."""
    none = np.zeros((2, 0), np.uint64)
    parts = [none, *(_hash(chunk) for chunk in names.chunks)]
    first, second = np.concatenate(parts, axis=1)
    return first, second


def sum_of_hashes(texts: pa.Array) -> int:
    """Return the sum of the 128-bit hashes of all strings; it does not depend on their order.

    The halves are mixed before they are added. Each hash is a sum over words. So without mixing,
    two strings that exchange words would have the same sum as before.
    """
    halves = _hash(texts)
    first, second = (int(np.sum(_mix(half), dtype=np.uint64)) for half in halves)
    return first << 64 | second


def add_sums(one: int, other: int) -> int:
    """Return the sum for the strings of both sums: each half is added modulo 2^64."""
    first = ((one >> 64) + (other >> 64)) % 2**64
    return first << 64 | (one + other) % 2**64


def _mix(hashes: Hashes) -> Hashes:
    """Return another number for each number, as the last step of 64-bit Murmur3 does."""
    hashes = (hashes ^ hashes >> _SHIFT) * np.uint64(0xFF51AFD7ED558CCD)
    hashes = (hashes ^ hashes >> _SHIFT) * np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ hashes >> _SHIFT


@dataclass(slots=True)
class SeenKeys:
    """Find the keys of a batch that were not seen before.

    If two files have equal hashes, only one of them is checked. So hashes have 128 bits and a
    secret key. They are stored in sorted runs, each at least twice as long as the next. So lookups
    and merges take n log² n steps in total, for any number of batches.
    """

    _runs: list[WideHashes] = field(default_factory=list)

    def take(self, keys: pa.ChunkedArray) -> pa.Array:
        """Return a mask, true at the first occurrence of each key that was not seen before."""
        hashes = wide_hash_names(keys)
        distinct, positions = np.unique(hashes, return_index=True)
        is_new = np.ones(len(distinct), np.bool_)
        for run in self._runs:
            found = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            is_new &= run[found] != distinct
        self._keep(distinct[is_new])
        mask = np.zeros(len(hashes), np.bool_)
        mask[positions[is_new]] = True
        return array_of(mask)

    def _keep(self, run: WideHashes) -> None:
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            # Both parts are sorted. A stable sort only merges them.
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)


def _wide_hash(texts: pa.StringArray) -> WideHashes:
    pairs = _hash(texts).T.astype(">u8")
    return np.ascontiguousarray(pairs).view("S16").ravel()


def _hash(texts: pa.StringArray) -> Hashes:
    """Return the first 64 bits of each hash, and the last ones, as two rows."""
    sums = np.zeros((_PARTS, len(texts)), np.uint64)
    data, offsets = text_bytes(texts)
    for first in range(0, len(texts), _BLOCK_ROWS):
        rows = offsets[first : first + _BLOCK_ROWS + 1]
        block = data[rows[0] : rows[-1]]
        _add_block(sums[:, first : first + _BLOCK_ROWS], block, rows - rows[0])
    upper = sums >> _HALF
    return upper[0::2] << _HALF | upper[1::2]


def _add_block(sums: Hashes, data: Bytes, offsets: Integers) -> None:
    lengths, starts = np.diff(offsets), offsets[:-1]
    whole, rest = lengths // _WORD_BYTES, lengths % _WORD_BYTES
    # Three more: for the constant term, the length and the bytes after the last whole word.
    numbers = _draw(int(whole.max(initial=0)) + 3)
    # Texts are not aligned, so words begin at every byte. The zeros are read after the last text.
    padded = np.concatenate([data, np.zeros(2 * _WORD_BYTES, np.uint8)])
    words = np.ndarray((len(data) + _WORD_BYTES,), "<u4", padded, strides=(1,))
    # Take the bytes after the last whole word, and replace those of the next text by zeros.
    ends = words[starts + whole * _WORD_BYTES] & ((1 << 8 * rest) - 1).astype(np.uint32)
    for part, (first, of_length, of_end) in enumerate(numbers[:, :3]):
        sums[part] = first + of_length * lengths.astype(np.uint64) + of_end * ends.astype(np.uint64)
    least = int(whole.min())
    for place, factors in enumerate(numbers[:, 3:].T):
        # All texts have the first words; a slice is faster than an index.
        rows = slice(None) if place < least else np.flatnonzero(whole > place)
        found = words[starts[rows] + place * _WORD_BYTES].astype(np.uint64)
        for part, factor in enumerate(factors):
            sums[part, rows] += factor * found


def _draw(count: int) -> Hashes:
    """Return the random numbers of this process for each part; more are drawn when needed."""
    # Two threads must not draw different numbers for one place.
    with _LOCK:
        known = _NUMBERS[0]
        if (more := count - known.shape[1]) > 0:
            drawn = np.frombuffer(os.urandom(8 * _PARTS * more), np.uint64)
            drawn = drawn.reshape(_PARTS, more)
            _NUMBERS[0] = known = np.concatenate([known, drawn], axis=1)
    return known[:, :count]
