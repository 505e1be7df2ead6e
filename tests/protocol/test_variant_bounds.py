"""Bounds of variants: as JSON has them, and merged where all readers sort them in the same way."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pytest

from deltactl.protocol.stats_encoding import encode_stats_column
from deltactl.protocol.variant_bounds import merge_variant_bounds
from deltactl.protocol.variants import join_object, split_object
from deltactl.protocol.z85 import z85_decode, z85_encode

Fields: TypeAlias = Mapping[bytes, bytes]


def _primitive(number: int, id_: int = 6, size: int = 8, more: bytes = b"") -> bytes:
    return bytes([id_ << 2]) + more + number.to_bytes(size, "little", signed=True)


def _decimal(unscaled: int, scale: int) -> bytes:
    return _primitive(unscaled, 8, 4, bytes([scale]))


def _text(text: str) -> bytes:
    data = text.encode()
    return (bytes([len(data) << 2 | 1]) if len(data) < 64 else _primitive(len(data), 16, 4)) + data


def _encode(fields: Fields) -> str:
    data = join_object(fields)
    return z85_encode(data + bytes(-len(data) % 4))


def _merge(*files: tuple[Fields, Fields]) -> list[Fields]:
    merged = merge_variant_bounds([(_encode(lower), _encode(upper)) for lower, upper in files])
    return [split_object(z85_decode(text)) for text in merged or ()]


@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        ([_primitive(300), _primitive(-2), _primitive(7)], 1, 0),
        ([_primitive(-1, 3, 1), _primitive(1, 3, 1)], 0, 1),
        ([_primitive(20000, 11, 4), _primitive(-5, 11, 4)], 1, 0),
        ([_decimal(150, 2), _decimal(-150, 2)], 1, 0),
        ([_text("b"), _text("ab"), _text("")], 2, 0),
        ([_text("x"), _text("w" * 70)], 1, 0),
        ([_text("z"), _text("\U0010ffff")], 0, 1),
        ([_primitive(1), _primitive(1, 3, 1)], None, None),
        ([_primitive(1), _text("1")], None, None),
        ([_decimal(1, 1), _decimal(1, 2)], None, None),
        ([_primitive(0, 7)] * 2, None, None),
        ([b"\x04"] * 2, None, None),
        ([_text("\ue000"), _text("a")], None, None),
        ([b"\x05\x80", _text("\U0010ffff")], None, None),
        ([b"\xf0\x01"] * 2, None, None),
    ],
    ids=["long", "byte", "date", "decimal", "string", "long string", "truncated string"]
    + ["width", "type", "scale", "double", "boolean", "order of texts", "not UTF-8"]
    + ["type of the future"],
)
def test_the_least_minimum_and_the_greatest_maximum_of_each_path(
    values: Sequence[bytes], lower: int | None, upper: int | None
) -> None:
    files: list[tuple[Fields, Fields]] = [({b"a": it, b"b": _primitive(5)},) * 2 for it in values]
    expected = [{} if it is None else {b"a": values[it]} for it in (lower, upper)]
    assert _merge(*files) == [{**it, b"b": _primitive(5)} for it in expected]


def test_a_path_that_a_bound_of_a_file_lacks_is_omitted() -> None:
    a, b = {b"a": _primitive(1)}, {b"b": _primitive(2)}
    assert _merge((a | b, a | b), (a | b, b)) == [b, b]
    assert _merge((a, a), (b, b)) == []


def test_many_paths_with_long_names() -> None:
    fields = {b"%0300d" % number: _primitive(number) for number in range(300)}
    assert _merge((fields, fields), (fields, fields)) == [fields, fields]


_SOUND = _encode({b"a": _primitive(1)})
_TWICE = b"\x01\x01\x00\x01a\x02\x02\x00\x00\x00\x02\x04\x04\x04\x00\x00"


@pytest.mark.parametrize(
    "text",
    [None, "", "no z85", "00000", _SOUND[:-10], z85_encode(b"\x02" + z85_decode(_SOUND)[1:])]
    + [z85_encode(_TWICE), z85_encode(b"\x01\x00\x00\x00")],
    ids=["missing", "empty", "text", "zeros", "cut", "version", "field twice", "no object"],
)
def test_bounds_that_are_not_valid_are_unknown(text: str | None) -> None:
    assert merge_variant_bounds([(_SOUND, _SOUND), (_SOUND, text)]) is None


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (b"\1\1\0\1a", f'{{"minValues":{{"v":"{_SOUND}"}}}}'),
        (None, '{"minValues":{}}'),
        (b"\1\1\1\1a", '{"minValues":{}}'),
    ],
    ids=["sound", "null", "not valid"],
)
def test_bounds_in_checkpoints_become_texts(metadata: bytes | None, expected: str) -> None:
    shredded = {"a": {"value": None, "typed_value": 1}}
    group = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    members = [("metadata", pa.binary()), ("value", pa.binary())]
    kind = pa.struct([*members, ("typed_value", pa.struct([("a", group)]))])
    row = metadata and {"metadata": metadata, "value": None, "typed_value": shredded}
    column = pa.array(
        [{"minValues": {"v": row}}], pa.struct([("minValues", pa.struct([("v", kind)]))])
    )
    assert encode_stats_column(column).to_pylist() == [expected]
