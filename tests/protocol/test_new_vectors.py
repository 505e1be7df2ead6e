"""Deletion vectors that we write, read again; and the statistics of their files."""

import json
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap64

from deltactl.protocol.deletion_vectors import (
    decode_bitmap,
    decode_inline,
    encode_bitmap,
    encode_file,
    encode_inline,
    read_framed,
)
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.stats_encoding import loosen_bounds
from deltactl.protocol.z85 import z85_decode, z85_encode

_positions = st.sets(st.integers(0, 300) | st.integers(0, 1 << 40))


@given(st.binary())
@example(b"\xff" * 8)
def test_z85_there_and_back(data: bytes) -> None:
    padded = data + bytes(-len(data) % 4)
    assert z85_decode(z85_encode(padded)) == padded


@given(_positions)
def test_vectors_there_and_back(positions: set[int]) -> None:
    payload = encode_bitmap(BitMap64(positions))
    inline = encode_inline(payload, len(positions))
    assert set(decode_inline(inline)) == positions
    identifier = UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
    vector, content = encode_file(payload, len(positions), identifier, "ab")
    assert vector.file_name == f"ab/deletion_vector_{identifier}.bin"
    assert content[0] == 1
    framed = read_framed(content[vector.offset :], vector, "it")
    assert set(decode_bitmap(framed, cardinality=vector.cardinality)) == positions


def test_the_text_of_a_uuid_is_that_of_the_protocol() -> None:
    """The example of PROTOCOL.md."""
    vector, _ = encode_file(b"", 0, UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61"), "ab")
    assert vector.path_or_inline_dv == "ab^-aqEH.-t@S}K{vb[*k^"


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        ('{"numRecords":1}', {}),
        ('{"numRecords":1,"tightBounds":true}', {}),
        ('{"numRecords":1,"nullCount":{"a":{"b":1}}}', {"nullCount": {"a": {"b": 1}}}),
        (
            '{"numRecords":1,"minValues":{"a":"\\"tightBounds\\":true"},"tightBounds":true}',
            {"minValues": {"a": '"tightBounds":true'}},
        ),
    ],
)  # fmt: skip
def test_bounds_of_files_with_vectors_are_wide(stats: str, expected: dict[str, object]) -> None:
    assert json.loads(loosen_bounds(stats)) == {"numRecords": 1, **expected, "tightBounds": False}


@pytest.mark.parametrize(
    ("configuration", "length"),
    [
        ({}, 0),
        ({"delta.randomPrefixLength": "5"}, 0),
        ({"delta.randomizeFilePrefixes": "true"}, 2),
        ({"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "5"}, 5),
        ({"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "-1"}, 0),
    ],
)
def test_prefixes_of_files(configuration: dict[str, str], length: int) -> None:
    assert TableProperties(configuration).random_prefix_length == length
