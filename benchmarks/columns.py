"""Seeded columns of many rows at once: strings, ids, decimals. No loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def join(*parts: Any) -> pa.StringArray:
    """Texts or numbers side by side in each row; a ``str`` is the same in all rows."""
    return pc.binary_join_element_wise(*(_as_text(part) for part in parts), "")


def _as_text(part: Any) -> Any:
    if isinstance(part, str):
        return pa.scalar(part)
    return part if pa.types.is_string(part.type) else part.cast(pa.string())


def uuids(rng: np.random.Generator, count: int) -> pa.StringArray:
    """Random texts in the form of UUIDs."""
    digits = np.frombuffer(rng.bytes(16 * count).hex().encode(), np.uint8).reshape(count, 32)
    texts = np.full((count, 36), ord("-"), np.uint8)
    start = 0
    for target, length in ((0, 8), (9, 4), (14, 4), (19, 4), (24, 12)):
        texts[:, target : target + length] = digits[:, start : start + length]
        start += length
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))


def texts(rng: np.random.Generator, count: int, most: int) -> pa.StringArray:
    """Texts of letters and spaces, of one to ``most`` characters."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(rng.integers(1, most + 1, count), out=offsets[1:])
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz     ", np.uint8)
    characters = letters[rng.integers(0, len(letters), offsets[-1])]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters))


def chosen(rng: np.random.Generator, count: int, values: Sequence[str]) -> pa.StringArray:
    """Each row one of the values, at random."""
    return pa.array(values, pa.string()).take(pa.array(rng.integers(0, len(values), count)))


def padded(numbers: npt.NDArray[np.int64], width: int) -> pa.StringArray:
    """Numbers with leading zeros."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def days(numbers: npt.NDArray[np.int64]) -> pa.StringArray:
    """Days since 2024-01-01 as ISO dates."""
    return pa.array(np.datetime64("2024-01-01") + numbers.astype("m8[D]")).cast(pa.string())


def decimals(unscaled: npt.NDArray[np.int64], precision: int, scale: int) -> pa.Array:
    """Decimals of the given unscaled values."""
    words = np.empty((len(unscaled), 2), np.int64)
    words[:, 0] = unscaled
    words[:, 1] = unscaled >> 63
    kind = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(kind, len(unscaled), [None, pa.py_buffer(words)])


def with_nulls(rng: np.random.Generator, array: pa.Array, share: float) -> pa.Array:
    """The array with a share of its rows null."""
    return pc.if_else(pa.array(rng.random(len(array)) >= share), array, None)
