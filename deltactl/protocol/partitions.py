"""Convert partition values: strings of ``add.partitionValues`` to typed Arrow columns.

The strings do not change with the schema. After type widening, an old file can have ``1`` in a
column that is now a double, or ``2024-01-01`` in a column that is now a timestamp without time
zone. So each type accepts the strings of all types that can be widened to it.

This module does not handle escapes in directory names: ``paths`` does (``hive_escape``). Source:
PROTOCOL.md, "Partition Value Serialization".
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.numpy_types import Flags
from deltactl.protocol.arrow_schemas import array_of, describe_type, texts_of
from deltactl.protocol.partition_texts import format_float, text_parser, zone_mask

_MAP_TYPE: Final = pa.map_(pa.string(), pa.string())


def parse_partition_column(
    values: pa.Array | pa.ChunkedArray, type: pa.DataType, *, column: str | None = None
) -> pa.Array | pa.ChunkedArray:
    """Return typed partition values of one column.

    Args:
        values: strings, ``string`` or ``large_string``; null and ``""`` both mean null.
        type: integers, floats, decimal128, bool, date32, ``timestamp("us", "UTC")``,
            ``timestamp("us")``, string or binary. Timestamps without a zone are read as UTC.
        column: the column's name, for error messages.

    Returns:
        An array of ``type``, chunked as ``values`` is. Each distinct string is parsed once.

    Raises:
        CorruptLogError: a string is not a valid value, or a partition column cannot have the type.
    """
    if not isinstance(values, pa.ChunkedArray):
        return _parse_chunks([values], type, column)[0]
    return pa.chunked_array(_parse_chunks(values.chunks, type, column), type)


def _parse_chunks(chunks: list[pa.Array], type: pa.DataType, column: str | None) -> list[pa.Array]:
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return [_parse_strings(chunk, type) for chunk in chunks]
    if not chunks:
        return []
    distinct = pc.unique(pa.chunked_array(chunks))
    parsed = _parse_distinct(distinct, type, column)
    return [parsed.take(pc.index_in(chunk, value_set=distinct)) for chunk in chunks]


def _parse_strings(texts: pa.Array, type: pa.DataType) -> pa.Array:
    empty = pc.equal(texts, "")
    if pc.any(empty).as_py():
        texts = pc.if_else(empty, pa.scalar(None, texts.type), texts)
    return texts if texts.type == type else texts.cast(type)


def _parse_distinct(distinct: pa.Array, type: pa.DataType, column: str | None) -> pa.Array:
    if pa.types.is_timestamp(type) or pa.types.is_date(type):
        # A table may have one timestamp per file. Arrow's cast is fast and supports the usual
        # forms.
        with contextlib.suppress(pa.ArrowInvalid):
            return _cast_moments(_parse_strings(distinct, distinct.type), type)
    parse = text_parser(type)
    if parse is None:
        named = f" {column!r}" if column else ""
        raise CorruptLogError(
            f"partition column{named} has type {describe_type(type)}, which cannot partition a "
            "table"
        )
    of_column = f" of column {column!r}" if column else ""
    parsed: list[object] = []
    for text in distinct.to_pylist():
        try:
            parsed.append(parse(text) if text else None)
        except (ValueError, ArithmeticError):
            raise CorruptLogError(
                f"partition value {text!r}{of_column} is not a valid {describe_type(type)}",
                hint="Run `deltactl check TABLE`, which names the files. `deltactl explain "
                "PARTITION_VALUE` says how to remove them.",
            ) from None
    return pa.array(parsed, type)


def _cast_moments(texts: pa.Array, type: pa.DataType) -> pa.Array:
    """Cast ``texts``; raise ``ArrowInvalid`` unless all have one form that Arrow supports."""
    try:
        return texts.cast(type)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(type) or type.tz != "UTC":
            raise
    # The strings have no time zone: they are UTC.
    return texts.cast(pa.timestamp(type.unit)).cast(type)


def format_partition_values(
    texts: pa.Array, type: pa.DataType, *, assume_utc: bool = False, column: str | None = None
) -> pa.Array:
    """Return each text in the form of the protocol; null and ``""`` become null.

    Args:
        texts: strings that are valid values of a column of ``type``.
        type: as for ``parse_partition_column``. Texts of strings and bytes do not change.
        assume_utc: whether a timestamp without a zone gets one. Otherwise, it stays without a
            zone, because readers use their own zone for it.
        column: the column's name, for error messages.

    Raises:
        CorruptLogError: a text is not a valid value.
    """
    typed = parse_partition_column(texts, type, column=column)
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return texts
    if pa.types.is_timestamp(type):
        local = typed.cast(pa.timestamp("us")).cast(pa.string())
        found = pc.replace_substring_regex(local, r"\.000000$", "")
        if type.tz:
            utc = pc.binary_join_element_wise(pc.replace_substring(local, " ", "T"), "Z", "")
            found = utc if assume_utc else pc.if_else(zone_mask(texts), utc, found)
    elif pa.types.is_floating(type):
        found = pa.array([format_float(value) for value in typed], pa.string())
    elif pa.types.is_decimal(type):
        values = [None if v is None else format(v, "f") for v in typed.to_pylist()]
        found = pa.array(values, pa.string())
    else:
        found = typed.cast(pa.string())
    # Years with other than four digits have no form in the protocol.
    is_plain = pc.match_substring_regex(found, r"^\d{4}-") if pa.types.is_temporal(type) else True
    return pc.if_else(is_plain, found, texts)


def normalize_partition_column(
    values: pa.ChunkedArray, type: pa.DataType, *, column: str | None = None
) -> pa.ChunkedArray:
    """Return strings of one column that are equal if and only if the values are equal.

    A timestamp without a zone is in UTC. The arguments and errors are those of
    :func:`parse_partition_column`; null and "" become null.
    """
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return parse_partition_column(values, pa.string(), column=column)
    distinct = pc.unique(values)
    texts = format_partition_values(distinct, type, assume_utc=True, column=column)
    chunks = [texts.take(pc.index_in(chunk, value_set=distinct)) for chunk in values.chunks]
    return pa.chunked_array(chunks, pa.string())


def lookup_map(maps: pa.Array | pa.ChunkedArray, key: str) -> pa.Array | pa.ChunkedArray:
    """Return the value of ``key`` in each row; null if the row is null or has no such key.

    If a row has the key several times, the last value is used.
    """
    return pc.map_lookup(maps, key, "last")


def find_foreign_key(maps: pa.ChunkedArray, keys: Collection[str]) -> str | None:
    """Return a key with a value that is none of ``keys``; ``None`` if there is no such key.

    Keys are compared exactly, as all readers do.

    Args:
        maps: ``map<string, string>``, rows of any layout.
        keys: physical names of the partition columns.
    """
    known = pa.array(list(keys), pa.string())
    for chunk in maps.chunks:
        names, values = _entries(chunk)
        is_foreign = pc.and_(pc.invert(pc.is_in(names, value_set=known)), values.is_valid())
        if (found := pc.index(is_foreign, True).as_py()) >= 0:
            return str(names[found])
    return None


def _entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values of all rows."""
    offsets = maps.offsets.to_numpy(zero_copy_only=False)
    first, last = int(offsets[0]), int(offsets[-1])
    return tuple(maps.values.field(i).slice(first, last - first) for i in (0, 1))


