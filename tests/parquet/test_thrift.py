"""The compact codec: round trips, the examples of the protocol, and hostile input."""

import io
import sys
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.parquet.format import FileMetaData
from deltactl.parquet.thrift import (
    MAX_DEPTH,
    CompactReader,
    Kind,
    ThriftError,
    ThriftList,
    ThriftMap,
    ThriftStruct,
    decode,
    encode,
)

pytestmark = pytest.mark.thorough

NUMBERS = st.integers(-(1 << 15), (1 << 15) - 1)
BITS = {Kind.I16: 16, Kind.I32: 32, Kind.I64: 64}
WIDTHS = {Kind.BYTE: 1, Kind.DOUBLE: 8, Kind.UUID: 16}


def members(kind: Kind, depth: int) -> st.SearchStrategy[Any]:
    if kind in (Kind.TRUE, Kind.FALSE):
        return st.booleans()
    return values(kind, depth)


def values(kind: Kind, depth: int) -> st.SearchStrategy[Any]:
    if kind in (Kind.TRUE, Kind.FALSE):
        return st.just(kind == Kind.TRUE)
    if kind in BITS:
        return st.integers(-(1 << BITS[kind] - 1), (1 << BITS[kind] - 1) - 1)
    if kind in WIDTHS:
        return st.binary(min_size=WIDTHS[kind], max_size=WIDTHS[kind])
    if kind == Kind.BINARY:
        return st.binary(max_size=200)
    if kind == Kind.STRUCT:
        return structs(depth - 1)
    if kind == Kind.MAP:
        return kinds(depth).flatmap(lambda key: kinds(depth).flatmap(lambda v: maps(key, v, depth)))
    return kinds(depth).flatmap(
        lambda member: st.lists(members(member, depth - 1), max_size=20).map(
            lambda found: ThriftList(member, found)
        )
    )


def maps(key: Kind, value: Kind, depth: int) -> st.SearchStrategy[ThriftMap]:
    pairs = st.tuples(members(key, depth - 1), members(value, depth - 1))
    return st.lists(pairs, max_size=5).map(
        lambda found: ThriftMap(key, value, found) if found else ThriftMap()
    )


def kinds(depth: int) -> st.SearchStrategy[Kind]:
    nested = {Kind.STRUCT, Kind.LIST, Kind.SET, Kind.MAP}
    return st.sampled_from([kind for kind in Kind if depth > 1 or kind not in nested])


def structs(depth: int = 3) -> st.SearchStrategy[ThriftStruct]:
    fields = kinds(depth).flatmap(
        lambda kind: st.tuples(NUMBERS, st.just(kind), values(kind, depth))
    )
    return st.lists(fields, max_size=6).map(lambda found: ThriftStruct(list(found)))


def read_all(data: bytes) -> None:
    """Read and skip hostile bytes; both must end, with the same verdict."""
    reader, skipper = CompactReader(data), CompactReader(data)
    try:
        reader.read(Kind.STRUCT)
    except ThriftError:
        with pytest.raises(ThriftError):
            skipper.skip(Kind.STRUCT)
    else:
        skipper.skip(Kind.STRUCT)
        assert skipper.position == reader.position <= len(data)


@given(structs())
def test_a_tree_survives_the_round_trip(struct: ThriftStruct) -> None:
    data = encode(struct)
    assert decode(data) == struct
    assert encode(decode(data)) == data
    read_all(data)


@given(structs(), st.data())
def test_every_cut_is_refused(struct: ThriftStruct, data: st.DataObject) -> None:
    whole = encode(struct)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ThriftError, match="in the middle of a field"):
        decode(cut)
    read_all(cut)


@given(structs(), st.data())
def test_changed_bytes_end_in_a_value_or_a_named_error(
    struct: ThriftStruct, data: st.DataObject
) -> None:
    mutated = bytearray(encode(struct))
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    read_all(bytes(mutated))


@given(st.binary(max_size=300))
def test_any_bytes_end_in_a_value_or_a_named_error(data: bytes) -> None:
    read_all(data)


def test_bytes_after_the_struct_are_refused() -> None:
    with pytest.raises(ThriftError, match="2 bytes follow"):
        decode(b"\0\0\0")


@pytest.mark.parametrize(
    ("value", "stored"),
    [(0, "00"), (-1, "01"), (1, "02"), (150, "ac02"), (-(1 << 63), "ff" * 9 + "01")],
)
def test_integers_are_stored_as_zigzag_varints(value: int, stored: str) -> None:
    assert encode(ThriftStruct([(1, Kind.I64, value)])).hex() == f"16{stored}00"


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ("16" + "ff" * 10, "more than 64 bits"),
        ("16" + "ff" * 9 + "02", "more than 64 bits"),
        ("06" + "ff" * 4 + "0f" + "00", "out of range"),
        ("18ffffffffffffffffff01", "in the middle of a field"),
        ("19fcffffffff0f", "in the middle of a field"),
        ("1bffffffff0fcc", "in the middle of a field"),
        ("1910", "in the middle of a field"),
        ("191000" + "00", "unknown type 0"),
        ("1e00", "unknown type 14"),
    ],
)
def test_hostile_numbers_and_types_are_refused(stored: str, message: str) -> None:
    data = bytes.fromhex(stored)
    for call in (decode, lambda given: CompactReader(given).skip(Kind.STRUCT)):
        with pytest.raises(ThriftError, match=message):
            call(data)


@pytest.mark.parametrize("head", [b"\x1c", b"\x19\x1c", b"\x1b\x01\x3c\x06", b"\x19\x19"])
def test_a_million_levels_are_refused_without_deep_recursion(head: bytes) -> None:
    data = head * 1_000_000
    limit = sys.getrecursionlimit()
    for call in (decode, lambda given: CompactReader(given).skip(Kind.STRUCT)):
        with pytest.raises(ThriftError, match=f"nested more than {MAX_DEPTH}"):
            call(data)
    assert sys.getrecursionlimit() == limit


def test_as_many_levels_as_allowed_are_read() -> None:
    decode(b"\x1c" * (MAX_DEPTH - 1) + b"\0" * MAX_DEPTH)
    with pytest.raises(ThriftError, match="nested more"):
        decode(b"\x1c" * MAX_DEPTH + b"\0" * (MAX_DEPTH + 1))


def test_fields_are_replaced_in_the_order_of_their_numbers() -> None:
    struct = ThriftStruct([(1, Kind.I32, 7), (4, Kind.I32, 8)])
    struct.set(2, Kind.BINARY, b"two")
    struct.set(4, Kind.I32, 9)
    assert [number for number, *_ in struct.fields] == [1, 2, 4]
    assert (struct.get(2), struct.get(4), struct.get(3)) == (b"two", 9, None)
    struct.drop({1, 3})
    assert [number for number, *_ in struct.fields] == [2, 4]


def test_lists_of_booleans_have_a_byte_for_each() -> None:
    struct = ThriftStruct([(1, Kind.LIST, ThriftList(Kind.TRUE, [True, False]))])
    assert encode(struct) == bytes([0x19, 0x21, 1, 2, 0])


def test_a_footer_has_the_row_groups_that_arrow_sees() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": range(40)}), sink, row_group_size=2)
    data = sink.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert len(decode(footer).get(FileMetaData.ROW_GROUPS).members) == 20
    assert encode(decode(footer)) == footer
