"""Compute 64-bit hashes of the values of Arrow arrays, at any depth, in few passes over the arrays.

A value becomes a word of 64 bits, and the word is mixed with the key of its column. For numbers,
different values have different words. They also have different hashes, because mixing can be
undone. The word of a string, list or struct is a sum of mixed parts, where each part is mixed with
a key for its position: a power of an odd number, which has an inverse. Two different strings or
lists have the same word with a probability of 2^-64. Arithmetic is modulo 2^64.

A string is read in words of eight bytes. The last word ends where the string ends, so it may
overlap with the word before it. A string of less than eight bytes is one word, with zeros after it.

A value has the same hash in all integer types, in all float types, and in all units of time. All
NaNs have the same hash; 0.0 and -0.0 have different hashes.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from deltactl.numpy_types import Array, Bytes, Hashes, Integers
from deltactl.protocol.arrow_schemas import flags_of, text_bytes

INTEGERS: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}

# Odd numbers with evenly mixed bits, as in SplitMix64, xxHash and PCG.
_NULL: Final = np.uint64(0x9E3779B97F4A7C15)
_LENGTH: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_BASE: Final = np.uint64(0x5851F42D4C957F2D)
_WORD: Final = 8
# Each word of the longest string is a pass over the rows: longer strings are hashed one by one.
_MOST_WORDS: Final = 128
# For each length of a string (0 to 8 bytes), which bytes of a word belong to the string.
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], np.uint64)


@lru_cache(maxsize=1 << 14)
def key_of(name: str) -> tuple[np.uint64, np.uint64]:
    """Return an addend and an odd factor for the column ``name``."""
    seed, factor = np.frombuffer(hashlib.blake2b(name.encode(), digest_size=16).digest(), "<u8")
    return np.uint64(seed), np.uint64(factor | np.uint64(1))


def hash_values(array: pa.Array, factor: np.uint64 = _FIRST) -> Hashes:
    """Return a new array with a hash of each value, at any depth.

    ``factor`` is the odd factor of the column.

    Raises:
        TypeError: no column of a Delta table has this type.
    """
    null = _hash_null(factor)
    if isinstance(array, pa.ExtensionArray):
        return hash_values(array.storage, factor)
    if isinstance(array, pa.DictionaryArray):
        return hash_values(array.dictionary_decode(), factor)
    if pa.types.is_null(array.type) or not len(array):
        return np.full(len(array), null)
    hashes = _mix(_words_of(array), factor)
    if array.null_count:
        np.putmask(hashes, flags_of(array.is_null()), null)
    return hashes


def _hash_null(factor: np.uint64) -> np.uint64:
    return np.uint64(int(_NULL) * int(factor) % (1 << 64))


def _words_of(array: pa.Array) -> Hashes:
    """Return the values as words. The words of nulls have no meaning."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _struct_words(array)
    if pa.types.is_map(kind):
        entries, offsets = _members(array)
        keys, items = hash_values(entries.field(0)), hash_values(entries.field(1))
        # The factor of the keys shows whether a key and its value were exchanged.
        return _sum_sequences(finish(keys * _LENGTH + items), offsets)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        members, offsets = _members(array)
        return _sum_sequences(hash_values(members), offsets)
    if pa.types.is_decimal(kind):
        return _decimal_words(array)
    if pa.types.is_floating(kind):
        return _float_words(array)
    if pa.types.is_timestamp(kind):
        return _time_words(array)
    if pa.types.is_boolean(kind):
        return flags_of(array).astype(np.uint64)
    if _is_bytes(kind):
        data, offsets = text_bytes(array)
        return _sum_strings(offsets, data)
    if kind.num_buffers == 2 and kind.bit_width in INTEGERS:
        return _read_numbers(array, f"<i{kind.bit_width // 8}").astype(np.int64).view(np.uint64)
    raise TypeError(f"rows of type {kind} have no digest")


def _read_numbers(array: pa.Array, kind: str) -> Array:
    """Return the values of an array as they are in memory. The values of nulls have no meaning."""
    first = array.offset * np.dtype(kind).itemsize
    return np.frombuffer(array.buffers()[1], kind, len(array), first)


def _struct_words(array: pa.StructArray) -> Hashes:
    words = np.full(len(array), _LENGTH)
    for index in range(array.type.num_fields):
        seed, factor = key_of(array.type.field(index).name)
        words += hash_values(array.field(index), factor)
        words += seed
    return words


def _decimal_words(array: pa.Array) -> Hashes:
    """Return the low half of each decimal; if the value needs the high half, a mix of both."""
    if not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(38, array.type.scale))
    halves = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset)
    words = halves[0::2].view(np.uint64).copy()
    if array.type.precision > _DIGITS_OF_A_WORD:
        # Zero if the high half only repeats the sign: then the low half alone is the value.
        high = halves[1::2] ^ (halves[0::2] >> 63)
        words += finish(high.view(np.uint64))
    return words


# Decimals of up to 18 digits fit into the low half.
_DIGITS_OF_A_WORD: Final = 18


