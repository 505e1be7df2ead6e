"""Random access by few requests."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.storage.objects.ranged_file import RangedFile, coalesce

_MIB = 1 << 20


class _Object:
    def __init__(self, size: int) -> None:
        self.data = random.Random(7).randbytes(size)
        self.asked: list[tuple[int, int]] = []

    def open(self, tail: int) -> RangedFile:
        return RangedFile(self.data[-tail:], len(self.data), self.read)

    def read(self, offset: int, length: int) -> bytes:
        self.asked.append((offset, length))
        return self.data[offset : offset + length]


def test_a_small_object_needs_nothing_more() -> None:
    stored = _Object(1000)
    file = stored.open(4096)
    assert file.read() == stored.data
    file.seek(-8, 2)
    assert file.read(4) == stored.data[-8:-4]
    assert file.tell() == 996
    assert file.read(100) == stored.data[-4:]
    assert file.read(1) == b""
    assert stored.asked == []


def test_reading_on_takes_few_requests() -> None:
    stored = _Object(41 * _MIB)
    file = stored.open(_MIB)
    pieces = []
    while piece := file.read(100_000):
        pieces.append(piece)
    assert b"".join(pieces) == stored.data
    assert len(stored.asked) <= 4


def test_reads_here_and_there_are_right() -> None:
    stored = _Object(40 * _MIB)
    file, chance = stored.open(_MIB), random.Random(3)
    for _ in range(50):
        start, length = chance.randrange(len(stored.data)), chance.randrange(3 * _MIB)
        file.seek(start)
        assert file.read(length) == stored.data[start : start + length]


def test_a_short_answer_is_an_error() -> None:
    file = RangedFile(b"end", 100, lambda offset, length: b"x" * (length - 1))
    with pytest.raises(EOFError, match="97 bytes at 0"):
        file.read(5)


_RANGES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40)), max_size=12)


@given(_RANGES, st.integers(0, 20), st.integers(1, 100))
def test_coalesced_ranges_cover_what_was_asked_for(
    ranges: list[tuple[int, int]], gap: int, largest: int
) -> None:
    merged = coalesce(ranges, gap, largest)
    assert merged == sorted(merged)
    for offset, length in ranges:
        if length:
            assert any(o <= offset and offset + length <= o + n for o, n in merged)
    assert len(merged) <= sum(1 for _, length in ranges if length)
    for offset, length in merged:
        assert length <= largest or (offset, length) in ranges or length <= 40


def test_neighbours_become_one() -> None:
    assert coalesce([(10, 5), (0, 5), (17, 3), (40, 1)], 5, 100) == [(0, 20), (40, 1)]
    assert coalesce([(0, 5), (5, 5), (10, 5)], 0, 10) == [(0, 10), (10, 5)]
    assert coalesce([(3, 0)], 0, 10) == []
