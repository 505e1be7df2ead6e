"""Variants: every shredded type, the specification's cases, broken bytes, other writers."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.errors import DataFileError, UnsupportedFeatureError
from deltactl.protocol.arrow_schemas import VARIANT_TYPE
from deltactl.protocol.variants import read_variant

# A variant here: None, a dict, a list, or (type, content) with the content as Arrow takes it.
Value: TypeAlias = Any
# How a variant is shredded: None, a type's name, a dict of fields, or a list of one element.
Shape: TypeAlias = Any

FORMATS = {3: "b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 11: "<i", 12: "<q", 13: "<q", 14: "<f"} | {
    17: "<q",
    18: "<q",
    19: "<q",
}
TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal4": pa.decimal128(9, 2),
    "decimal8": pa.decimal128(18, 0),
    "decimal16": pa.decimal128(38, 38),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp_nanos": pa.timestamp("ns", "UTC"),
    "timestamp_ntz_nanos": pa.timestamp("ns"),
    "time": pa.time64("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
}
IDS = dict(
    zip(
        ["int8", "int16", "int32", "int64", "double", "decimal4", "decimal8", "decimal16", "date"]
        + ["timestamp", "timestamp_ntz", "float", "binary", "string", "time", "timestamp_nanos"]
        + ["timestamp_ntz_nanos", "uuid"],
        range(3, 21),
        strict=True,
    )
)
KINDS = {id_: kind for kind, id_ in IDS.items()}


ONE: dict[str, Any] = {"value": None, "typed_value": 1}


def is_shredded(type_: pa.DataType) -> bool:
    """Whether a variant's group of this type has more than the two binaries."""
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    return pa.types.is_struct(storage) and any(f.name == "typed_value" for f in storage)


def dictionary(names: list[str], *, width: int = 1, padding: bytes = b"") -> bytes:
    """Metadata in binary."""
    texts = [name.encode() for name in names]
    ends = [sum(map(len, texts[:index])) for index in range(len(texts) + 1)]
    numbers = b"".join(number.to_bytes(width, "little") for number in [len(names), *ends])
    return bytes([1 | (width - 1) << 6]) + numbers + b"".join(texts) + padding


def encode(value: Value, names: list[str]) -> bytes:
    """A variant in binary, unlike the program's: with the widest of all sizes."""
    if value is None:
        return b"\0"
    if isinstance(value, dict):
        keys = sorted(value, key=str.encode)
        return encode_container(0b0_1_11_11_10, [value[key] for key in keys], names, keys)
    if isinstance(value, list):
        return encode_container(0b000_1_11_11, value, names, [])
    return encode_primitive(*value)


def encode_container(head: int, items: list[Value], names: list[str], keys: list[str]) -> bytes:
    starts, body = {}, b""
    # The items of objects may be in any order.
    for index in reversed(range(len(items))) if keys else range(len(items)):
        starts[index] = len(body)
        body += encode(items[index], names)
    ids = [names.index(key) for key in keys]
    words = [len(items), *ids, *(starts[index] for index in range(len(items))), len(body)]
    return bytes([head]) + struct.pack(f"<{len(words)}I", *words) + body


def encode_primitive(kind: str, content: Any) -> bytes:
    if kind == "boolean":
        return b"\x04" if content else b"\x08"
    head = bytes([IDS[kind] << 2])
    if kind in {"string", "binary"}:
        data: bytes = content.encode() if kind == "string" else content
        return head + struct.pack("<I", len(data)) + data
    if kind == "uuid":
        return head + bytes(content)
    if kind.startswith("decimal"):
        number = int(content.scaleb(-content.as_tuple().exponent, Context(prec=60)))
        width = int(kind.removeprefix("decimal"))
        scale = bytes([-content.as_tuple().exponent])
        return head + scale + number.to_bytes(width, "little", signed=True)
    return head + struct.pack(FORMATS[IDS[kind]], content)


