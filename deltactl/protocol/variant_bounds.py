"""Encode and merge bounds of variants: each is an encoded object of paths and their bounds.

Source: PROTOCOL.md, "Statistics for Variant Columns"; Parquet's VariantEncoding.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError
from deltactl.protocol.variants import join_object, read_variant, split_object
from deltactl.protocol.z85 import z85_decode, z85_encode

_INTEGERS: Final = frozenset({3, 4, 5, 6, 11, 12, 13})  # also dates and times of microseconds
_DECIMALS: Final = frozenset({8, 9, 10})
_LONG_STRING: Final = 16
# UTF-8 and UTF-16 sort these characters differently. Readers see U+FFFD if bytes are not UTF-8.
_AMBIGUOUS: Final = ("\ue000", "\uffff")


def merge_variant_bounds(files: Sequence[tuple[str | None, str | None]]) -> tuple[str, str] | None:
    """Return minimum and maximum of the variants of all files; ``None`` if nothing is known.

    A path is known if all minima and maxima have it, in one type that all readers sort in the same
    way.

    Args:
        files: minimum and maximum of each file, in z85 as in the JSON of its statistics.
    """
    try:
        objects = [split_object(z85_decode(text or "")) for text in chain.from_iterable(files)]
    except (DeltactlError, ValueError):
        return None
    lower, upper = {}, {}
    for path in set.intersection(*map(set, objects)):
        values = [found[path] for found in objects]
        sorted_by = [(key, value) for value in values if (key := _sort_key(value)) is not None]
        if len(sorted_by) == len(values) and len({kind for (kind, _), _ in sorted_by}) == 1:
            lower[path], upper[path] = min(sorted_by[::2])[1], max(sorted_by[1::2])[1]
    return (_to_text(join_object(lower)), _to_text(join_object(upper))) if lower else None


def encode_variants(variants: pa.Array) -> pa.Array:
    """Return bounds of ``stats_parsed`` as in JSON; null if they are null or one is not valid."""
    try:
        value, metadata = read_variant(variants).flatten()
    except DeltactlError:
        return pa.nulls(len(variants), pa.string())
    joined = pc.binary_join_element_wise(metadata, value, b"").to_pylist()
    return pa.array([None if data is None else _to_text(data) for data in joined], pa.string())


def _sort_key(value: bytes) -> tuple[object, int | bytes] | None:
    """Return the type and the sort key of a value; ``None`` if readers may sort it differently.

    NaN and -0.0 are such values.
    """
    kind, number = value[0] & 3, value[0] >> 2
    if kind == 1 or (kind == 0 and number == _LONG_STRING):
        text = value[1:] if kind == 1 else value[5:]
        first, last = _AMBIGUOUS
        is_ambiguous = any(first <= char <= last for char in text.decode(errors="replace"))
        return None if is_ambiguous else ("string", text)
    if kind == 0 and number in _INTEGERS:
        return number, int.from_bytes(value[1:], "little", signed=True)
    if kind == 0 and number in _DECIMALS:
        return (number, value[1]), int.from_bytes(value[2:], "little", signed=True)
    return None


def _to_text(data: bytes) -> str:
    return z85_encode(data + bytes(-len(data) % 4))
