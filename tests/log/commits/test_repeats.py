"""Equal texts get equal codes, and other texts other codes, whatever their hashes are."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.log.commits import repeats
from deltactl.log.commits.repeats import find_repeats, hash_texts

# Texts that share their ends, of lengths around whole words, and some beyond what is hashed.
PARTS = st.sampled_from(["", "a", "é", "part-0", "x" * 7, "x" * 8, "y" * 9, "z" * 300])
TEXTS = st.lists(st.lists(PARTS, max_size=4).map("".join), max_size=40)


def chunked(texts: list[str], size: int) -> pa.ChunkedArray:
    """The texts in chunks, each a slice of a longer array."""
    chunks = [
        pa.array(["before", *texts[i : i + size], "after"]).slice(1, len(texts[i : i + size]))
        for i in range(0, len(texts), size)
    ]
    return pa.chunked_array(chunks, pa.string())


def ensure_right(texts: list[str], size: int) -> None:
    found = find_repeats(chunked(texts, size))
    rows = found.rows.tolist()
    assert len(set(rows)) == len(rows)
    counts = Counter(texts)
    assert {row for row, text in enumerate(texts) if counts[text] > 1} <= set(rows)
    codes = dict(zip(rows, found.codes.tolist(), strict=True))
    for one in rows:
        for other in rows:
            assert (codes[one] == codes[other]) == (texts[one] == texts[other])


@given(TEXTS, st.integers(1, 9))
def test_codes_are_equal_where_texts_are(texts: list[str], size: int) -> None:
    ensure_right(texts, size)


@pytest.mark.parametrize("bits", [0, 1, 8])
@given(TEXTS, st.integers(1, 9))
def test_a_shorter_hash_changes_nothing(bits: int, texts: list[str], size: int) -> None:
    def cut(column: pa.ChunkedArray) -> repeats.Hashes:
        return hash_texts(column) & np.uint64((1 << bits) - 1)

    with patch.object(repeats, "hash_texts", cut):
        ensure_right(texts, size)


def test_equal_texts_in_different_places_have_one_hash() -> None:
    texts = [f"date=2024-01-{n % 28:02}/part-{n:05}-{n * 7919}.parquet" for n in range(2000)]
    first, second = hash_texts(chunked(texts, 7)), hash_texts(chunked(texts, 300))
    assert (first == second).all()
    assert len(np.unique(first)) == len(texts)


@given(st.lists(st.text("abé", max_size=40), max_size=40), st.integers(1, 50))
def test_a_hash_does_not_depend_on_the_other_texts(texts: list[str], block: int) -> None:
    # Words that all texts of a block have are mixed for all of them at once.
    with patch.object(repeats, "_BLOCK_ROWS", block):
        together = hash_texts(chunked(texts, 7))
    alone = [hash_texts(chunked([text], 7)) for text in texts]
    assert together.tolist() == [value for values in alone for value in values.tolist()]


@given(TEXTS, st.integers(1, 3))
def test_chunks_that_are_shorter_than_a_word(texts: list[str], size: int) -> None:
    chunks = [pa.array(texts[i : i + size]) for i in range(0, len(texts), size)]
    found = find_repeats(pa.chunked_array(chunks, pa.string()))
    counts = Counter(texts)
    assert {row for row, text in enumerate(texts) if counts[text] > 1} <= set(found.rows.tolist())


def test_long_texts_that_differ_at_their_start_are_two() -> None:
    texts = [f"{n}{'x' * 1000}" for n in (1, 2, 1)]
    found = find_repeats(chunked(texts, 2))
    codes = dict(zip(found.rows.tolist(), found.codes.tolist(), strict=True))
    assert codes[0] == codes[2] != codes.get(1)
