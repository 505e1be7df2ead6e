"""Batches are read ahead in order, a few at a time."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from deltactl.log import threads
from deltactl.log.threads import read_ahead


class Source:
    """Batches with ascending numbers; counts those that were read."""

    def __init__(self, count: int, fails_at: int = -1) -> None:
        self.num_read, self._count, self._fails_at = 0, count, fails_at

    def __iter__(self) -> Iterator[pa.Table]:
        for number in range(self._count):
            if number == self._fails_at:
                raise OSError("gone")
            self.num_read += 1
            yield pa.table({"n": pa.array([number], pa.int64())})


def numbers(batches: Iterator[pa.Table]) -> list[int]:
    return [batch["n"][0].as_py() for batch in batches]


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_all_batches_come_in_order(count: int) -> None:
    assert numbers(read_ahead(Source(count))) == list(range(count))


@pytest.mark.parametrize(("batch_bytes", "most"), [(8, 5), (48 << 20, 2), (96 << 20, 1)])
def test_batches_that_wait_are_few_and_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch, batch_bytes: int, most: int
) -> None:
    monkeypatch.setattr(threads, "_AHEAD_BYTES", threads._AHEAD_BYTES * 8 // batch_bytes)
    source = Source(50)
    batches = read_ahead(source)
    for taken in range(1, 40):
        next(batches)
        assert source.num_read <= taken + most
    batches.close()  # type: ignore[attr-defined]
    assert source.num_read <= 39 + most


def test_an_error_comes_after_the_batches_before_it() -> None:
    batches = read_ahead(Source(9, fails_at=2))
    assert [next(batches)["n"][0].as_py() for _ in range(2)] == [0, 1]
    with pytest.raises(OSError, match="gone"):
        next(batches)
