"""Statistics structs to the JSON text that ``add.stats`` holds, column-wise.

Source: PROTOCOL.md, "Per-file Statistics". Needed where a checkpoint keeps ``stats_parsed`` only.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc


def encode_stats_column(structs: pa.StructArray) -> pa.StringArray:
    """JSON text of each ``stats_parsed`` struct; null members are left out, null structs null."""
    return _encode(structs)


def _encode(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind):
        return _encode_struct(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _encode_strings(array.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _encode_floats(array)
    if pa.types.is_timestamp(kind):
        return _encode_timestamps(array)
    if pa.types.is_date(kind):
        return _quote(array.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    # Binary and nested leaves have no min/max in the protocol: no information.
    return pa.nulls(len(array), pa.string())


def _encode_struct(array: pa.StructArray) -> pa.Array:
    members = []
    for index in range(array.type.num_fields):
        name = array.type.field(index).name
        text = _encode(array.field(index))
        prefix = f"{json.dumps(name, ensure_ascii=False)}:"
        members.append(pc.binary_join_element_wise(prefix, text, ""))
    if members:
        # The leading "" keeps rows whose members are all null, which Arrow's join would drop;
        # the comma it brings is cut off again.
        joined = pc.binary_join_element_wise("", *members, ",", null_handling="skip")
        body = pc.utf8_slice_codeunits(joined, 1)
    else:
        body = pa.array([""] * len(array), pa.string())
    text = pc.binary_join_element_wise("{", body, "}", "")
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string()))


def _quote(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _encode_strings(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
        # Control characters are rare enough for the json module.
        return pa.array(
            [None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist()],
            pa.string(),
        )
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return _quote(escaped)


def _encode_floats(array: pa.Array) -> pa.Array:
    # Not numbers in JSON: Delta on Spark writes these as strings.
    text = array.cast(pa.string())
    spelled = pc.if_else(pc.is_nan(array), '"NaN"', text)
    infinite = pc.is_inf(array)
    sign = pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(infinite, sign, spelled)


def _encode_timestamps(array: pa.Array) -> pa.Array:
    zoned = array.type.tz is not None
    micros = array.cast(pa.timestamp("us", "UTC" if zoned else None), safe=False)
    text = pc.replace_substring(micros.cast(pa.string()), " ", "T")
    return _quote(text)