def decode(data: bytes, metadata: bytes) -> Value:
    """What a variant's two binaries say; fails where the specification is not kept."""
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    ends = numbers(metadata, 1 + width, count + 1, width)
    start = 1 + width * (count + 2)
    names = [metadata[start + a : start + b].decode() for a, b in zip(ends, ends[1:], strict=False)]
    value, end = decode_at(data, 0, names)
    assert end == len(data)
    return value


def numbers(data: bytes, at: int, count: int, width: int) -> list[int]:
    parts = [data[at + index * width : at + (index + 1) * width] for index in range(count)]
    assert all(len(part) == width for part in parts)
    return [int.from_bytes(part, "little") for part in parts]


def decode_at(data: bytes, at: int, names: list[str]) -> tuple[Value, int]:
    kind, high = data[at] & 3, data[at] >> 2
    if kind == 1:
        return ("string", data[at + 1 : at + 1 + high].decode()), at + 1 + high
    if kind == 0:
        return decode_primitive(data, at + 1, high)
    large = high >> (4 if kind == 2 else 2) & 1
    width, id_width = (high & 3) + 1, (high >> 2 & 3) + 1
    (count,) = numbers(data, at + 1, 1, 4 if large else 1)
    at += 5 if large else 2
    ids = numbers(data, at, count, id_width) if kind == 2 else []
    at += len(ids) * id_width
    offsets = numbers(data, at, count + 1, width)
    at += len(offsets) * width
    items = [decode_at(data, at + offset, names) for offset in offsets[:-1]]
    assert all(end <= at + offsets[-1] for _, end in items)
    end = at + offsets[-1]
    if kind == 3:
        return [item for item, _ in items], end
    keys = [names[id_] for id_ in ids]
    assert keys == sorted(set(keys), key=str.encode)
    return dict(zip(keys, (item for item, _ in items), strict=True)), end


def decode_primitive(data: bytes, at: int, id_: int) -> tuple[Value, int]:
    if id_ <= 2:
        return (None if id_ == 0 else ("boolean", id_ == 1)), at
    kind = KINDS[id_]
    if kind in {"string", "binary"}:
        (length,) = struct.unpack_from("<I", data, at)
        content = data[at + 4 : at + 4 + length]
        assert len(content) == length
        return (kind, content.decode() if kind == "string" else content), at + 4 + length
    if kind == "uuid":
        return (kind, data[at : at + 16]), at + 16
    if kind.startswith("decimal"):
        width = int(kind.removeprefix("decimal"))
        number = int.from_bytes(data[at + 1 : at + 1 + width], "little", signed=True)
        digits = tuple(map(int, str(abs(number))))
        return (kind, Decimal((int(number < 0), digits, -data[at]))), at + 1 + width
    return (kind, struct.unpack_from(FORMATS[id_], data, at)[0]), at + struct.calcsize(FORMATS[id_])


def group_type(shape: Shape) -> pa.DataType:
    members = [pa.field("value", pa.binary())]
    if shape is not None:
        members.append(pa.field("typed_value", typed_type(shape)))
    return pa.struct(members)


def typed_type(shape: Shape) -> pa.DataType:
    if isinstance(shape, dict):
        return pa.struct(
            [pa.field(name, group_type(inner), False) for name, inner in shape.items()]
        )
    if isinstance(shape, list):
        return pa.list_(pa.field("element", group_type(shape[0]), False))
    return TYPES[shape]


def shred(value: Value, shape: Shape, names: list[str]) -> dict[str, Any]:
    """One row of a shredded group."""
    row: dict[str, Any] = {"value": None} | ({} if shape is None else {"typed_value": None})
    if isinstance(shape, dict) and isinstance(value, dict):
        rest = {name: item for name, item in value.items() if name not in shape}
        row["value"] = encode(rest, names) if rest else None
        row["typed_value"] = {
            name: shred(value[name], inner, names)
            if name in value
            else dict.fromkeys(["value"] if inner is None else ["value", "typed_value"])
            for name, inner in shape.items()
        }
    elif isinstance(shape, list) and isinstance(value, list):
        row["typed_value"] = [shred(item, shape[0], names) for item in value]
    elif isinstance(shape, str) and isinstance(value, tuple) and value[0] == shape:
        row["typed_value"] = value[1]
    else:
        row["value"] = encode(value, names)
    return row


