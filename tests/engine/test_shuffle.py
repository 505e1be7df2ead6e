"""The shuffle: each row reaches its destination once, through memory or a file."""

import os
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.engine import shuffle as shuffles
from deltactl.engine.shuffle import RowCounts, ShuffleSource, ShuffleWork, join_batches, shuffle
from deltactl.engine.spill import Spool
from deltactl.errors import StorageError
from deltactl.storage.local.spill import Spill, ensure_space

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int8()))])


def batch_of(numbers: list[int]) -> pa.RecordBatch:
    rows = [
        {"n": n, "text": f"t{n}" if n % 3 else None, "list": [n % 7] * (n % 4)} for n in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def read(batches: list[list[int]]) -> ShuffleSource[int]:
    return ShuffleSource((batch_of(numbers) for numbers in batches), lambda: sum(map(len, batches)))


def key(batch: pa.RecordBatch, first_row: int) -> Any:
    return np.asarray(batch["n"]) % 5, np.asarray(batch["n"])


def write(
    destination: int, counts: RowCounts, batches: Iterator[pa.RecordBatch]
) -> tuple[int, int, list[Any]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row.pop("place") == row["n"] for row in rows)
    return destination, counts.own, rows


_NUMBERS = st.lists(st.integers(0, 99), max_size=20)


@settings(suppress_health_check=list(HealthCheck), max_examples=50)
@given(
    sources=st.lists(st.lists(_NUMBERS, max_size=4), max_size=5),
    memory_bytes=st.sampled_from([0, 300, 1 << 20]),
    workers=st.integers(1, 3),
)
def test_each_row_arrives_once(
    sources: list[list[list[int]]], memory_bytes: int, workers: int
) -> None:
    with Spool(SCHEMA, 5, memory_bytes) as spool:
        counts, written = shuffle(
            ShuffleWork(SCHEMA, read, key, write), sources, spool, workers=workers, memory_bytes=1
        )
    assert counts == [sum(map(len, batches)) for batches in sources]
    found: Counter[str] = Counter()
    for destination, own, rows in written:
        assert own == len(rows) > 0
        assert {row["n"] % 5 for row in rows} == {destination}
        found.update(map(str, rows))
    numbers = [n for batches in sources for batch in batches for n in batch]
    assert found == Counter(map(str, batch_of(numbers).to_pylist()))


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_failure_ends_it(workers: int) -> None:
    def fail(
        destination: int, counts: RowCounts, batches: Iterator[pa.RecordBatch]
    ) -> tuple[int, int, list[Any]]:
        raise ValueError(f"destination {destination}")

    work = ShuffleWork(SCHEMA, read, key, fail)
    with Spool(SCHEMA, 5, 10) as spool, pytest.raises(ValueError, match="destination"):
        shuffle(work, [[[1, 2, 3]], [[4]]], spool, workers=workers, memory_bytes=1)


def test_rows_come_while_others_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(list(range(10)))
    size = int(batch.nbytes) + 8 * 10  # with the places
    append = Spool._append

    def add(spool: Spool) -> None:
        spool.add(batch, np.zeros(10, np.int64), np.arange(10))

    def append_slowly(spool: Spool, number: int, pieces: list[pa.RecordBatch]) -> None:
        if spool.spilled_bytes:  # of half of the memory: another thread need not wait
            other = Thread(target=add, args=(spool,), daemon=True)
            other.start()
            other.join(60)
            assert not other.is_alive()
        append(spool, number, pieces)

    monkeypatch.setattr(Spool, "_append", append_slowly)
    with Spool(SCHEMA, 1, 4 * size - 1) as spool:
        for _ in range(6):
            add(spool)
        assert spool.rows[0] == 70
        assert sum(piece.num_rows for piece in spool.take(0)) == 70


def test_rows_are_gathered() -> None:
    batches = [batch_of([n]) for n in range(10)]
    assert [batch.num_rows for batch in join_batches(batches, SCHEMA, 1 << 20)] == [10]
    assert [batch.num_rows for batch in join_batches(batches, SCHEMA, 1 << 20, 4)] == [4, 4, 2]
    assert [batch.num_rows for batch in join_batches(batches, SCHEMA, 1)] == [1] * 10
    assert not list(join_batches([], SCHEMA, 1))


def test_batches_that_are_too_large_together_are_not_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arrow cannot join strings of more bytes than their offsets can count."""
    batches = [batch_of([n] * count) for n, count in ((1, 1), (2, 50), (3, 1), (4, 1))]
    monkeypatch.setattr(shuffles, "_MOST_JOINED_BYTES", batches[1].nbytes)
    found = list(join_batches(batches, SCHEMA, batches[1].nbytes))
    assert [batch.num_rows for batch in found] == [1, 50, 2]
    assert pa.Table.from_batches(found) == pa.Table.from_batches(batches)


def test_places_count_as_memory(tmp_path: Path) -> None:
    """The place of a row can be larger than the row."""
    narrow = pa.record_batch({"n": pa.array([1] * 1000, pa.int8())})
    destinations, places = np.zeros(1000, np.int64), np.arange(1000)
    with Spool(narrow.schema, 1, 8999, str(tmp_path)) as spool:
        spool.add(narrow, destinations, places)
        assert spool.spilled_bytes
    with Spool(narrow.schema, 1, 9000, str(tmp_path)) as spool:
        spool.add(narrow, destinations, places)
        assert not spool.spilled_bytes


def test_the_spill_file_has_no_name(tmp_path: Path) -> None:
    with Spool(SCHEMA, 2, 0, str(tmp_path)) as spool:
        spool.add(batch_of([1, 2]), np.array([0, 1]), np.array([0, 0]))
        assert spool.spilled_bytes > 0
        assert not list(tmp_path.iterdir())
        assert [batch.num_rows for batch in spool.take(1)] == [1]
        assert not list(spool.take(1))


def test_a_file_that_takes_fewer_bytes_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr("os.pwrite", lambda file, data, at: write(file, bytes(data)[:100], at))
    monkeypatch.setattr("os.preadv", lambda file, into, at: read(file, [into[0][:70]], at))
    batch = pa.record_batch([pa.array(range(1000))], pa.schema([("n", pa.int64())]))
    with Spill(batch.schema, 0, str(tmp_path)) as spill:
        spill.keep([(0, batch), (1, batch)], 2 * int(batch.nbytes))
        assert list(spill.read(0)) == list(spill.read(1)) == [batch]


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("os.pwrite", fail)
    with (
        Spool(SCHEMA, 2, 0, str(tmp_path)) as spool,
        pytest.raises(StorageError, match=r"cannot write the spill file .* No space left"),
    ):
        spool.add(batch_of([1]), np.array([0]), np.array([0]))


def test_a_spill_file_that_was_cut(tmp_path: Path) -> None:
    with Spool(SCHEMA, 2, 0, str(tmp_path)) as spool:
        spool.add(batch_of([1]), np.array([0]), np.array([0]))
        assert spool._file is not None
        spool._file.truncate(10)
        with pytest.raises(StorageError, match="shorter than what was written"):
            list(spool.take(0))


def test_space_is_checked_first(tmp_path: Path) -> None:
    ensure_space(str(tmp_path), 1)
    with pytest.raises(StorageError, match=r"may have to spill .* free"):
        ensure_space(str(tmp_path), 1 << 60)
    with pytest.raises(StorageError, match="cannot use"):
        ensure_space(str(tmp_path / "missing"), 1)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_spilled_rows_are_not_copied() -> None:
    with Spill(SCHEMA, 1) as spill, pytest.raises(TypeError, match="cannot be copied or pickled"):
        deepcopy(spill)
