import subprocess
import sys
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltactl.log import keyed_hash
from deltactl.log.keyed_hash import hash_pairs, wide_hash_names

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=12)


def expected(text: str, half: int) -> int:
    """The definition, one text at a time."""
    data = text.encode()
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    end = words.pop() if len(data) % 4 else 0
    numbers: list[int] = keyed_hash._draw(len(words) + 3)[half].tolist()
    parts = [1, len(data), end, *words]
    return sum(a * b for a, b in zip(numbers, parts, strict=True)) % 2**64 >> 32


@given(TEXTS, st.integers(0, 12))
def test_hashes_are_those_of_the_definition(texts: list[str], cut: int) -> None:
    column = pa.chunked_array([texts[:cut], texts[cut:]], pa.string())
    halves = [[expected(text, half) for half in range(4)] for text in texts]
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
    hashes = wide_hash_names(whole)
    assert len(np.unique(hashes)) == len(np.unique(hash_pairs(whole)[0])) == 40_000
    assert wide_hash_names(whole.slice(20_001)).tolist() == hashes[20_001:].tolist()
    assert wide_hash_names(pa.chunked_array([], pa.string())).tolist() == []


def test_zero_bytes_and_lengths_count() -> None:
    texts = ["", "\0", "\0\0", "a", "a\0", "a\0\0\0", "a\0\0\0\0", "\0\0\0a"]
    column = pa.chunked_array([texts])
    assert len(np.unique(wide_hash_names(column))) == len(texts)


def test_another_key_gives_other_hashes() -> None:
    column = pa.chunked_array([["a", "b" * 50, ""]])
    before = wide_hash_names(column)
    with patch.object(keyed_hash, "_NUMBERS", [np.zeros((4, 0), np.uint64)]):
        assert (wide_hash_names(column) != before).all()
    assert (wide_hash_names(column) == before).all()


def test_hashes_have_128_bits_and_a_key_of_the_process() -> None:
    names = pa.chunked_array([["a", "b"]])
    assert wide_hash_names(names).dtype.itemsize == 16
    assert [half.dtype.itemsize for half in hash_pairs(names)] == [8, 8]
    code = (
        "import pyarrow as pa; from deltactl.log.keyed_hash import *;"
        "names = pa.chunked_array([['a']]);"
        "print(wide_hash_names(names).tobytes().hex(), sum_of_hashes(names.chunk(0)))"
    )
    first, second = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        for _ in range(2)
    )
    wide, total = first.stdout.split()
    assert len(bytes.fromhex(wide)) == 16
    assert int(total) > 1 << 64
    assert set(first.stdout.split()).isdisjoint(second.stdout.split())