def column(rows: list[dict[str, Any] | None], shape: Shape, metadata: bytes) -> pa.StructArray:
    """A shredded column as Parquet's reader gives it."""
    type_ = pa.struct([pa.field("metadata", pa.binary(), False), *group_type(shape)])
    return pa.array([None if row is None else {"metadata": metadata} | row for row in rows], type_)


def decoded(array: pa.Array) -> list[Value]:
    read = read_variant(array)
    assert read.type == VARIANT_TYPE
    read.validate(full=True)
    # "missing" tells null rows from variant nulls.
    return [
        "missing" if row is None else decode(row["value"], row["metadata"])
        for row in read.to_pylist()
    ]


def read_typed(array: pa.Array) -> list[Value]:
    members = [pa.array([dictionary([])] * len(array), pa.binary()), array]
    return decoded(pa.StructArray.from_arrays(members, ["metadata", "typed_value"]))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(
        lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale))
    )


longs = st.integers(-(2**63), 2**63 - 1)
# Arrow's Python conversions know years 1 to 9999 in microseconds.
micros = st.integers(-(10**16), 10**16)
CONTENTS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": longs,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "decimal4": decimals(9, 2),
    "decimal8": decimals(18, 0),
    "decimal16": decimals(38, 38),
    "date": st.integers(-700_000, 2_900_000),
    "timestamp": micros,
    "timestamp_ntz": micros,
    "timestamp_nanos": longs,
    "timestamp_ntz_nanos": longs,
    "time": st.integers(0, 86_400_000_000 - 1),
    "string": st.text(max_size=70),
    "binary": st.binary(max_size=70),
    "uuid": st.binary(min_size=16, max_size=16),
}
NAMES = ["b", "", "a", "é", "\U0001f600", "\uffff", "aa"]

primitives = st.sampled_from(sorted(TYPES)).flatmap(
    lambda kind: st.tuples(st.just(kind), CONTENTS[kind])
)
values: st.SearchStrategy[Value] = st.recursive(
    st.none() | primitives,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=12,
)


@st.composite
def shapes_of(draw: st.DrawFn, value: Value, depth: int = 0) -> Shape:
    """A shape that mostly fits the value."""
    if depth > 4 or draw(st.integers(0, 5)) == 0:
        return draw(st.none() | st.sampled_from(sorted(TYPES)))
    if isinstance(value, dict):
        chosen = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
        return {name: draw(shapes_of(value.get(name), depth + 1)) for name in chosen}
    if isinstance(value, list):
        return [draw(shapes_of(value[0] if value else None, depth + 1))]
    return value[0] if value is not None else draw(st.none() | st.sampled_from(sorted(TYPES)))


@st.composite
def shredded(draw: st.DrawFn) -> tuple[list[Value], Shape]:
    rows = draw(st.lists(values | st.just("missing"), min_size=1, max_size=5))
    model = next((row for row in rows if row != "missing"), None)
    return rows, draw(shapes_of(model))


@given(shredded(), st.integers(1, 4), st.permutations(NAMES))
def test_what_is_shredded_is_read_back(
    case: tuple[list[Value], Shape], width: int, names: list[str]
) -> None:
    rows, shape = case
    groups = [None if row == "missing" else shred(row, shape, names) for row in rows]
    array = column(groups, shape, dictionary(names, width=width))
    assert decoded(array) == rows
    assert decoded(array.slice(1)) == rows[1:]
    assert decoded(pa.concat_arrays([array, array]).slice(1, len(rows))) == [*rows[1:], rows[0]]


