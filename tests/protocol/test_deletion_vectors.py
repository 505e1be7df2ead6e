"""Deletion vectors: the published vectors, both formats, and every kind of broken bytes."""

import random
import struct
import uuid
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from deltactl.errors import CorruptLogError, DataFileError, UnsupportedFeatureError
from deltactl.protocol.deletion_vectors import (
    FRAME_OVERHEAD,
    DeletionVector,
    decode_bitmap,
    decode_inline,
    ensure_within,
    live_mask,
    read_framed,
    unique_ids,
    vector_files,
)
from deltactl.protocol.z85 import ALPHABET, z85_decode, z85_encode
from tests.support.deletion_vectors import encode_bitmap, encode_vector_file, unique_id

PORTABLE = struct.pack("<I", 1681511377)
NATIVE = struct.pack("<I", 1681511376)

# The deletion vector file of the kernel's "table-with-dv-small": rows 0 and 9.
SMALL_FILE = bytes.fromhex(
    "01 00000024 d1d33964 0100000000000000 00000000 3a300000 01000000 0000 0100 10000000 0000 0900"
    "2a671846"
)
SMALL = DeletionVector("u", "vBn[lx{q8@P<9BNH/isA", 1, 36, 2)
# The kernel's inline vector.
INLINE_TEXT = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
INLINE_ROWS = [3, 4, 7, 11, 18, 29]
INLINE = DeletionVector("i", INLINE_TEXT, None, 44, 6)

positions = st.integers(0, 2**63 - 1) | st.integers(0, 200_000)
bitmaps = st.builds(
    lambda single, start, length: BitMap64(single) | BitMap64(range(start, start + length)),
    st.lists(positions, max_size=30),
    st.integers(0, 2**40),
    st.integers(0, 100_000),
)


def test_the_published_file_is_read_and_written_to_the_byte() -> None:
    payload = read_framed(SMALL_FILE[1:], SMALL, "dv.bin")
    bitmap = decode_bitmap(payload, cardinality=2)
    assert list(bitmap) == [0, 9]
    assert encode_vector_file([bitmap]) == (SMALL_FILE, [1])


def test_the_published_inline_vector_is_read_and_framed() -> None:
    bitmap = decode_inline(INLINE)
    assert list(bitmap) == INLINE_ROWS
    data, offsets = encode_vector_file([bitmap])
    assert (len(data), offsets) == (53, [1])
    assert data[-4:].hex() == "acd74a79"
    assert z85_encode(encode_bitmap(bitmap)) == INLINE_TEXT


def test_the_example_of_the_protocol_text_is_no_valid_vector() -> None:
    text = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    with pytest.raises(DataFileError, match="magic"):
        decode_inline(DeletionVector("i", text, None, 40, 6))


@pytest.mark.parametrize(
    ("dv", "file_name", "expected_id"),
    [
        (DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 6),
            "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
            "uab^-aqEH.-t@S}K{vb[*k^@4"),
        (SMALL, "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin",
            "uvBn[lx{q8@P<9BNH/isA@1"),
        (DeletionVector("p", "s3://b/a%20b/deletion_vector_1.bin", None, 40, 6),
            "s3://b/a b/deletion_vector_1.bin", "ps3://b/a%20b/deletion_vector_1.bin"),
        (INLINE, None, f"i{INLINE_TEXT}"),
    ],
)  # fmt: skip
def test_descriptors_name_their_file_and_themselves(
    dv: DeletionVector, file_name: str | None, expected_id: str
) -> None:
    assert dv.file_name == file_name
    assert unique_id(dv) == expected_id


@pytest.mark.parametrize("text", ["", "short", "vBn[lx{q8@P<9BNH/is~", "####################"])
def test_a_name_without_uuid_is_refused(text: str) -> None:
    with pytest.raises(CorruptLogError, match="has no valid UUID"):
        _ = DeletionVector("u", text, 1, 36, 2).file_name


def test_an_unknown_storage_type_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="'r'"):
        DeletionVector("r", "x.bin", 1, 36, 2)


