import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.catalog.thrift import DeclaredError, Kind, encode, read_reply
from deltactl.errors import StorageError

REPLY = b"\x80\x01\x00\x02" + encode(Kind.STRING, "method") + encode(Kind.I32, 1)
SIMPLE: dict[int, st.SearchStrategy[Any]] = {
    Kind.BOOL: st.booleans(),
    Kind.BYTE: st.integers(-128, 127),
    Kind.DOUBLE: st.floats(allow_nan=False),
    Kind.I16: st.integers(-(1 << 15), (1 << 15) - 1),
    Kind.I32: st.integers(-(1 << 31), (1 << 31) - 1),
    Kind.I64: st.integers(-(1 << 63), (1 << 63) - 1),
    Kind.STRING: st.text(),
}


def of(kind: int) -> st.SearchStrategy[Any]:
    """Values of a type; members of collections are of a simple type, or structs of these."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    simple = st.sampled_from(list(SIMPLE))
    if kind == Kind.STRUCT:
        typed = simple.flatmap(lambda each: st.tuples(st.just(each), SIMPLE[each]))
        return st.dictionaries(st.integers(1, 99), typed, max_size=4)
    if kind == Kind.MAP:
        return simple.flatmap(
            lambda key: st.tuples(
                st.just(key), st.just(Kind.STRUCT),
                st.lists(st.tuples(SIMPLE[key], of(Kind.STRUCT)), max_size=3),
            )
        )  # fmt: skip
    members = st.sampled_from([*SIMPLE, Kind.STRUCT])
    return members.flatmap(lambda each: st.tuples(st.just(each), st.lists(of(each), max_size=4)))


TYPED = st.sampled_from(list(Kind)).flatmap(lambda kind: st.tuples(st.just(kind), of(kind)))


def answer(fields: dict[int, Any]) -> Any:
    return read_reply(io.BytesIO(REPLY + encode(Kind.STRUCT, fields)), "method")


@given(TYPED)
def test_what_is_written_is_read_again(typed: tuple[int, Any]) -> None:
    assert answer({0: typed}) == typed[1]


def test_an_exception_of_the_method() -> None:
    with pytest.raises(DeclaredError, match="no such table") as raised:
        answer({2: (Kind.STRUCT, {1: (Kind.STRING, "no such table")})})
    assert raised.value.field == 2
    assert answer({}) is None


def test_a_failure_of_the_service() -> None:
    failed = REPLY[:3] + b"\3" + REPLY[4:] + encode(Kind.STRUCT, {1: (Kind.STRING, "no method")})
    with pytest.raises(StorageError, match="no method"):
        read_reply(io.BytesIO(failed), "method")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request", "a server of HTTP answered"),
        (REPLY + b"\x0b\0\0\x7f\xff\xff\xff", "not of Thrift"),
        (REPLY + b"\x0f\0\0\x0b\xff\xff\xff\xff", "not of Thrift"),
        (REPLY + b"\x0c\0\0" * 40, "not of Thrift"),
        (REPLY + b"\x01\0\0", "not of Thrift"),
    ],
    ids=["http", "long text", "negative list", "deep", "unknown type"],
)
def test_what_is_no_answer(answer: bytes, why: str) -> None:
    with pytest.raises(StorageError, match=why):
        read_reply(io.BytesIO(answer), "method")


def test_a_connection_that_ends() -> None:
    with pytest.raises(ConnectionResetError):
        read_reply(io.BytesIO(REPLY), "method")