@given(st.binary(max_size=40), st.binary(max_size=40), st.sampled_from(["a", "b"]))
def test_any_bytes_are_read_or_refused(value: bytes, metadata: bytes, name: str) -> None:
    row = {"value": value, "typed_value": {name: {"value": None, "typed_value": 1}}}
    for start, meta in ((b"", metadata), (b"\x02", metadata), (b"\x02", dictionary(["b", "a"]))):
        group = row | {"value": start + value}
        with suppress(DataFileError, UnsupportedFeatureError):
            read_variant(column([group], {name: "int8"}, meta))


@given(st.data())
def test_a_changed_byte_is_read_or_refused(data: st.DataObject) -> None:
    value = bytearray(encode({"a": [("int8", 1)], "b": ("string", "x"), "é": None}, NAMES))
    metadata = bytearray(dictionary(NAMES))
    target = data.draw(st.sampled_from([value, metadata]))
    target[data.draw(st.integers(0, len(target) - 1))] = data.draw(st.integers(0, 255))
    row = {"value": bytes(value), "typed_value": {"aa": {"value": None, "typed_value": 1}}}
    with suppress(DataFileError, UnsupportedFeatureError):
        read_variant(column([row], {"aa": "int8"}, bytes(metadata)))


@given(
    st.sampled_from(sorted(TYPES)).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(st.none() | CONTENTS[kind], max_size=4))
    )
)
def test_each_type_is_encoded_as_specified(case: tuple[str, list[Any]]) -> None:
    kind, contents = case
    expected = [None if content is None else (kind, content) for content in contents]
    assert read_typed(pa.array(contents, TYPES[kind])) == expected


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([34], pa.int8()), "0c22"),
        (pa.array([True, False]), "04 08"),
        (pa.array(["n/a"]), "0d6e2f61"),
        (pa.array(["x" * 63]), "fd" + "78" * 63),
        (pa.array(["x" * 64]), "4040000000" + "78" * 64),
        (pa.array([b"\1"]), "3c0100000001"),
        (pa.array([1.0], pa.float32()), "380000803f"),
        (pa.array([Decimal("-1.5")], pa.decimal128(9, 1)), "2001f1ffffff"),
        (pa.array([Decimal("1")], pa.decimal128(10, 0)), "24000100000000000000"),
        (pa.array([Decimal("1")], pa.decimal128(19, 0)), "2800" + "01" + "00" * 15),
        (pa.array([0], pa.timestamp("us", "Europe/Rome")), "30" + "00" * 8),
        (pa.array([bytes(range(16))], pa.binary(16)), "50" + bytes(range(16)).hex()),
    ],
    ids=lambda case: str(case.type) if isinstance(case, pa.Array) else "",
)
def test_bytes_are_those_of_the_specification(array: pa.Array, expected: str) -> None:
    metadata = pa.array([dictionary([])] * len(array), pa.binary())
    read = read_variant(pa.StructArray.from_arrays([array, metadata], ["typed_value", "metadata"]))
    assert [value.hex() for value in read.field("value").to_pylist()] == expected.split()


def test_arrow_types_of_the_same_content_are_read_alike() -> None:
    text = [("string", "a"), None]
    for type_ in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert read_typed(pa.array(["a", None], pa.string()).cast(type_)) == text
    for type_ in (pa.large_binary(), pa.binary_view()):
        assert read_typed(pa.array([b"a"], type_)) == [("binary", b"a")]
    identity = uuid.uuid4().bytes
    assert read_typed(pa.array([identity], pa.uuid())) == [("uuid", identity)]
    money = [Decimal("1.25")]
    assert read_typed(pa.array(money, pa.decimal256(5, 2))) == [("decimal4", money[0])]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list, pa.list_view, lambda f: pa.list_(f, 2)])
def test_every_layout_of_lists_is_read(make: Callable[[pa.Field], pa.DataType]) -> None:
    element = pa.field("element", pa.struct([pa.field("typed_value", pa.int8())]))
    one, two, three = ({"typed_value": number} for number in (1, 2, 3))
    array = pa.array([None, [one, two], None, [three, three]], make(element))
    n1, n2, n3 = (("int8", number) for number in (1, 2, 3))
    assert read_typed(array) == [None, [n1, n2], None, [n3, n3]]
    assert read_typed(array.slice(2)) == [None, [n3, n3]]