STRUCT = pa.struct(
    [
        ("storage_type", pa.string()),
        ("path_or_inline_dv", pa.string()),
        ("offset", pa.int32()),
        ("size_bytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)


def test_ids_of_a_column_are_those_of_its_rows() -> None:
    vectors = [SMALL, None, INLINE, DeletionVector("p", "s3://b/x", 0, 1, 1)]
    names = [field.name for field in STRUCT]
    rows = [None if v is None else {name: getattr(v, name) for name in names} for v in vectors]
    column = pa.array(rows, STRUCT)
    expected = [None if v is None else unique_id(v) for v in vectors]
    assert unique_ids(column).to_pylist() == expected
    assert unique_ids(column[1:]).to_pylist() == expected[1:]
    assert unique_ids(pa.chunked_array([column[:1], column[1:]])).to_pylist() == expected
    assert unique_ids(column[1:3]).to_pylist() == expected[1:3]
    assert unique_ids(pa.nulls(2, STRUCT)).to_pylist() == [None, None]


def native(*parts: BitMap) -> bytes:
    framed = [struct.pack("<I", len(p.serialize())) + p.serialize() for p in parts]
    return NATIVE + struct.pack("<I", len(parts)) + b"".join(framed)


def test_the_native_format_is_read() -> None:
    data = native(BitMap([1, 5]), BitMap(), BitMap([7]))
    assert list(decode_bitmap(data)) == [1, 5, 2 * 2**32 + 7]
    assert not decode_bitmap(native())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xd1",
        PORTABLE,
        PORTABLE + b"\x01",
        b"\0" * 40,
        PORTABLE + struct.pack("<Q", 2**60),
        PORTABLE + b"\xff" * 40,
        NATIVE,
        NATIVE + struct.pack("<I", 2**32 - 1),
        NATIVE + struct.pack("<II", 1, 2**32 - 1) + b"\0" * 8,
        NATIVE + struct.pack("<II", 1, 4) + b"\xff" * 4,
        encode_bitmap(BitMap64([2**63])),
    ],
)
def test_broken_bitmaps_are_refused(data: bytes) -> None:
    with pytest.raises(DataFileError, match=r"dv\.bin"):
        decode_bitmap(data, what="dv.bin")


@given(bitmaps, st.data())
def test_damaged_bitmaps_give_rows_or_an_error(bitmap: BitMap64, data: st.DataObject) -> None:
    damaged = bytearray(encode_bitmap(bitmap))
    for _ in range(3):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        rows = decode_bitmap(bytes(damaged))
    except DataFileError:
        return
    assert len(live_mask(rows, 0, 1_000)) == 1_000


def test_another_number_of_rows_is_refused() -> None:
    with pytest.raises(DataFileError, match="deletes 2 rows, but its cardinality in the log is 3"):
        decode_bitmap(encode_bitmap(BitMap64([1, 2])), cardinality=3)
    with pytest.raises(DataFileError, match="deletes 6 rows, but its cardinality in the log is 7"):
        decode_inline(DeletionVector("i", INLINE_TEXT, None, 44, 7))


def test_several_vectors_share_a_file() -> None:
    wanted = [BitMap64([1]), BitMap64(range(100_000)), BitMap64([2**40])]
    data, offsets = encode_vector_file(wanted)
    sizes = [len(encode_bitmap(bitmap)) for bitmap in wanted]
    assert data[:1] == b"\x01"
    assert [b - a for a, b in pairwise([*offsets, len(data)])] == [
        s + FRAME_OVERHEAD for s in sizes
    ]
    for bitmap, offset, size in zip(wanted, offsets, sizes, strict=True):
        dv = DeletionVector("p", "x", offset, size, len(bitmap))
        assert decode_bitmap(read_framed(data[offset:], dv, "x")) == bitmap


@pytest.mark.parametrize(
    ("data", "dv", "message"),
    [
        (SMALL_FILE[1:-1], SMALL, "is truncated"),
        (b"", SMALL, "is truncated"),
        (
            SMALL_FILE[1:],
            DeletionVector("u", "x", 1, 35, 2),
            "of 36 bytes, but its sizeInBytes in the log is 35",
        ),
        (SMALL_FILE[1:-1] + b"\0", SMALL, "checksum"),
        (SMALL_FILE[1:20] + b"\xff" + SMALL_FILE[21:], SMALL, "checksum"),
    ],
)
def test_broken_frames_are_refused(data: bytes, dv: DeletionVector, message: str) -> None:
    with pytest.raises(DataFileError, match=rf"dv\.bin at offset 1 .*{message}"):
        read_framed(data, dv, "dv.bin")


@pytest.mark.parametrize(("text", "size"), [("~~~~~", 4), ("abc", 2), (INLINE_TEXT, 45)])
def test_broken_inline_vectors_are_refused(text: str, size: int) -> None:
    with pytest.raises(DataFileError, match="inline deletion vector"):
        decode_inline(DeletionVector("i", text, None, size, 6))


def test_padding_of_an_inline_vector_is_cut_off() -> None:
    padded = z85_encode(encode_bitmap(BitMap64(INLINE_ROWS)) + b"\xff" * 4)
    assert list(decode_inline(DeletionVector("i", padded, None, 44, 6))) == INLINE_ROWS


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(0, 300), st.integers(0, 300))
def test_the_mask_is_true_for_live_rows(deleted: list[int], first_row: int, num_rows: int) -> None:
    mask = live_mask(BitMap64(deleted), first_row, num_rows)
    assert mask.type == pa.bool_()
    rows = range(first_row, first_row + num_rows)
    assert mask.to_pylist() == [row not in deleted for row in rows]


