"""Equal keys get equal codes, and other keys other codes; a set knows its keys, few or many."""

from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.log.commits import key_sets
from deltactl.log.commits.key_sets import find_repeated_hashes, make_key_set
from deltactl.log.keyed_hash import hash_pairs

# Texts that share their ends, of lengths around whole words.
PARTS = st.sampled_from(["", "a", "é", "part-0", "x" * 7, "x" * 8, "y" * 9, "z" * 300])
TEXTS = st.lists(st.lists(PARTS, max_size=4).map("".join), max_size=40)


def chunked(texts: list[str], size: int) -> pa.ChunkedArray:
    """The texts in chunks, each a slice of a longer array."""
    chunks = [
        pa.array(["before", *texts[i : i + size], "after"]).slice(1, len(texts[i : i + size]))
        for i in range(0, len(texts), size)
    ]
    return pa.chunked_array(chunks, pa.string())


@pytest.mark.parametrize("bits", [0, 1, 8, 64])
@given(TEXTS, st.integers(1, 9))
def test_codes_are_equal_where_keys_are(bits: int, texts: list[str], size: int) -> None:
    """Whatever the first half of the hash is."""
    first, second = hash_pairs(chunked(texts, size))
    found = find_repeated_hashes(first & np.uint64((1 << bits) - 1), second)
    rows = found.rows.tolist()
    assert len(set(rows)) == len(rows)
    counts = Counter(texts)
    assert {row for row, text in enumerate(texts) if counts[text] > 1} <= set(rows)
    codes = dict(zip(rows, found.codes.tolist(), strict=True))
    for one in rows:
        for other in rows:
            assert (codes[one] == codes[other]) == (texts[one] == texts[other])


@pytest.mark.parametrize("few", [0, 1 << 13])
@given(TEXTS, TEXTS, st.integers(1, 9))
def test_a_set_has_its_keys_and_no_others(
    few: int, known: list[str], asked: list[str], size: int
) -> None:
    keys = chunked(known, size)
    with patch.object(key_sets, "_FEW", few):
        found = make_key_set([keys], *hash_pairs(keys))
    assert len(found) == len(known)
    if known:
        assert found.mask(chunked(asked, size)).to_pylist() == [it in known for it in asked]