def test_what_lies_behind_null_lists_and_groups_is_not_read() -> None:
    hidden = pa.array([{"value": b"\xff broken"}, {"value": b"\0"}])
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), hidden, mask=pa.array([True, False])
    )
    assert read_typed(lists) == [None, [None]]
    fields = pa.StructArray.from_arrays([hidden], ["a"], mask=pa.array([True, True]))
    assert read_typed(fields) == [None, None]


@pytest.mark.parametrize("count", [255, 256, 300])
def test_large_containers_count_in_four_bytes(count: int) -> None:
    names = [f"n{index:03}" for index in range(count)]
    fields: Value = {name: ("int16", index) for index, name in enumerate(names)}
    listed: Value = [("string", "x" * 300)] * count
    for value, shape in ((fields, dict.fromkeys(names[:250], "int16")), (listed, ["string"])):
        metadata = dictionary(names, width=2)
        assert decoded(column([shred(value, shape, names)], shape, metadata)) == [value]


def test_sizes_within_an_object_may_differ() -> None:
    # Ids of 2 bytes, offsets of 1; then the other way round.
    for residual in ("12 01 0000 00 01 00", "06 01 00 0000 0100 00"):
        row = {"value": bytes.fromhex(residual), "typed_value": {"b": ONE}}
        read = decoded(column([row], {"b": "int8"}, dictionary(["a", "b"])))
        assert read == [{"a": None, "b": ("int8", 1)}]


def test_the_first_of_repeated_names_serves() -> None:
    row = {"value": None, "typed_value": {"a": ONE}}
    read = read_variant(column([row], {"a": "int8"}, dictionary(["b", "a", "a"])))
    assert read.field("value")[0].as_py() == bytes.fromhex("02 01 01 00 02 0c 01")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"value": None, "typed_value": {"a": dict.fromkeys(ONE)}}, {}),
        ({"value": encode({}, []), "typed_value": {"a": ONE}}, {"a": ("int8", 1)}),
        ({"value": None, "typed_value": None}, None),
    ],
    ids=["missing fields", "no other fields", "neither"],
)
def test_objects_that_the_specification_allows_besides(
    row: dict[str, Any], expected: Value
) -> None:
    """What its table of objects has, and ``shred`` does not make."""
    assert decoded(column([row], {"a": "int8"}, dictionary(["a"]))) == [expected]


def test_the_metadata_stay_as_they_are() -> None:
    metadata = dictionary(["unused", "a"], width=3, padding=b"behind")
    row = {"value": None, "typed_value": {"a": {"value": None, "typed_value": 1}}}
    read = read_variant(column([row], {"a": "int8"}, metadata))
    assert read.to_pylist() == [
        {"value": bytes.fromhex("02 01 01 00 02 0c 01"), "metadata": metadata}
    ]


def test_types_newer_than_the_program_are_carried_along() -> None:
    newer = bytes([63 << 2]) + b"whatever"
    residual = bytes([2, 1, 0, 0, len(newer)]) + newer
    rows: list[dict[str, Any] | None] = [
        {"value": newer, "typed_value": None},
        {"value": residual, "typed_value": {"b": {"value": None, "typed_value": 1}}},
    ]
    read = read_variant(column(rows, {"b": "int8"}, dictionary(["a", "b"])))
    first, second = read.field("value").to_pylist()
    assert first == newer
    assert second == bytes([2, 2, 0, 1, 0, 9, 11]) + newer + b"\x0c\x01"


def test_a_missing_element_is_the_variant_null() -> None:
    row = {"value": None, "typed_value": [{"value": None, "typed_value": None}]}
    assert decoded(column([row], ["int8"], dictionary([]))) == [[None]]


INT8 = b"\x0c\x01"