def _float_words(array: pa.Array) -> Hashes:
    numbers = _read_numbers(array, f"<f{array.type.bit_width // 8}").astype(np.float64, copy=False)
    unknown = np.isnan(numbers)
    if unknown.any():  # readers do not distinguish NaNs
        numbers = np.where(unknown, np.nan, numbers)
    return numbers.view(np.uint64)


def _time_words(array: pa.Array) -> Hashes:
    """Return a word for each time. The word of a time is the same in all units."""
    counts = _read_numbers(array, "<i8")
    unit = array.type.unit
    if unit == "us":
        return counts.view(np.uint64)
    if unit == "ns":
        counts, rest = np.divmod(counts, 1000)
        return counts.view(np.uint64) + finish(rest.astype(np.uint64))
    return (counts * {"s": 1_000_000, "ms": 1000}[unit]).view(np.uint64)


def _is_bytes(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return bool(is_text or is_binary or is_view or pa.types.is_fixed_size_binary(kind))


def _members(array: pa.Array) -> tuple[pa.Array, Integers]:
    """Return the members of all lists or maps, and the offsets of each list among the members."""
    offsets = np.asarray(array.offsets).astype(np.int64)
    # A slice of an array shares the members of all rows: leave out those of other rows.
    first = int(offsets[0])
    return array.values.slice(first, int(offsets[-1]) - first), offsets - first


def finish(numbers: Hashes) -> Hashes:
    """Mix so that each bit of the result depends on every bit of the input; change the input."""
    numbers ^= numbers >> np.uint64(30)
    numbers *= _FIRST
    numbers ^= numbers >> np.uint64(27)
    numbers *= _SECOND
    numbers ^= numbers >> np.uint64(31)
    return numbers


def _mix(words: Hashes, factor: np.uint64 | Hashes) -> Hashes:
    """Return a new array of words mixed with an odd factor.

    High bits are first mixed into low bits, because a bit of a product depends only on bits at the
    same or lower positions.
    """
    mixed = words >> np.uint64(32)
    mixed ^= words
    mixed *= factor
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _sum_strings(offsets: Integers, data: Bytes) -> Hashes:
    """Return a word for each string in a buffer; ``offsets`` says where strings begin and end."""
    lengths = np.diff(offsets)
    shortest = int(lengths.min())
    # A whole word is read even of a shorter string, and must not reach beyond the buffer.
    if shortest < _WORD and int(offsets[-1]) + _WORD > len(data):
        first = int(offsets[0])
        data = np.concatenate([data[first : int(offsets[-1])], np.zeros(_WORD, np.uint8)])
        offsets = offsets - first
    words = lengths.view(np.uint64) * _LENGTH
    counts = (lengths + (_WORD - 1)) >> 3  # empty strings and nulls have none: their sum is 0
    # Always the same number of powers, so that they are computed once.
    powers = _powers(_MOST_WORDS + 1)
    # For each byte, the word that begins at this byte.
    view = np.ndarray((max(0, len(data) - _WORD + 1),), "<u8", data, 0, (1,))
    long = np.flatnonzero(counts > _MOST_WORDS)
    if len(long):
        words[long] += _hash_long(offsets[long], offsets[long + 1], data)
        counts[long] = 0
    starts, least, most = offsets[:-1], int(counts.min()), int(counts.max())
    last_words = np.maximum(lengths - _WORD, 0)
    for number in range(1, most + 1):
        # The last word of strings of ``number`` words, and an earlier word of longer ones.
        rows = slice(None) if least >= number else np.flatnonzero(counts >= number)
        found = view[starts[rows] + np.minimum(last_words[rows], _WORD * (number - 1))]
        if number == 1 and shortest < _WORD:
            found &= _MASKS[np.minimum(lengths[rows], _WORD)]
        words[rows] += _mix(found, powers[number])
    return words


def _hash_long(starts: Integers, ends: Integers, data: Bytes) -> Hashes:
    view = memoryview(data.data)
    places = zip(starts.tolist(), ends.tolist(), strict=True)
    digests = (hashlib.blake2b(view[start:end], digest_size=8).digest() for start, end in places)
    return np.frombuffer(b"".join(digests), "<u8")


def _sum_sequences(elements: Hashes, offsets: Integers) -> Hashes:
    """Return a word for each sequence of hashes, from its length and the sum of its parts."""
    lengths = np.diff(offsets)
    words = lengths.view(np.uint64) * _LENGTH
    rows = np.flatnonzero(lengths)  # `reduceat` does not return zero for an empty sequence
    if len(rows):
        powers = _powers(int(lengths.max()))
        places = np.arange(len(elements)) - np.repeat(offsets[:-1], lengths)
        words[rows] += np.add.reduceat(elements * powers[places], offsets[:-1][rows])
    return words


@lru_cache(maxsize=64)
def _powers(count: int) -> Hashes:
    """Return powers of the base, from exponent 0 on."""
    factors = np.full(count, _BASE)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
