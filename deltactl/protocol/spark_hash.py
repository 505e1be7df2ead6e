"""Compute Spark's hash of strings: Murmur3 (x86, 32 bits), as Spark's function ``hash``.

This hash differs from the published Murmur3 at the end of a string: each of the last one to three
bytes is mixed as a separate signed number.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from deltactl.numpy_types import Bytes, Integers

SPARK_SEED: Final = 42
"""The seed of Spark's ``hash``, which is also its result for null."""

_Hashes: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
_Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
_BLOCK_ROWS: Final = 1 << 14


def hash_texts(
    texts: pa.StringArray, seed: int = SPARK_SEED
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the hash of each string's UTF-8 bytes; for null the seed, as in Spark.

    Args:
        texts: ``string``, with any offset into its buffers.
        seed: an unsigned number of 32 bits.
    """
    hashes = np.full(len(texts), seed, np.uint32)
    _, offset_buffer, data_buffer = texts.buffers()
    if len(texts) and data_buffer is not None:
        offsets = np.frombuffer(offset_buffer, np.int32)[texts.offset :][: len(texts) + 1]
        data = np.frombuffer(data_buffer, np.uint8)
        for first in range(0, len(texts), _BLOCK_ROWS):
            rows = offsets[first : first + _BLOCK_ROWS + 1].astype(np.int64)
            block = hashes[first : first + _BLOCK_ROWS]
            block[:] = _hash_block(data[rows[0] : rows[-1]], rows - rows[0], block)
    signed = hashes.view(np.int32)
    if texts.null_count:
        signed[np.asarray(texts.is_null())] = np.uint32(seed).view(np.int32)
    return signed


def _hash_block(data: Bytes, offsets: Integers, seed: _Words) -> _Words:
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    # Padding for the last word of the last row: masked reads of other rows can go past the end.
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    words: _Words = np.ascontiguousarray(
        padded[:-3].astype(np.uint32)
        | padded[1:-2].astype(np.uint32) << 8
        | padded[2:-1].astype(np.uint32) << 16
        | padded[3:].astype(np.uint32) << 24
    )
    hashes = seed.copy()
    whole = lengths >> 2
    for place in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > place)
        hashes[rows] = _mix(hashes[rows], words[starts[rows] + 4 * place])
    for rest in range(3):
        rows = np.flatnonzero((lengths & 3) > rest)
        last = data[starts[rows] + 4 * whole[rows] + rest].view(np.int8).astype(np.int32)
        hashes[rows] = _mix(hashes[rows], last.view(np.uint32))
    return _finish(hashes, lengths.astype(np.uint32))


def _mix(hashes: _Words, words: _Words) -> _Words:
    words = _rotate(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotate(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotate(words: _Words, bits: int) -> _Words:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _finish(hashes: _Words, lengths: _Words) -> _Words:
    hashes = hashes ^ lengths
    hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return hashes ^ hashes >> np.uint32(16)