@pytest.mark.parametrize(
    ("shape", "row", "message"),
    [
        ("int8", {"value": INT8, "typed_value": 1}, "both value and typed_value"),
        (["int8"], {"value": b"\x02\0\0", "typed_value": []}, "both value and typed_value"),
        (["int8"], {"value": None, "typed_value": [ONE | {"value": b"\0"}]}, "both value"),
        (["int8"], {"value": b"\x03\0\0", "typed_value": None},
            "must be in the field 'typed_value'"),
        ({"a": "int8"}, {"value": b"\x02\0\0", "typed_value": None},
            "must be in the field 'typed_value'"),
        ({"a": "int8"}, {"value": INT8, "typed_value": {"a": ONE}}, "its value is not an object"),
        ({"a": "int8"}, {"value": b"\x02\1\0\0\1\0", "typed_value": {"a": ONE}}, "field twice"),
        ({"a": "int8"}, {"value": b"\x02\1\0\0\1\0", "typed_value": {"a": dict.fromkeys(ONE)}},
            "field twice"),
        ({"a": "int8"}, {"value": b"\x02\2\1\1\0\1\2\0\0", "typed_value": {"a": ONE}},
            "field twice"),
        ({"z": "int8"}, {"value": None, "typed_value": {"z": ONE}},
            "not in the variant's metadata"),
        ({"a": "int8"}, {"value": b"\x02\1\2\0\1\0", "typed_value": {"a": ONE}}, "out of range"),
        ({"a": "int8"}, {"value": b"\x02\1\1\0\1\x0c", "typed_value": {"a": ONE}}, "out of range"),
        ({"a": "int8"}, {"value": b"\x02\1\1\1\1\0", "typed_value": {"a": ONE}}, "is truncated"),
        ({"a": "int8"}, {"value": b"\x42\xff\xff\xff\xff", "typed_value": {"a": ONE}},
            "is truncated"),
        ("int8", {"value": b"", "typed_value": None}, "is truncated"),
        ("int8", {"value": b"\x0c", "typed_value": None}, "has the wrong length"),
        ("int8", {"value": b"\0\0", "typed_value": None}, "has the wrong length"),
        ("int8", {"value": b"\x40\4\0\0\0abc", "typed_value": None}, "has the wrong length"),
        ("int8", {"value": b"\x0dab", "typed_value": None}, "has the wrong length"),
    ],
)  # fmt: skip
def test_what_the_specification_forbids_is_refused(
    shape: Shape, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataFileError, match=message):
        read_variant(column([row], shape, dictionary(["a", "b"])))


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\1", b"\1\1\0", b"\1\1\1\1a", b"\1\1\0\2a", b"\1\2\0\2\1ab", b"\xc1\xff\xff\xff\xff"],
)
def test_broken_metadata_are_refused(metadata: bytes) -> None:
    row = {"value": None, "typed_value": {"a": ONE}}
    with pytest.raises(DataFileError):
        read_variant(column([row], {"a": "int8"}, metadata))


def test_metadata_of_another_version_are_not_supported() -> None:
    row = {"value": None, "typed_value": {"a": ONE}}
    with pytest.raises(UnsupportedFeatureError, match="version 2"):
        read_variant(column([row], {"a": "int8"}, b"\2\1\0\1a"))


@pytest.mark.parametrize(
    "type_",
    [
        pa.uint8(),
        pa.uint32(),
        pa.float16(),
        pa.date64(),
        pa.time32("ms"),
        pa.time64("ns"),
        pa.timestamp("ms"),
        pa.timestamp("s", "UTC"),
        pa.binary(4),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.null(),
        pa.duration("us"),
        pa.map_(pa.string(), pa.string()),
        pa.json_(),
    ],
    ids=str,
)
def test_types_outside_of_the_specification_are_not_supported(type_: pa.DataType) -> None:
    with pytest.raises(UnsupportedFeatureError, match="shredded as"):
        read_typed(pa.nulls(1, type_))


METADATA_FIELD = pa.field("metadata", pa.binary())
VALUE_FIELD = pa.field("value", pa.binary())


