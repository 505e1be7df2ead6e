"""Spark's hash: what Spark 4.2.0 said of the same texts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltactl.protocol.spark_hash import hash_texts

# SELECT hash(text): lengths around the words of four bytes, signed bytes at the end, null.
SAID_BY_SPARK = {
    "": 142593372,
    "a": 1485273170,
    "ab": -97053317,
    "abc": 1322437556,
    "abcd": -396302900,
    "Spark": 228093765,
    "é": 2119106806,
    "part-00000-\U0001f600.parquet": 953154996,
    None: 42,
}


def test_hashes_are_those_of_spark() -> None:
    texts = pa.array(list(SAID_BY_SPARK), pa.string())
    assert hash_texts(texts).tolist() == list(SAID_BY_SPARK.values())


@pytest.mark.parametrize("skip", [1, 3, 8, 9])
def test_slices_hash_like_the_whole(skip: int) -> None:
    texts = pa.array(list(SAID_BY_SPARK), pa.string())
    assert hash_texts(texts.slice(skip)).tolist() == hash_texts(texts).tolist()[skip:]


def test_many_rows_hash_like_one() -> None:
    """More rows than are worked on at once, of all lengths."""
    texts = ["x" * (number % 23) + str(number) for number in range(40_000)]
    together = hash_texts(pa.array(texts))
    for place in (0, 16_383, 16_384, 39_999):
        assert together[place] == hash_texts(pa.array([texts[place]]))[0]


def test_no_texts_no_hashes() -> None:
    assert len(hash_texts(pa.array([], pa.string()))) == 0
