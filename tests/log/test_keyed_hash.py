from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltactl.log import keyed_hash
from deltactl.log.keyed_hash import hash_names, hash_pairs, wide_hash_names

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=12)


def expected(text: str, half: int) -> int:
    """The definition, one text at a time."""
    data = text.encode()
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    end = words.pop() if len(data) % 4 else 0
    numbers: list[int] = keyed_hash._draw(4, len(words) + 3)[half].tolist()
    parts = [1, len(data), end, *words]
    return sum(a * b for a, b in zip(numbers, parts, strict=True)) % 2**64 >> 32


@given(TEXTS, st.integers(0, 12))
def test_hashes_are_those_of_the_definition(texts: list[str], cut: int) -> None:
    column = pa.chunked_array([texts[:cut], texts[cut:]], pa.string())
    halves = [[expected(text, half) for half in range(4)] for text in texts]
    assert hash_names(column).tolist() == [a << 32 | b for a, b, _, _ in halves]
    assert [bytes(it) for it in wide_hash_names(column)] == [
        (a << 96 | b << 64 | c << 32 | d).to_bytes(16, "big").rstrip(b"\0") for a, b, c, d in halves
    ]

    first, second = hash_pairs(column)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == [
        (a << 32 | b, c << 32 | d) for a, b, c, d in halves
    ]


def test_parts_of_a_buffer_and_many_rows() -> None:
    texts = [f"p={i % 7}/part-{'x' * (i % 41)}-{i}" for i in range(40_000)]
    whole = pa.chunked_array([pa.array(texts)])
    assert len(np.unique(hash_names(whole))) == len(np.unique(wide_hash_names(whole))) == 40_000
    assert hash_names(whole.slice(20_001)).tolist() == hash_names(whole)[20_001:].tolist()
    assert hash_names(pa.chunked_array([], pa.string())).tolist() == []


def test_zero_bytes_and_lengths_count() -> None:
    texts = ["", "\0", "\0\0", "a", "a\0", "a\0\0\0", "a\0\0\0\0", "\0\0\0a"]
    column = pa.chunked_array([texts])
    assert len(np.unique(hash_names(column))) == len(texts)


def test_another_key_gives_other_hashes() -> None:
    column = pa.chunked_array([["a", "b" * 50, ""]])
    before = hash_names(column)
    with patch.object(keyed_hash, "_NUMBERS", [np.zeros((4, 0), np.uint64)]):
        assert (hash_names(column) != before).all()
    assert (hash_names(column) == before).all()