def test_rows_far_away_cost_nothing() -> None:
    full = encode_bitmap(BitMap64(range(2**26)))
    assert len(full) < 2**15
    huge = decode_bitmap(full) | BitMap64([2**60, 2**62])
    assert live_mask(huge, 2**60 - 1, 3).to_pylist() == [True, False, True]
    assert live_mask(huge, 2**26 - 1, 2).to_pylist() == [False, True]
    assert live_mask(BitMap64(), 0, 0).to_pylist() == []


def test_a_vector_of_another_file_is_refused() -> None:
    ensure_within(BitMap64([9]), 10, "a.parquet")
    ensure_within(BitMap64(), 0, "a.parquet")
    with pytest.raises(DataFileError, match="deletes row 10 of a file with 10 rows"):
        ensure_within(BitMap64([10]), 10, "a.parquet")


def test_z85_knows_its_own_rfc() -> None:
    assert z85_encode(bytes.fromhex("864fd26fb559f75b")) == "HelloWorld"
    assert len(set(ALPHABET)) == 85


@pytest.mark.parametrize("text", ["abcd", "abc~e", "#####", "é0000"])
def test_what_is_not_z85_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="z85"):
        z85_decode(text)


def test_names_of_many_vector_files_are_those_of_each() -> None:
    rng = random.Random(7)
    texts = [z85_encode(uuid.UUID(int=rng.getrandbits(128)).bytes) for _ in range(200)]
    rows: list[dict[str, Any] | None] = [
        {"storage_type": "u", "path_or_inline_dv": prefix + text}
        for text in texts
        for prefix in ("", "ab", "é x/y")
    ]
    rows += [
        None,
        {"storage_type": "i", "path_or_inline_dv": "0000"},
        {"storage_type": "p", "path_or_inline_dv": "s3://b/t/a%20b.bin"},
    ]
    column = pa.chunked_array([pa.array(rows[:100]), pa.array(rows[100:])])
    expected = [
        None
        if row is None
        else DeletionVector(row["storage_type"], row["path_or_inline_dv"], 1, 1, 1).file_name
        for row in rows
    ]
    assert vector_files(column).to_pylist() == expected
    assert vector_files(column.slice(50, 70)).to_pylist() == expected[50:120]
    assert vector_files(pa.chunked_array([pa.nulls(3, column.type)])).to_pylist() == [None] * 3


@pytest.mark.parametrize("text", ["", "short", "x" * 19 + '"', "#" * 20, "ab" + "~" * 20])
def test_a_vector_file_that_cannot_be_named_is_refused(text: str) -> None:
    rows = [
        {"storage_type": "u", "path_or_inline_dv": "vBn[lx{q8@P<9BNH/isA"},
        {"storage_type": "u", "path_or_inline_dv": text},
    ]
    with pytest.raises(CorruptLogError, match="has no valid UUID"):
        vector_files(pa.chunked_array([pa.array(rows)]))
