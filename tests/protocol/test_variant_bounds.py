"""Bounds of variants are merged only where all readers sort them in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pytest

from deltactl.protocol.variant_bounds import merge_variant_bounds
from deltactl.protocol.variants import join_object, split_object
from deltactl.protocol.z85 import z85_decode, z85_encode

Fields: TypeAlias = Mapping[str, bytes]


def _int(number: int, kind: int = 6, size: int = 8) -> bytes:
    return bytes([kind << 2]) + number.to_bytes(size, "little", signed=True)


def _decimal(unscaled: int, scale: int) -> bytes:
    return bytes([8 << 2, scale]) + unscaled.to_bytes(4, "little", signed=True)


def _text(text: str) -> bytes:
    return bytes([len(text.encode()) << 2 | 1]) + text.encode()


def _long(text: str) -> bytes:
    return bytes([16 << 2]) + len(text.encode()).to_bytes(4, "little") + text.encode()


_DOUBLE = bytes([7 << 2]) + bytes(8)


def _encode(fields: Fields) -> str:
    data = join_object({name.encode(): value for name, value in fields.items()})
    return z85_encode(data + bytes(-len(data) % 4))


def _merge(files: Sequence[tuple[Fields, Fields]]) -> tuple[Fields, ...] | None:
    merged = merge_variant_bounds([(_encode(lower), _encode(upper)) for lower, upper in files])
    if merged is None:
        return None
    found = [split_object(z85_decode(text)) for text in merged]
    return tuple({name.decode(): value for name, value in each.items()} for each in found)


@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        ([_int(300), _int(-2), _int(7)], 1, 0),
        ([_int(-1, 3, 1), _int(1, 3, 1)], 0, 1),
        ([_int(20000, 11, 4), _int(-5, 11, 4)], 1, 0),
        ([_decimal(150, 2), _decimal(-150, 2)], 1, 0),
        ([_text("b"), _text("ab"), _text("")], 2, 0),
        ([_text("x"), _long("w" * 70)], 1, 0),
        ([_text("z"), _text("\U0010ffff")], 0, 1),
    ],
    ids=["long", "byte", "date", "decimal", "string", "long string", "truncated string"],
)
def test_the_least_minimum_and_the_greatest_maximum(
    values: Sequence[bytes], lower: int, upper: int
) -> None:
    files = [({"$['a']": value, "$['b']": value},) * 2 for value in values]
    assert _merge(files) == (
        dict.fromkeys(["$['a']", "$['b']"], values[lower]),
        dict.fromkeys(["$['a']", "$['b']"], values[upper]),
    )


@pytest.mark.parametrize(
    "values",
    [
        [_int(1), _int(1, 3, 1)],
        [_int(1), _text("1")],
        [_decimal(1, 1), _decimal(1, 2)],
        [_DOUBLE, _DOUBLE],
        [b"\x04", b"\x04"],
        [_text("\ue000"), _text("a")],
        [b"\xf0\x01", b"\xf0\x01"],
    ],
    ids=["width", "type", "scale", "double", "boolean", "order of texts", "type of the future"],
)
def test_a_path_of_another_type_or_without_a_common_order_is_omitted(
    values: Sequence[bytes],
) -> None:
    files = [({"$['a']": value, "$['b']": _int(5)},) * 2 for value in values]
    assert _merge(files) == ({"$['b']": _int(5)},) * 2


def test_a_path_is_omitted_if_a_bound_of_a_file_lacks_it() -> None:
    both = {"$['a']": _int(1), "$['b']": _int(2)}
    assert _merge([(both, both), (both, {"$['b']": _int(3)})]) == (
        {"$['b']": _int(2)},
        {"$['b']": _int(3)},
    )
    assert _merge([({"$['a']": _int(1)},) * 2, ({"$['b']": _int(1)},) * 2]) is None


def test_many_paths_with_long_names() -> None:
    fields = {f"$['{number:0300d}']": _int(number) for number in range(300)}
    assert _merge([(fields, fields)] * 2) == (fields, fields)


_SOUND = _encode({"$['a']": _int(1)})
_TWICE = b"\x01\x01\x00\x01a\x02\x02\x00\x00\x00\x02\x04\x04\x04\x00\x00"


@pytest.mark.parametrize(
    "text",
    [None, "", "no z85", "00000", _SOUND[:-10], z85_encode(b"\x02" + z85_decode(_SOUND)[1:])]
    + [z85_encode(_TWICE), z85_encode(b"\x01\x00\x00\x00")],
    ids=["missing", "empty", "text", "zeros", "cut", "version", "field twice", "no object"],
)
def test_bounds_that_are_not_valid_are_unknown(text: str | None) -> None:
    assert merge_variant_bounds([(_SOUND, _SOUND), (_SOUND, text)]) is None