@pytest.mark.parametrize(
    "type_",
    [
        pa.int64(),
        pa.struct([]),
        pa.struct([VALUE_FIELD]),
        pa.struct([METADATA_FIELD]),
        pa.struct([METADATA_FIELD, VALUE_FIELD, VALUE_FIELD]),
        pa.struct([METADATA_FIELD, VALUE_FIELD, pa.field("other", pa.binary())]),
        pa.struct([METADATA_FIELD, pa.field("value", pa.string())]),
        pa.struct([METADATA_FIELD, pa.field("typed_value", pa.struct([pa.field("a", pa.int8())]))]),
        pa.struct([METADATA_FIELD, pa.field("typed_value", pa.list_(pa.int8()))]),
        pa.struct(
            [
                METADATA_FIELD,
                pa.field("typed_value", pa.struct([pa.field("a", group_type(None))] * 2)),
            ]
        ),
        pa.struct(
            [METADATA_FIELD, pa.field("value", pa.int8()), pa.field("typed_value", pa.int8())]
        ),
    ],
    ids=str,
)
def test_columns_that_are_no_variants_are_refused(type_: pa.DataType) -> None:
    with pytest.raises(DataFileError):
        read_variant(pa.nulls(1, type_))


def test_values_that_break_their_type_are_refused() -> None:
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, 1)), pa.py_buffer(b"\xff")]
    )
    number = pa.Array.from_buffers(
        pa.decimal128(2, 0), 1, [None, pa.py_buffer((1000).to_bytes(16, "little"))]
    )
    for broken in (text, number):
        with pytest.raises(DataFileError, match="is not valid"):
            read_typed(broken)


def test_very_deep_shredding_ends_with_an_error() -> None:
    typed = pa.nulls(1, pa.int8())
    for _ in range(2000):
        typed = pa.StructArray.from_arrays(
            [pa.StructArray.from_arrays([typed], ["typed_value"])], ["a"]
        )
    with pytest.raises(UnsupportedFeatureError, match="too many levels"):
        read_typed(typed)


def unshredded() -> Iterator[pa.StructArray]:
    names = ["a"]
    rows = [({"a": ("int8", 1)}), None, [("string", "x")]]
    dicts = [{"metadata": dictionary(names), "value": encode(row, names)} for row in rows]
    for order in (["metadata", "value"], ["value", "metadata"]):
        for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
            type_ = pa.struct([pa.field(name, kind, False) for name in order])
            yield pa.array([*dicts, None], type_)


def test_unshredded_variants_are_put_in_order() -> None:
    for array in unshredded():
        assert decoded(array) == [{"a": ("int8", 1)}, None, [("string", "x")], "missing"]
        assert decoded(array.slice(2)) == [[("string", "x")], "missing"]


def test_unshredded_variants_are_not_copied() -> None:
    array = next(unshredded())
    read = read_variant(array)
    for name in ("value", "metadata"):
        assert read.field(name).buffers()[2].address == array.field(name).buffers()[2].address


def test_a_group_without_its_value_is_the_variant_null() -> None:
    rows = [{"metadata": dictionary([]), "value": None}, None]
    assert decoded(pa.array(rows, pa.struct([METADATA_FIELD, VALUE_FIELD]))) == [None, "missing"]


def test_a_variant_without_metadata_is_refused() -> None:
    array = pa.array([{"metadata": None, "value": b"\0"}], pa.struct([METADATA_FIELD, VALUE_FIELD]))
    with pytest.raises(DataFileError, match="no metadata"):
        read_variant(array)


class Wrapped(pa.ExtensionType):  # type: ignore[misc]
    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "tests.variant")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _: bytes) -> Wrapped:
        return cls(storage)


def test_extension_types_are_taken_off() -> None:
    storage = column([ONE, None], "int8", dictionary([]))
    type_ = Wrapped(storage.type)
    assert is_shredded(type_)
    assert decoded(pa.ExtensionArray.from_storage(type_, storage)) == [("int8", 1), "missing"]


