"""Statistics of one data file (``add.stats``) as objects; count the rows of many files.

Source: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

FieldPath: TypeAlias = tuple[str, ...]
Value: TypeAlias = int | float | str | Decimal


@dataclass(frozen=True, slots=True)
class LeafStats:
    """Statistics of one leaf; ``None`` means unknown.

    ``minimum`` and ``maximum`` are bounds, not necessarily values of the file. Dates are days and
    timestamps are microseconds since 1970, because Python's own types end at the year 9999.
    """

    null_count: int | None = None
    minimum: Value | None = None
    maximum: Value | None = None


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of a file: its leaves, each by its physical path."""

    num_records: int
    leaves: Mapping[FieldPath, LeafStats] = field(default_factory=dict)


NUM_RECORDS_FIRST: Final = r'^\s*\{\s*"numRecords"\s*:\s*(?P<rows>[0-9]{1,18})\s*[,}]'
"""Matches ``numRecords`` as the first field, its usual place; there it cannot be a nested field."""
_HEAD_CHARACTERS: Final = 48
_MAX_RECORDS: Final = (1 << 63) - 1
_MOST_DIGITS: Final = 400  # more digits than any double has


def num_records(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ``numRecords`` of each string as int64; null if :func:`row_count` gives ``None``."""
    chunks = [_num_records_of(chunk) for chunk in stats.chunks]
    return pa.chunked_array(chunks, pa.int64())


def _num_records_of(texts: pa.Array) -> pa.Array:
    # Only the start of each string is matched, because the strings are long.
    heads = pc.binary_slice(texts.cast(_binary_like(texts.type)), 0, _HEAD_CHARACTERS)
    rows = pc.struct_field(pc.extract_regex(heads, NUM_RECORDS_FIRST), "rows")
    rows = rows.cast(pa.string()).cast(pa.int64())
    unsettled = pc.and_(rows.is_null(), texts.is_valid())
    if not pc.any(unsettled).as_py():
        return rows
    parsed = [_parse_num_records(text) for text in texts.filter(unsettled).to_pylist()]
    return pc.replace_with_mask(rows, unsettled, pa.array(parsed, pa.int64()))


def _binary_like(type_: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pa.types.is_large_string(type_) else pa.binary()


def _parse_num_records(text: str) -> int | None:
    try:
        node = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row_count(node.get("numRecords")) if isinstance(node, dict) else None


def row_count(value: object) -> int | None:
    """Return a JSON value as a number of rows; ``None`` if it is no integer from 0 to 2^63-1.

    ``5.0`` is not accepted, although Delta on Spark and delta-rs read it as 5 rows. PROTOCOL.md,
    "Per-file Statistics", does not say which form the number has.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= _MAX_RECORDS else None


def whole_number(value: Any) -> int | None:
    """Return a number as an integer; ``None`` if it has a fraction or is too large for a double.

    ``1e999999999`` is a short text, but as an integer it would need too much memory.

    Raises:
        ValueError, ArithmeticError, TypeError: the value is not a number.
    """
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() > _MOST_DIGITS:
        return None
    whole = int(value)
    return whole if whole == value else None
