"""Hashes of values: the same by every path through the code, and as a plain program computes."""

import random
from hashlib import blake2b
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from deltactl.parquet.digest import RowDigester
from deltactl.parquet.hashes import hash_values

_BASE = 0x5851F42D4C957F2D
_FIRST = 0xBF58476D1CE4E5B9
_LENGTH = 0xC2B2AE3D27D4EB4F
_LIMIT = 1 << 64


def mix(word: int, factor: int) -> int:
    mixed = (word ^ word >> 32) * factor % _LIMIT
    return mixed ^ mixed >> 29


def hash_plainly(text: bytes) -> int:
    """One string, one word after another."""
    starts = [*range(0, len(text) - 8, 8), max(0, len(text) - 8)]
    words = [int.from_bytes(text[start : start + 8], "little") for start in starts]
    if len(words) <= 128:
        parts = [mix(word, pow(_BASE, at + 1, _LIMIT)) for at, word in enumerate(words)]
    else:
        parts = [int.from_bytes(blake2b(text, digest_size=8).digest(), "little")]
    return mix((sum(parts) + len(text) * _LENGTH) % _LIMIT, _FIRST)


def test_strings_have_the_hash_that_is_defined() -> None:
    rng = random.Random(27)
    texts = [rng.randbytes(length) for length in (*range(200), *range(1000, 1050), 5000)]
    expected = [hash_plainly(text) for text in texts]
    assert hash_values(pa.array(texts, pa.binary())).tolist() == expected
    # In a batch of strings of one length another path is taken; and alone, at the buffer's end.
    for text, wanted in zip(texts, expected, strict=True):
        assert hash_values(pa.array([text] * 3, pa.binary())).tolist() == [wanted] * 3


def test_strings_of_a_slice_beside_nulls() -> None:
    texts = [b"abc", None, b"x" * 100, b"", None, b"12345678", b"123456789", b"y" * 64, b"y" * 65]
    whole = pa.array(texts, pa.binary())
    hashes = hash_values(whole).tolist()
    for start, end in combinations(range(len(texts) + 1), 2):
        assert hash_values(whole.slice(start, end - start)).tolist() == hashes[start:end]
    known = [hash_plainly(text) for text in texts if text is not None]
    assert [h for h, text in zip(hashes, texts, strict=True) if text is not None] == known


def test_lists_have_the_hash_that_is_defined() -> None:
    lists = [list(range(count)) for count in (0, 3, 0, 0, 16, 17, 40, 0)]
    numbers = [[mix(number, _FIRST) for number in one] for one in lists]
    sums = [sum(h * pow(_BASE, at, _LIMIT) for at, h in enumerate(one)) for one in numbers]
    expected = [
        mix((found + len(one) * _LENGTH) % _LIMIT, _FIRST)
        for found, one in zip(sums, lists, strict=True)
    ]
    assert hash_values(pa.array(lists, pa.list_(pa.int64()))).tolist() == expected


@pytest.mark.parametrize("bits", [[63], [62], [63, 62], [0], [31], [32], [63, 31]])
def test_the_same_bits_of_two_columns_do_not_cancel(bits: list[int]) -> None:
    """A sum of products would not notice the highest bits of two columns, such as two signs."""
    flip = np.uint64(sum(1 << bit for bit in bits))
    numbers = np.random.default_rng(27).integers(0, 1 << 64, (4, 1000), np.uint64)
    schema = pa.schema([(name, pa.int64()) for name in "abcd"])
    digester = RowDigester(schema)

    def total(columns: list[npt.NDArray[np.uint64]], row: int) -> int:
        arrays = [pa.array(column[row : row + 1].view(np.int64)) for column in columns]
        return digester.digest(pa.record_batch(arrays, schema=schema)).total

    for row in range(0, 1000, 100):
        before = total(list(numbers), row)
        for pair in combinations(range(4), 2):
            changed = [c ^ flip if at in pair else c for at, c in enumerate(numbers)]
            assert total(changed, row) != before


def test_decimals_of_both_widths_and_signs() -> None:
    values = [0, 1, -1, 10**17, -(10**17), None]
    narrow, wide = (pa.array(values, pa.decimal128(digits, 0)) for digits in (18, 38))
    assert hash_values(narrow).tolist() == hash_values(wide).tolist()
    low = (1 << 64) - 1
    far = [-1, low, low + (1 << 64), -1 - (1 << 64), 10**37, -(10**37)]
    assert len(set(hash_values(pa.array(far, pa.decimal128(38, 0))).tolist())) == len(far)


def test_slices_of_flags_and_numbers() -> None:
    flags = pa.array([True, False, None] * 9)
    numbers = pa.array([1, None, -3] * 9, pa.int16())
    for array in (flags, numbers):
        whole = hash_values(array).tolist()
        for start in range(20):
            assert hash_values(array.slice(start, 7)).tolist() == whole[start : start + 7]
