"""Encode statistics of many files at once, as columns.

``protocol/stats`` encodes the statistics of one new file and contains the rules for the truncation
of bounds. The Arrow kernels in this module compute the same result. Source: PROTOCOL.md, "Per-file
Statistics".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.stats import Path, truncate_maximum, truncate_minimum
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.stats_json import encode_strings, join_objects, quote_texts

# The first and last date that readers parse (years 1 and 9999), in days and in microseconds.
_FIRST_DAY: Final = -719162
_LAST_DAY: Final = 2932896
_DAY_US: Final = 86_400_000_000
_UNDECODED: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class LeafColumns:
    """One leaf of many files: null counts (int64) and bounds (JSON); null if unknown."""

    nulls: pa.Array
    lower: pa.Array | None = None
    upper: pa.Array | None = None


def encode_bounds(values: Sequence[Any], kind: str, string_prefix: int, *, upper: bool) -> pa.Array:
    """Return bounds of one leaf of many files as JSON.

    Args:
        values: days, microseconds, integers, decimals, or UTF-8 bytes; ``None`` if unknown.
        kind: as in :class:`~deltactl.protocol.stats_columns.StatsLeaf`, except floats.
        string_prefix: the number of characters to which strings are truncated.
        upper: whether the values are maxima.
    """
    match kind:
        case "string":
            return _encode_texts(values, string_prefix, upper)
        case "date":
            return _encode_days(values)
        case "timestamp" | "timestamp_ntz":
            return _encode_micros(values, kind == "timestamp", upper)
        case "decimal":
            texts = [None if v is None else format(Decimal(v), "f") for v in values]
            return pa.array(texts, pa.string())
        case "boolean":
            return pa.array(values, pa.bool_()).cast(pa.string())
        case _:
            return pa.array(values, pa.int64()).cast(pa.string())


def _encode_texts(values: Sequence[bytes | None], prefix: int, upper: bool) -> pa.Array:
    raw = pa.array(values, pa.binary())
    long = pc.fill_null(pc.greater(pc.binary_length(raw), max(prefix, 0)), False)
    try:
        texts = raw.cast(pa.string())
    except pa.ArrowInvalid:  # a bound was truncated in the middle of a character
        texts = pa.array([_decode(value) for value in values], pa.string())
    if pc.any(long).as_py():
        cut = truncate_maximum if upper else truncate_minimum
        shortened = [
            None if text is None else cut(text, prefix) for text in texts.filter(long).to_pylist()
        ]
        texts = pc.replace_with_mask(texts, long, pa.array(shortened, pa.string()))
    return encode_strings(texts)


def _decode(value: bytes | None) -> str | None:
    text = None if value is None else value.decode(errors="replace")
    return None if text is None or _UNDECODED in text else text


def _encode_days(values: Sequence[int | None]) -> pa.Array:
    days = _within(pa.array(values, pa.int64()), _FIRST_DAY, _LAST_DAY)
    return quote_texts(days.cast(pa.int32()).cast(pa.date32()).cast(pa.string()))


def _encode_micros(values: Sequence[int | None], zoned: bool, upper: bool) -> pa.Array:
    last = (_LAST_DAY + 1) * _DAY_US - 1
    micros = _within(pa.array(values, pa.int64()), _FIRST_DAY * _DAY_US, last)
    # numpy rounds down, also before 1970.
    millis = pa.array(
        pc.fill_null(micros, 0).to_numpy() // 1000, mask=micros.is_null().to_numpy(False)
    )
    texts = millis.cast(pa.timestamp("ms")).cast(pa.string())
    if upper:
        # A maximum with exact microseconds is correct for every reader.
        exact = pc.equal(micros, pc.multiply(millis, 1000))
        texts = pc.if_else(exact, texts, micros.cast(pa.timestamp("us")).cast(pa.string()))
    end = 'Z"' if zoned else '"'
    return pc.binary_join_element_wise('"', pc.replace_substring(texts, " ", "T"), end, "")


def _within(values: pa.Array, least: int, greatest: int) -> pa.Array:
    is_within = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, greatest))
    return pc.if_else(is_within, values, pa.scalar(None, pa.int64()))


def encode_stats_of_files(
    num_records: pa.Array, leaves: Mapping[Path, LeafColumns], columns: StatsColumns
) -> pa.Array:
    """Return ``add.stats`` of each file.

    Args:
        num_records: the number of rows of each file.
        leaves: statistics of each leaf in the files. If no file has a leaf, every row of it is
            null.
        columns: the leaves to encode, in this order.
    """
    rows = len(num_records)
    unknown = pa.nulls(rows, pa.string())
    bounded = [leaf for leaf in columns.leaves if leaf.has_bounds]
    lower, upper, nulls = {}, {}, {}
    for leaf in columns.leaves:
        known = leaves.get(leaf.path)
        nulls[leaf.path] = (num_records if known is None else known.nulls).cast(pa.string())
        if leaf.has_bounds:
            lower[leaf.path] = unknown if known is None or known.lower is None else known.lower
            upper[leaf.path] = unknown if known is None or known.upper is None else known.upper
    members = [("numRecords", num_records.cast(pa.string()))]
    if columns.leaves:
        if bounded:
            members += [("minValues", _nest(bounded, lower, rows))]
            members += [("maxValues", _nest(bounded, upper, rows))]
        members += [("nullCount", _nest(columns.leaves, nulls, rows))]
    if columns.tight_bounds:
        members += [("tightBounds", pa.array(np.full(rows, "true")).cast(pa.string()))]
    return join_objects(members, rows)


def _nest(leaves: Sequence[StatsLeaf], texts: Mapping[Path, pa.Array], rows: int) -> pa.Array:
    tree: dict[str, Any] = {}
    for leaf in leaves:
        node = tree
        for name in leaf.path[:-1]:
            node = node.setdefault(name, {})
        node[leaf.path[-1]] = texts[leaf.path]
    return _join(tree, rows)


def _join(tree: Mapping[str, Any], rows: int) -> pa.Array:
    members = [
        (name, _join(node, rows) if isinstance(node, dict) else node) for name, node in tree.items()
    ]
    return join_objects(members, rows)
