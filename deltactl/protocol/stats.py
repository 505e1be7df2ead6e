"""Encode statistics of one data file: truncate minima and maxima, and count rows (``add.stats``).

If PROTOCOL.md, "Per-file Statistics", allows several forms, the form of Delta on Spark is used,
unless this form would be wrong for some reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import copysign, isinf, isnan
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf, choose_stats_columns

__all__ = [
    "FileStats",
    "LeafStats",
    "StatsColumns",
    "choose_stats_columns",
    "encode_stats",
    "num_records",
    "truncate_maximum",
    "truncate_minimum",
]

Path: TypeAlias = tuple[str, ...]
Value: TypeAlias = int | float | str | Decimal

_ASCII_TIE: Final = "\x7f"
_UNICODE_TIE: Final = "\U0010ffff"
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1)
_INFINITIES: Final = {True: '"Infinity"', False: '"-Infinity"'}


@dataclass(frozen=True, slots=True)
class LeafStats:
    """Statistics of one leaf; ``None`` means unknown.

    ``minimum`` and ``maximum`` are bounds, not necessarily values of the file. Dates are days and
    timestamps are microseconds since 1970, because Python's own types end at the year 9999.
    """

    null_count: int | None = None
    minimum: Value | None = None
    maximum: Value | None = None


_TIGHT: Final = '"tightBounds":true'


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of a file: its leaves, each by its physical path."""

    num_records: int
    leaves: Mapping[Path, LeafStats] = field(default_factory=dict)


def encode_stats(file_stats: FileStats, columns: StatsColumns) -> str:
    """Return ``add.stats``, with the fields and the order of Delta on Spark."""
    members = [f'"numRecords":{file_stats.num_records}']
    if columns.leaves:
        bounded = [leaf for leaf in columns.leaves if leaf.has_bounds]
        lower, upper, nulls = {}, {}, {}
        for leaf in columns.leaves:
            stats = file_stats.leaves.get(leaf.path, LeafStats())
            if leaf.has_bounds:
                lower[leaf.path] = _encode_bound(stats.minimum, leaf, columns, upper=False)
                upper[leaf.path] = _encode_bound(stats.maximum, leaf, columns, upper=True)
            nulls[leaf.path] = None if stats.null_count is None else str(stats.null_count)
        if bounded:
            members += [f'"minValues":{_nest(bounded, lower)}']
            members += [f'"maxValues":{_nest(bounded, upper)}']
        members += [f'"nullCount":{_nest(columns.leaves, nulls)}']
    if columns.tight_bounds:
        members.append(_TIGHT)
    return "{" + ",".join(members) + "}"


def loosen_bounds(stats: str) -> str:
    """Return encoded ``stats`` with ``tightBounds`` false, for a file with a deletion vector."""
    members = stats.removesuffix("}").removesuffix(_TIGHT).removesuffix(",")
    return members + ',"tightBounds":false}'


def _nest(leaves: Sequence[StatsLeaf], texts: Mapping[Path, str | None]) -> str:
    """Return a JSON object with the values of the leaves.

    Structs without known leaves are kept.
    """
    tree: dict[str, Any] = {}
    for leaf in leaves:
        node = tree
        for name in leaf.path[:-1]:
            node = node.setdefault(name, {})
        if (text := texts[leaf.path]) is not None:
            node[leaf.path[-1]] = text
    return _render(tree)


def _render(tree: Mapping[str, Any]) -> str:
    members = (
        f"{_quote(name)}:{node if isinstance(node, str) else _render(node)}"
        for name, node in tree.items()
    )
    return "{" + ",".join(members) + "}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _encode_bound(
    value: Value | None, leaf: StatsLeaf, columns: StatsColumns, *, upper: bool
) -> str | None:
    if value is None:
        return None
    match leaf.kind:
        case "string":
            text = _encode_string(str(value), columns.string_prefix, upper=upper)
        case "float":
            text = _encode_float(float(value), upper=upper)
        case "decimal":
            # All digits are written: a float would keep only 15 of the 38.
            text = format(Decimal(value), "f")
        case "date":
            text = _encode_date(int(value))
        case "timestamp" | "timestamp_ntz":
            text = _encode_timestamp(int(value), leaf.kind == "timestamp", upper=upper)
        case "boolean":
            text = "true" if value else "false"
        case _:
            text = str(int(value))
    return text


def _encode_string(value: str, prefix: int, *, upper: bool) -> str | None:
    bound = truncate_maximum(value, prefix) if upper else truncate_minimum(value, prefix)
    return None if bound is None else _quote(bound)


def truncate_minimum(value: str, prefix: int) -> str:
    """Return at most ``prefix`` characters that sort at or before ``value``."""
    return value[: max(prefix, 0)]


def truncate_maximum(value: str, prefix: int) -> str | None:
    """Return a short string that sorts, by UTF-8 bytes, at or after ``value``.

    The prefix is counted in UTF-16 code units, as in Spark. If no greater character exists after
    the prefix, the prefix is extended, up to twice its length. If that is not enough, return
    ``None``.
    """
    end = _skip_units(value, max(prefix, 0))
    if end >= len(value):
        return value
    if prefix <= 0:
        return None
    units = _utf16_length(value[:end])
    while units <= 2 * prefix:
        if end == len(value):
            return value
        if value[end] < _ASCII_TIE:
            return value[:end] + _ASCII_TIE
        if value[end] < _UNICODE_TIE:
            return value[:end] + _UNICODE_TIE
        units, end = units + 2, end + 1
    return None


def _skip_units(value: str, limit: int) -> int:
    """Return how many characters the first ``limit`` UTF-16 units have; pairs are not divided."""
    if value.isascii():
        return min(limit, len(value))
    units = 0
    for index, character in enumerate(value):
        if units >= limit:
            return index
        units += 1 if character <= "\uffff" else 2
    return len(value)


def _utf16_length(text: str) -> int:
    return len(text) + (0 if text.isascii() else sum(c > "\uffff" for c in text))


def _encode_float(value: float, *, upper: bool) -> str | None:
    if isnan(value):
        # Readers order NaN differently: a column with NaN gets no bounds.
        return None
    if isinf(value):
        return _INFINITIES[value > 0]
    if value == 0:
        # -0.0 and 0.0 are equal in SQL, but some readers distinguish them: the bounds include both.
        value = copysign(0.0, 1 if upper else -1)
    # Write a float32 with the digits of the equal double. Otherwise a reader that parses 1.1 as a
    # double (as after type widening) would skip a file that has 1.1f.
    return repr(value)


def _encode_date(days: int) -> str | None:
    try:
        return f'"{date.fromordinal(_EPOCH_ORDINAL + days).isoformat()}"'
    except (ValueError, OverflowError):
        return None  # after the last year that readers parse


def _encode_timestamp(micros: int, zoned: bool, *, upper: bool) -> str | None:
    """Return ISO 8601 in milliseconds, as Delta on Spark, or in microseconds if these differ.

    Spark rounds both bounds down, and adds 1 ms to a maximum when it skips files. delta-rs and
    DuckDB do not add 1 ms. A maximum with exact microseconds is correct for all readers.
    """
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    exact = upper and micros % 1000 != 0
    text = moment.isoformat(timespec="microseconds" if exact else "milliseconds")
    return f'"{text}Z"' if zoned else f'"{text}"'


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