def test_no_rows_are_read_as_no_rows() -> None:
    assert decoded(column([], {"a": "int8"}, b"")) == []


def plain(value: Value) -> Any:
    """What JSON says of a variant of texts, numbers and containers."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value[1] if isinstance(value, tuple) else None if value is None else str(value)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("table", "path"),
    [
        ("delta__variant-stats-no-checkpoint", "v"),
        ("delta__variant-stats-no-checkpoint", "nv.v"),
        ("delta__variant-stats-with-struct-no-checkpoint", "v"),
    ],
)
def test_tables_of_spark_are_read_as_duckdb_reads_them(corpus: Path, table: str, path: str) -> None:
    files = sorted((corpus / "tables" / table).glob("*.parquet"))
    assert files
    for file in files:
        array = pq.read_table(file).to_struct_array().combine_chunks()
        for name in path.split("."):
            array = array.field(name)
        assert is_shredded(array.type)
        with duckdb.connect() as connection:
            query = f"select ({path})::json::varchar from read_parquet(?)"
            judged = connection.execute(query, [str(file)]).fetchall()
        assert [plain(value) for value in decoded(array)] == [
            json.loads(text) for (text,) in judged
        ]
        assert judged


@pytest.mark.parametrize(
    ("sql", "type_", "expected"),
    [
        ("true", "BOOLEAN", ("boolean", True)),
        ("-7::tinyint", "TINYINT", ("int8", -7)),
        ("-7::smallint", "SMALLINT", ("int16", -7)),
        ("-7", "INTEGER", ("int32", -7)),
        ("5000000000", "BIGINT", ("int64", 5_000_000_000)),
        ("1.5::float", "FLOAT", ("float", 1.5)),
        ("1.5::double", "DOUBLE", ("double", 1.5)),
        ("-1.25::decimal(9,2)", "DECIMAL(9,2)", ("decimal4", Decimal("-1.25"))),
        ("-1.25::decimal(18,2)", "DECIMAL(18,2)", ("decimal8", Decimal("-1.25"))),
        ("-1.25::decimal(38,2)", "DECIMAL(38,2)", ("decimal16", Decimal("-1.25"))),
        ("date '1970-01-03'", "DATE", ("date", 2)),
        ("timestamp '1970-01-01 00:00:01'", "TIMESTAMP", ("timestamp_ntz", 1_000_000)),
        ("timestamptz '1970-01-01 00:00:01+00'", "TIMESTAMPTZ", ("timestamp", 1_000_000)),
        ("'1970-01-01 00:00:01'::timestamp_ns", "TIMESTAMP_NS", ("timestamp_ntz_nanos", 10**9)),
        ("time '00:00:01'", "TIME", ("time", 1_000_000)),
        ("repeat('x', 100)", "VARCHAR", ("string", "x" * 100)),
        ("'\\xAA'::blob", "BLOB", ("binary", b"\xaa")),
        ("'00000000-0000-0000-0000-0000000000ff'::uuid", "UUID", ("uuid", b"\0" * 15 + b"\xff")),
        ("[1, 2]", "INTEGER[]", [("int32", 1), ("int32", 2)]),
        (
            "{'b': 'x', 'a': [1], 'c': {'d': 2}}",
            "STRUCT(c STRUCT(d INTEGER), a INTEGER[])",
            {"a": [("int32", 1)], "b": ("string", "x"), "c": {"d": ("int32", 2)}},
        ),
    ],
)
def test_what_duckdb_shreds_is_read(tmp_path: Path, sql: str, type_: str, expected: Value) -> None:
    file = str(tmp_path / "shredded.parquet")
    options = f"format parquet, shredding {{'v': '{type_}'}}"
    with duckdb.connect() as connection:
        connection.execute(f"copy (select ({sql})::variant as v) to '{file}' ({options})")
    array = pq.read_table(file).column("v").combine_chunks()
    assert is_shredded(array.type)
    assert decoded(array) == [expected]
