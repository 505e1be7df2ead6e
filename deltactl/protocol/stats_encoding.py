"""Encode statistics of files as the JSON of ``add.stats``: one way for one and for many files.

If PROTOCOL.md, "Per-file Statistics", allows several forms, the form of Delta on Spark is used,
unless this form would be wrong for some reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from json.encoder import encode_basestring
from math import copysign, isinf, isnan
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.stats import FieldPath, FileStats, LeafStats
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.protocol.variant_bounds import encode_variants

# The first and last date that readers parse (years 1 and 9999), in days and in microseconds.
_EPOCH: Final = datetime(1970, 1, 1)
_FIRST_DAY: Final = -719162
_LAST_DAY: Final = 2932896
_DAY_US: Final = 86_400_000_000
_ASCII_TIE: Final = "\x7f"
_UNICODE_TIE: Final = "\U0010ffff"
_INFINITIES: Final = {True: '"Infinity"', False: '"-Infinity"'}
_TIGHT: Final = '"tightBounds":true'


@dataclass(frozen=True, slots=True)
class LeafColumns:
    """One leaf of many files: null counts (int64) and bounds (JSON); null if unknown."""

    nulls: pa.Array
    lower: pa.Array | None = None
    upper: pa.Array | None = None


def encode_stats(file_stats: FileStats, columns: StatsColumns) -> str:
    """Return ``add.stats`` of one file, with the fields and the order of Delta on Spark."""
    leaves = {}
    for leaf in columns.leaves:
        found, known = file_stats.leaves.get(leaf.path, LeafStats()), columns.known.get(leaf.path)
        nulls = found.null_count if known is None or known.null_count is None else known.null_count
        of_leaf = encode_leaf(
            leaf, [nulls], [found.minimum], [found.maximum], columns.string_prefix
        )
        if known is not None and known.null_count is None:
            bounds = (pa.array([json.dumps(it)]) for it in (known.minimum, known.maximum))
            of_leaf = LeafColumns(of_leaf.nulls, *bounds)
        leaves[leaf.path] = of_leaf
    rows = pa.array([file_stats.num_records], pa.int64())
    return str(encode_stats_of_files(rows, leaves, columns)[0])


def loosen_bounds(stats: str) -> str:
    """Return encoded ``stats`` with ``tightBounds`` false, for a file with a deletion vector."""
    members = stats.removesuffix("}").removesuffix(_TIGHT).removesuffix(",")
    return members + ',"tightBounds":false}'


def encode_leaf(
    leaf: StatsLeaf,
    nulls: Sequence[int | None],
    lower: Sequence[Any],
    upper: Sequence[Any],
    string_prefix: int,
) -> LeafColumns:
    """Return statistics of one leaf of many files as columns.

    Bounds and ``string_prefix``: see ``encode_bounds``.
    """
    counts = pa.array(nulls, pa.int64())
    if not leaf.has_bounds:
        return LeafColumns(counts)
    return LeafColumns(
        counts,
        pa.array(encode_bounds(lower, leaf.kind, string_prefix, upper=False), pa.string()),
        pa.array(encode_bounds(upper, leaf.kind, string_prefix, upper=True), pa.string()),
    )


def encode_bounds(
    values: Iterable[Any], kind: str, string_prefix: int, *, upper: bool
) -> list[str | None]:
    """Return bounds of one leaf of many files as JSON; ``None`` if unknown.

    Args:
        values: days, microseconds, numbers, or strings or their UTF-8 bytes; ``None`` if unknown.
        kind: as in :class:`~deltactl.protocol.stats_columns.StatsLeaf`.
        string_prefix: the number of characters to which strings are truncated.
        upper: whether the values are maxima.
    """
    encode = _choose_encoder(kind, string_prefix, upper)
    return [None if value is None else encode(value) for value in values]


def _choose_encoder(kind: str, prefix: int, upper: bool) -> Callable[[Any], str | None]:
    match kind:
        case "string":
            return partial(_encode_text, prefix=prefix, upper=upper)
        case "date":
            return _encode_day
        case "timestamp" | "timestamp_ntz":
            return partial(_encode_micros, zone="Z" if kind == "timestamp" else "", upper=upper)
        case "decimal":
            return lambda value: format(Decimal(value), "f")
        case "float":
            return lambda value: _encode_float(float(value), upper=upper)
        case "boolean":
            return lambda value: "true" if value else "false"
        case _:
            return str


def _encode_text(value: bytes | str, *, prefix: int, upper: bool) -> str | None:
    try:
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None  # truncated in the middle of a character
    cut = truncate_maximum(text, prefix) if upper else truncate_minimum(text, prefix)
    return None if cut is None else encode_basestring(cut)


def _encode_day(days: int) -> str | None:
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return None
    return f'"{(_EPOCH + timedelta(days)).date().isoformat()}"'


def _encode_micros(micros: int, *, zone: str, upper: bool) -> str | None:
    if not _FIRST_DAY * _DAY_US <= micros < (_LAST_DAY + 1) * _DAY_US:
        return None
    # A maximum with exact microseconds is correct for every reader.
    is_exact = upper and micros % 1000
    text = (_EPOCH + timedelta(microseconds=micros)).isoformat(
        timespec="microseconds" if is_exact else "milliseconds"
    )
    return f'"{text}{zone}"'


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
    if _utf16_length(value[:limit]) <= limit:
        return min(limit, len(value))
    units = 0
    for index, character in enumerate(value):
        if units >= limit:
            return index
        units += 1 if character <= "\uffff" else 2
    return len(value)


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


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


def encode_stats_of_files(
    num_records: pa.Array, leaves: Mapping[FieldPath, LeafColumns], columns: StatsColumns
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
    lower, upper, nulls = {}, {}, {}
    for leaf in columns.leaves:
        known = leaves.get(leaf.path, LeafColumns(num_records))
        nulls[leaf.path] = known.nulls.cast(pa.string())
        if leaf.has_bounds or known.lower is not None:
            lower[leaf.path] = unknown if known.lower is None else known.lower
            upper[leaf.path] = unknown if known.upper is None else known.upper
    members: dict[str, Any] = {"numRecords": num_records.cast(pa.string())}
    if bounded := [leaf for leaf in columns.leaves if leaf.path in lower]:
        members |= {"minValues": _nest(bounded, lower), "maxValues": _nest(bounded, upper)}
    if columns.leaves:
        members["nullCount"] = _nest(columns.leaves, nulls)
    if columns.tight_bounds:
        members["tightBounds"] = pa.array(np.full(rows, "true")).cast(pa.string())
    return _join(members, rows)


def _nest(leaves: Sequence[StatsLeaf], values: Mapping[FieldPath, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for leaf in leaves:
        node = tree
        for name in leaf.path[:-1]:
            node = node.setdefault(name, {})
        node[leaf.path[-1]] = values[leaf.path]
    return tree


def _join(tree: Mapping[str, Any], rows: int) -> pa.Array:
    members = [
        (name, _join(node, rows) if isinstance(node, dict) else node) for name, node in tree.items()
    ]
    return _join_objects(members, rows)


def encode_stats_column(structs: pa.StructArray) -> pa.StringArray:
    """Return the JSON of each ``stats_parsed`` struct, without null members; null if null."""
    return _encode(structs)


def _encode(array: pa.Array) -> pa.Array:
    kind = array.type
    if _is_variant(kind):
        return _encode_strings(encode_variants(array))
    if pa.types.is_struct(kind):
        return _encode_struct(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _encode_strings(array.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _encode_floats(array)
    if pa.types.is_timestamp(kind):
        return _encode_timestamps(array)
    if pa.types.is_date(kind):
        return _quote_texts(array.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    # Binary and nested leaves have no minimum or maximum in the protocol.
    return pa.nulls(len(array), pa.string())


def _is_variant(kind: pa.DataType) -> bool:
    """Return whether bounds are those of variants: other binary values have no bounds."""
    group = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return pa.types.is_struct(group) and any(
        member.name == "metadata" and pa.types.is_binary(member.type) for member in group
    )


def _encode_struct(array: pa.StructArray) -> pa.Array:
    kind = array.type
    members = [
        (kind.field(i).name, _encode(array.field(i)).cast(pa.string()))
        for i in range(kind.num_fields)
    ]
    text = _join_objects(members, len(array))
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _join_objects(members: Sequence[tuple[str, pa.Array]], num_rows: int) -> pa.Array:
    """Return a JSON object for each row from the JSON of its members, without null members."""
    if not members:
        return pa.array(["{}"] * num_rows, pa.string())
    # Arrow's join would drop a row whose members are all null. The leading "" keeps this row; the
    # comma that it adds is removed.
    joined = pc.binary_join_element_wise(
        "",
        *(
            pc.binary_join_element_wise(f"{json.dumps(name, ensure_ascii=False)}:", text, "")
            for name, text in members
        ),
        ",",
        null_handling="skip",
    )
    body = pc.utf8_slice_codeunits(joined, 1)
    return pc.binary_join_element_wise("{", body, "}", "")


def _quote_texts(texts: pa.Array) -> pa.Array:
    """Return each text as a JSON string; the texts must not need escapes."""
    return pc.binary_join_element_wise('"', texts, '"', "")


def _encode_strings(texts: pa.Array) -> pa.Array:
    """Return each text as a JSON string; nulls stay null."""
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        # Control characters are rare, so the json module is fast enough.
        return pa.array(
            [None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()],
            pa.string(),
        )
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return _quote_texts(escaped)


def _encode_floats(array: pa.Array) -> pa.Array:
    # The digits of a double: see _encode_float.
    text = array.cast(pa.float64()).cast(pa.string())
    # JSON has no number for NaN and infinity: Delta on Spark writes them as strings.
    spelled = pc.if_else(pc.is_nan(array), '"NaN"', text)
    infinite = pc.is_inf(array)
    sign = pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(infinite, sign, spelled)


def _encode_timestamps(array: pa.Array) -> pa.Array:
    zoned = array.type.tz is not None
    micros = array.cast(pa.timestamp("us", "UTC" if zoned else None), safe=False)
    text = pc.replace_substring(micros.cast(pa.string()), " ", "T")
    return _quote_texts(text)
