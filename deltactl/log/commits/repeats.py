"""Find equal texts among many texts, in bounded memory.

Most texts occur once. For nearly all of them, hashes of eight bytes show this. Texts with equal
hashes are compared. So the result is correct even if somebody chose texts with equal hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.arrow_schemas import array_of

Rows: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]

_Layout: TypeAlias = tuple[Hashes, Rows, Rows]

_WORD_BYTES: Final = 8
_COMPARED_PAIRS: Final = 1 << 13
_BLOCK_ROWS: Final = 1 << 14  # then the words of a block stay in the cache
_MOST_WORDS: Final = 32
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)
_MOST_BYTES: Final = 1 << 30  # limit for the texts in one array, whose offsets have 31 bits


@dataclass(frozen=True, slots=True)
class Repeats:
    """The rows whose text may occur more than once; equal texts, and only these, have equal codes.

    The texts of all other rows occur once.
    """

    rows: Rows
    codes: Rows


def find_repeats(texts: pa.ChunkedArray, hashes: Hashes | None = None) -> Repeats:
    """Return the rows whose text may occur more than once. The texts must not be null.

    ``hashes`` are those of ``hash_texts``, if they are known.
    """
    if hashes is None:
        hashes = hash_texts(texts)
    in_order = np.sort(hashes)
    if not (in_order[1:] == in_order[:-1]).any():
        none = np.zeros(0, np.int64)
        return Repeats(none, none)
    order = np.argsort(hashes)
    in_order = hashes[order]
    is_pair = in_order[1:] == in_order[:-1]
    is_repeat = np.concatenate(([False], is_pair)) | np.concatenate((is_pair, [False]))
    codes = np.concatenate(([0], np.cumsum(~is_pair)))[is_repeat]
    rows = order[is_repeat]
    is_chosen = np.zeros(len(hashes), np.bool_)
    is_chosen[rows] = True
    chosen = texts.filter(array_of(is_chosen))
    place = np.cumsum(is_chosen) - 1
    first, second = place[order[:-1][is_pair]], place[order[1:][is_pair]]
    if chosen.nbytes < _MOST_BYTES and _are_equal(chosen.combine_chunks(), first, second):
        return Repeats(rows, codes)
    # In Arrow's own pool, huge pages make the growth of a large hash table several times slower.
    coded = pc.dictionary_encode(chosen, memory_pool=pa.system_memory_pool())
    exact = np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks])
    return Repeats(np.flatnonzero(is_chosen), exact.astype(np.int64))


def find_repeated_hashes(first: Hashes, second: Hashes) -> Repeats:
    """Return the rows whose hash, given in two halves, may occur more than once.

    Texts are not compared. So the hashes must have 128 bits, and a key that nobody knows.
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


def _are_equal(texts: pa.Array, first: Rows, second: Rows) -> bool:
    """Return whether the texts of each pair of rows are equal; False if a text is short."""
    layout = _layout_of(texts)
    if layout is None:
        return False
    by_place = np.argsort(first)
    blocks = range(0, len(first), _COMPARED_PAIRS)  # small: texts stay in the cache
    return all(
        _are_block_equal(
            layout, *(rows[by_place[start : start + _COMPARED_PAIRS]] for rows in (first, second))
        )
        for start in blocks
    )


def _are_block_equal(layout: _Layout, first: Rows, second: Rows) -> bool:
    words, starts, ends = layout
    left, right, rest = starts[first], starts[second], ends[first] - starts[first]
    if (rest != ends[second] - right).any() or (rest < _WORD_BYTES).any():
        return False
    while len(rest):
        if (words[left] != words[right]).any():
            return False
        # The last word of a text may overlap with the word before it.
        step = np.minimum(rest - _WORD_BYTES, _WORD_BYTES)
        left, right, rest = left + step, right + step, rest - step
        more = step > 0
        left, right, rest = left[more], right[more], rest[more]
    return True


def hash_texts(texts: pa.ChunkedArray) -> Hashes:
    """Return a hash of each text; of a long text, only of its end.

    Equal texts have equal hashes.
    """
    return np.concatenate([np.zeros(0, np.uint64), *map(_hash_chunk, texts.chunks)])


def _layout_of(texts: pa.Array) -> _Layout | None:
    """Return the words that begin at each byte, and the start and end of each text.

    Return ``None`` if all texts together are shorter than a word.
    """
    data = texts.buffers()[2]
    if not len(texts) or data is None or data.size < _WORD_BYTES:
        return None
    words: Hashes = np.ndarray((data.size - _WORD_BYTES + 1,), "<u8", data, strides=(1,))
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    bounds = offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    return words, bounds[:-1], bounds[1:]


def _hash_chunk(texts: pa.Array) -> Hashes:
    layout = _layout_of(texts)
    if layout is None:  # the hash of a short text is its length, also in other chunks
        lengths: Hashes = pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.uint64)
        return lengths
    words, starts, ends = layout
    blocks = [slice(start, start + _BLOCK_ROWS) for start in range(0, len(texts), _BLOCK_ROWS)]
    return np.concatenate([_hash_block(words, starts[block], ends[block]) for block in blocks])


def _hash_block(words: Hashes, starts: Rows, ends: Rows) -> Hashes:
    lengths = ends - starts
    hashes, last = lengths.astype(np.uint64), ends - _WORD_BYTES
    active = np.flatnonzero(lengths >= _WORD_BYTES)  # others: the hash is the length
    _mix(hashes, active, words, starts[active])
    # Paths of a table have nearly the same length: all have so many further words.
    shared = min(max(int(lengths.min()) - 1, 0) // _WORD_BYTES, _MOST_WORDS)
    for _ in range(shared):
        hashes ^= words[last]
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
        last -= _WORD_BYTES
    for _ in range(_MOST_WORDS - shared):
        active = active[last[active] > starts[active]]
        if not len(active):
            break
        _mix(hashes, active, words, last[active])
        last -= _WORD_BYTES
    return hashes


def _mix(hashes: Hashes, active: Rows, words: Hashes, places: Rows) -> None:
    mixed = (hashes[active] ^ words[places]) * _MULTIPLIER
    hashes[active] = mixed ^ (mixed >> _SHIFT)