def drop_stale_nulls(maps: pa.MapArray, keys: Collection[str]) -> pa.MapArray:
    """Remove null values of all keys except ``keys``; return the input if there are none.

    Rows that were read as columns have a null for every key that any row of the log has. After a
    change of the partition columns, the nulls of earlier partition columns must not be written.
    """
    offsets = maps.offsets.to_numpy(zero_copy_only=False)
    names, items = _entries(maps)
    if set(pc.unique(names).to_pylist()) <= set(keys):
        return maps
    kept = pc.or_(pc.is_in(names, value_set=pa.array(list(keys), pa.string())), items.is_valid())
    counts = np.concatenate([[0], np.cumsum(kept.to_numpy(zero_copy_only=False))])
    places = pa.array(counts[offsets - offsets[0]].astype(np.int32), mask=_starts_of_nulls(maps))
    return pa.MapArray.from_arrays(places, names.filter(kept), items.filter(kept), _MAP_TYPE)


def _starts_of_nulls(maps: pa.MapArray) -> Flags | None:
    """Return a mask of row starts to set to null, so that Arrow makes these rows null."""
    if not maps.null_count:
        return None
    return np.append(maps.is_null().to_numpy(zero_copy_only=False), False)


def build_map(columns: Mapping[str, pa.Array], *, num_rows: int | None = None) -> pa.MapArray:
    """Return ``map<string, string>`` rows with one entry per column, in the order given.

    Args:
        columns: strings, of equal length; a null becomes the key with a null value.
        num_rows: required if ``columns`` is empty (every row is then an empty map).
    """
    arrays = [_as_strings(column) for column in columns.values()]
    rows = len(arrays[0]) if arrays else num_rows or 0
    width = len(arrays)
    offsets = array_of(np.arange(rows + 1, dtype=np.int32) * np.int32(width))
    if not arrays:
        empty = texts_of([])
        return pa.MapArray.from_arrays(offsets, empty, empty, _MAP_TYPE)
    names = texts_of(list(columns))
    if width == 1:
        return pa.MapArray.from_arrays(offsets, pa.repeat(names[0], rows), arrays[0], _MAP_TYPE)
    keys = names.take(array_of(np.tile(np.arange(width), rows)))
    # Convert column order to row order.
    order = np.arange(width * rows).reshape(width, rows).T.ravel()
    items = pa.concat_arrays(arrays).take(array_of(order))
    return pa.MapArray.from_arrays(offsets, keys, items, _MAP_TYPE)


def _as_strings(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type == pa.string() else array.cast(pa.string())
