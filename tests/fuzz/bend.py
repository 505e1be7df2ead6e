"""Inputs bent by their structure: a JSON value replaced, a Parquet column of another type.

Bytes alone rarely get past a parser; these get past it and are wrong behind it.
"""

import io
import json
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_RAW = ("1e999", "-1e999", "1e99999", "0.1e-9999", "NaN", "Infinity", "9" * 400, "-0", "1.0", "1e3")
_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 7, 2**31, -(2**31) - 1, 2**63, 2**64, -(2**63) - 1, 10**30, 1.5),
    *("", "x", "\ud800", "\x00", "\u202e<b>", "../..", "%zz", "%25", "file:///etc/passwd", "true"),
    *("1", "NaN", "2024-01-31", "+999999-01-01", "a" * 300, "{}", "[", "long", "decimal(77,-1)"),
    *([], {}, [[]], [None], {"a": {}}, {"": ""}, [1, "a"], {"path": None}, {"type": "struct"}),
    *(f"\x01{raw}\x01" for raw in _RAW),
)


def bend(form: str, data: bytes, random: Random) -> bytes | None:
    """The input bent once more; ``None`` where its structure cannot be seen."""
    if form == "json":
        return bend_json(data, random)
    if form == "parquet":
        return bend_parquet(data, random)
    return None


def bend_json(data: bytes, random: Random) -> bytes | None:
    """Replace, drop, double or wrap one value of one line."""
    lines = data.split(b"\n")
    place = random.randrange(len(lines))
    try:
        node = json.loads(lines[place])
    except (ValueError, RecursionError):
        return None
    holder = [node]
    _change(holder, random)
    try:
        text = json.dumps(holder[0])
    except (ValueError, RecursionError):
        return None
    for raw in _RAW:
        text = text.replace(f'"\\u0001{raw}\\u0001"', raw)
    lines[place] = text.encode()
    if random.random() < 0.1:
        lines.append(random.choice(lines))
    return b"\n".join(lines)


def _change(holder: list[Any], random: Random) -> None:
    node: Any = holder
    key: Any = 0
    while isinstance(node[key], dict | list) and node[key] and random.random() < 0.85:
        node = node[key]
        key = random.choice(list(node)) if isinstance(node, dict) else random.randrange(len(node))
    match random.randrange(6):
        case 0 if node is not holder:
            del node[key]
        case 1:
            node[key] = [node[key]] * random.choice((1, 2, 50))
        case 2 if isinstance(node, dict):
            node[random.choice(("a", "", "path", "type", "add", "metaData", "x" * 99))] = node[key]
        case 3 if isinstance(node[key], str):
            node[key] = _inner(node[key], random)
        case _:
            node[key] = random.choice(_VALUES)


def _inner(text: str, random: Random) -> str:
    """A string that may itself hold JSON, as schemas and statistics do."""
    changed = bend_json(text.encode("utf-8", "replace"), random) if text[:1] == "{" else None
    if changed is not None:
        return changed.decode("utf-8", "replace")
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(("", "\0", "%", "é", "\ud83d", "-", "9")) + text[at + 1 :]


_TYPES = (
    *(pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.binary(), pa.bool_()),
    *(pa.date32(), pa.timestamp("ns"), pa.decimal128(5, 2), pa.large_string(), pa.time64("us")),
    *(pa.list_(pa.string()), pa.struct([("path", pa.int32())]), pa.map_(pa.string(), pa.int64())),
    *(pa.binary(16), pa.dictionary(pa.int32(), pa.string()), pa.null(), pa.duration("us")),
)
_CODECS = ("none", "snappy", "gzip", "zstd", "brotli", "lz4")


# Sound files only: to read what is broken may end the process, and that is the target's to do.
_sound: list[bytes] = []
_MOST_SOUND = 200


def trust(data: bytes) -> None:
    """Note a valid Parquet file, which may be read and written again."""
    if len(_sound) >= _MOST_SOUND:
        del _sound[_MOST_SOUND // 2 :: 2]
    _sound.append(data)


def bend_parquet(data: bytes, random: Random) -> bytes | None:
    """Write a table again with one field of another type or name, and other encodings."""
    if data not in _sound:
        if not _sound:
            return None
        data = random.choice(_sound)
    try:
        table = pq.read_table(pa.BufferReader(data))
        if not table.num_columns or not 0 < table.num_rows <= 1000 or table.nbytes > 1 << 20:
            return None
        place = random.randrange(table.num_columns)
        field, column = _bend_column(table.field(place), table.column(place), random)
        table = table.set_column(place, field, column)
        sink = io.BytesIO()
        pq.write_table(
            table,
            sink,
            compression=random.choice(_CODECS),
            use_dictionary=random.random() < 0.5,
            data_page_version=random.choice(("1.0", "2.0")),
            row_group_size=random.choice((1, 5, 1000)),
            write_statistics=random.random() < 0.5,
            store_schema=random.random() < 0.3,
        )
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    trust(sink.getvalue())
    return sink.getvalue()


def _bend_column(field: pa.Field, column: Any, random: Random) -> tuple[pa.Field, Any]:
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_struct(array.type) and array.type.num_fields and random.random() < 0.85:
        place = random.randrange(array.type.num_fields)
        members = list(array.type)
        children = [array.field(index) for index in range(len(members))]
        members[place], children[place] = _bend_column(members[place], children[place], random)
        if random.random() < 0.1:
            members.pop(place), children.pop(place)
        mask = array.is_null() if array.null_count else None
        array = pa.StructArray.from_arrays(children, fields=members, mask=mask)
        return field.with_type(array.type), array
    match random.randrange(4):
        case 0:
            return field.with_name(random.choice(("path", "add", "x", "", "a.b"))), array
        case 1:
            return field, pa.nulls(len(array), array.type)
        case 2:
            return field, array.take(pa.array([0] * len(array))) if len(array) else array
        case _:
            type_ = random.choice(_TYPES)
            return field.with_type(type_), _filled(array, type_)


def _filled(array: Any, type_: pa.DataType) -> Any:
    """The values as another type, or anything of that type where they cannot be."""
    try:
        return array.cast(type_)
    except pa.ArrowException:
        texts = pa.array(["7"] * len(array))
        try:
            return texts.cast(type_)
        except pa.ArrowException:
            return pa.nulls(len(array), type_)
