"""Compute a word of 64 bits for each string or list: a sum of parts, mixed with their positions.

Arithmetic is modulo 2^64. A string is read in words of eight bytes. The last word ends where the
string ends, so it may overlap with the word before it. A string of less than eight bytes is one
word, with zeros after it. A part is mixed with a power of an odd number as the key of its position.
An odd number has an inverse, so the key can be divided out again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from deltactl.numpy_types import Bytes, Hashes, Integers

LENGTH: Final = np.uint64(0xC2B2AE3D27D4EB4F)
FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_BASE: Final = 0x5851F42D4C957F2D
_HALF: Final = np.uint64(32)
_FOLD: Final = np.uint64(29)
_WORD: Final = 8
# Strings of at most this many words are read word by word; all strings with the same number of
# words are read together.
_SHORT_WORDS: Final = 8
# The powers for this many elements are in a table. The table and the products fit the cache of a
# core.
_BLOCK: Final = 1 << 16
# For each length of a string (0 to 8 bytes), which bytes of a word belong to the string.
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], np.uint64)


def finish(numbers: Hashes) -> Hashes:
    """Mix so that each bit of the result depends on every bit of the input; change the input."""
    numbers ^= numbers >> np.uint64(30)
    numbers *= FIRST
    numbers ^= numbers >> np.uint64(27)
    numbers *= _SECOND
    numbers ^= numbers >> np.uint64(31)
    return numbers


def mix(words: Hashes, factor: np.uint64) -> Hashes:
    """Return a new array of words mixed with an odd factor.

    High bits are first mixed into low bits, because a bit of a product depends only on bits at the
    same or lower positions.
    """
    mixed = words >> _HALF
    mixed ^= words
    mixed *= factor
    mixed ^= mixed >> _FOLD
    return mixed


def sum_strings(offsets: Integers, data: Bytes) -> Hashes:
    """Return a word for each string in a buffer; ``offsets`` says where strings begin and end."""
    lengths = np.diff(offsets)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if longest == 0:
        return np.zeros(len(lengths), np.uint64)
    if shortest < _WORD and int(offsets[-1]) + _WORD > len(data):
        first = int(offsets[0])
        data = np.concatenate([data[first : int(offsets[-1])], np.zeros(_WORD, np.uint8)])
        offsets = offsets - first
    words = lengths.view(np.uint64) * LENGTH
    fewest, most = max(1, -(-shortest // _WORD)), -(-longest // _WORD)
    counts = (lengths + (_WORD - 1)) >> 3  # empty strings and nulls have none: their sum is 0
    for count in range(fewest, min(most, _SHORT_WORDS) + 1):
        rows = np.flatnonzero(counts == count)
        if len(rows):
            words[rows] += _short_words(offsets[rows], lengths[rows], count, data)
    if most > _SHORT_WORDS:
        _add_long(words, offsets, counts, data)
    return words


def _short_words(starts: Integers, lengths: Integers, count: int, data: Bytes) -> Hashes:
    """Return, for each string, the sum of its parts; all strings have ``count`` words."""
    view = _overlapping(data)
    powers, _ = _tables()
    if count == 1:
        words = view[starts + np.maximum(lengths - _WORD, 0)]
        words &= _MASKS[np.minimum(lengths, _WORD)]
        return mix(words, powers[1])
    total = mix(view[starts + (lengths - _WORD)], powers[count])
    for number in range(count - 1):
        total += mix(view[starts + _WORD * number], powers[number + 1])
    return total


def _overlapping(data: Bytes) -> Hashes:
    """Return, for each byte, the word that begins at this byte."""
    return np.ndarray((max(0, len(data) - _WORD + 1),), "<u8", data, 0, (1,))


def _add_long(words: Hashes, offsets: Integers, counts: Integers, data: Bytes) -> None:
    """Add the parts of strings of many words. A limited number of strings is handled at a time."""
    rows = np.flatnonzero(counts > _SHORT_WORDS)
    view = _overlapping(data)
    ends = np.cumsum(counts[rows])
    row = 0
    while row < len(rows):
        before = int(ends[row - 1]) if row else 0
        end = int(np.searchsorted(ends, before + _BLOCK, "right"))
        if end == row:
            string = int(rows[row])
            words[string : string + 1] += _sum_long_string(view, *offsets[string:][:2].tolist())
            row += 1
            continue
        some = rows[row:end]
        last = ends[row:end] - before
        firsts = last - counts[some]
        places = np.repeat(offsets[some] - _WORD * firsts, counts[some])
        places += _WORD * np.arange(int(last[-1]))
        places[last - 1] = offsets[some + 1] - _WORD
        words[some] += _sum_block(mix(view[places], _SECOND), firsts, last)
        row = end


def _sum_long_string(view: Hashes, start: int, end: int) -> np.uint64:
    """Return the sum of the parts of one string that has more words than a block."""
    places = range(start, end - _WORD, _WORD)
    total = 0
    for first in range(0, len(places) + 1, _BLOCK):
        part = view[places[first] if first < len(places) else end - _WORD : end - _WORD : _WORD]
        part = part[:_BLOCK]
        if len(part) < _BLOCK:
            part = np.append(part, view[end - _WORD])
        total += _sum_powers(mix(part, _SECOND)) * pow(_BASE, first, 1 << 64)
    return np.uint64(total % (1 << 64))


def _sum_powers(elements: Hashes) -> int:
    """Return the polynomial of at most one block of elements."""
    powers, _ = _tables()
    return int(np.add.reduce(elements * powers[: len(elements)]))


def _sum_block(elements: Hashes, firsts: Integers, ends: Integers) -> Hashes:
    """Return the polynomial of each sequence of a block.

    All of them are computed from one running sum. The part of the sum that belongs to a sequence is
    divided by the power at its start. This power is odd and so has an inverse.
    """
    powers, inverses = _tables()
    sums = np.zeros(len(elements) + 1, np.uint64)
    np.cumsum(elements * powers[: len(elements)], out=sums[1:])
    return (sums[ends] - sums[firsts]) * inverses[firsts]


def sum_sequences(elements: Hashes, offsets: Integers) -> Hashes:
    """Return a word for each sequence of hashes, from its polynomial and its length."""
    lengths = np.diff(offsets)
    words = lengths.view(np.uint64) * LENGTH
    row = 0
    while row < len(lengths):
        start = int(offsets[row])
        end = int(np.searchsorted(offsets, start + _BLOCK, "right")) - 1
        if end <= row:
            words[row : row + 1] += _sum_long(elements[start : int(offsets[row + 1])])
            row += 1
            continue
        places = offsets[row : end + 1] - start
        block = elements[start : int(offsets[end])]
        words[row:end] += _sum_block(block, places[:-1], places[1:])
        row = end
    return words


def _sum_long(elements: Hashes) -> np.uint64:
    """Return the polynomial of a sequence that is longer than a block."""
    parts = range(0, len(elements), _BLOCK)
    total = sum(
        _sum_powers(elements[start : start + _BLOCK]) * pow(_BASE, start, 1 << 64)
        for start in parts
    )
    return np.uint64(total % (1 << 64))


_POWER_TABLES: list[tuple[Hashes, Hashes]] = []


def _tables() -> tuple[Hashes, Hashes]:
    """Return the powers of the base, and of its inverse, modulo 2^64, from exponent 0 on."""
    if not _POWER_TABLES:
        inverse = pow(_BASE, -1, 1 << 64)
        _POWER_TABLES.append((_powers(_BASE), _powers(inverse)))
    return _POWER_TABLES[0]


def _powers(base: int) -> Hashes:
    factors = np.full(_BLOCK + 1, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
