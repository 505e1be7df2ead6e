"""Encode columns of statistics structs as the JSON of ``add.stats``.

This is used for checkpoints that have only ``stats_parsed``, and for statistics of many files at
once. Source: PROTOCOL.md, "Per-file Statistics".
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def encode_stats_column(structs: pa.StructArray) -> pa.StringArray:
    """Return the JSON of each ``stats_parsed`` struct, without null members; null if null."""
    return _encode(structs)


def _encode(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind):
        return _encode_struct(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return encode_strings(array.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _encode_floats(array)
    if pa.types.is_timestamp(kind):
        return _encode_timestamps(array)
    if pa.types.is_date(kind):
        return quote_texts(array.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    # Binary and nested leaves have no minimum or maximum in the protocol.
    return pa.nulls(len(array), pa.string())


def _encode_struct(array: pa.StructArray) -> pa.Array:
    kind = array.type
    members = [
        (kind.field(i).name, _encode(array.field(i)).cast(pa.string()))
        for i in range(kind.num_fields)
    ]
    text = join_objects(members, len(array))
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def join_objects(members: Sequence[tuple[str, pa.Array]], num_rows: int) -> pa.Array:
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


def quote_texts(texts: pa.Array) -> pa.Array:
    """Return each text as a JSON string; the texts must not need escapes."""
    return pc.binary_join_element_wise('"', texts, '"', "")


def encode_strings(texts: pa.Array) -> pa.Array:
    """Return each text as a JSON string; nulls stay null."""
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        # Control characters are rare, so the json module is fast enough.
        return pa.array(
            [None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()],
            pa.string(),
        )
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return quote_texts(escaped)


def _encode_floats(array: pa.Array) -> pa.Array:
    # JSON has no number for NaN and infinity: Delta on Spark writes them as strings.
    text = array.cast(pa.string())
    spelled = pc.if_else(pc.is_nan(array), '"NaN"', text)
    infinite = pc.is_inf(array)
    sign = pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(infinite, sign, spelled)


def _encode_timestamps(array: pa.Array) -> pa.Array:
    zoned = array.type.tz is not None
    micros = array.cast(pa.timestamp("us", "UTC" if zoned else None), safe=False)
    text = pc.replace_substring(micros.cast(pa.string()), " ", "T")
    return quote_texts(text)
