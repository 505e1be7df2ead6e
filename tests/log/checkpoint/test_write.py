"""Batches are read ahead in order, a few at a time; keys are digested in another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from deltactl.log.checkpoint import write
from deltactl.log.checkpoint.key_digest import KeyDigest, join_fingerprints
from deltactl.log.checkpoint.schema import CheckpointLayout
from deltactl.log.checkpoint.write import ActionFileWriter, read_ahead
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.storage.open import open_store


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
    monkeypatch.setattr(write, "_AHEAD_BYTES", write._AHEAD_BYTES * 8 // batch_bytes)
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


def make_adds(first: int, count: int) -> pa.Table:
    rows = [
        {
            "path": f"f{number}",
            "encoded_path": f"f{number}",
            "size_bytes": number,
            "modification_time_ms": 1,
            "data_change": False,
            "partition_values": {},
        }
        for number in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, schema=ADD_SCHEMA)


def open_writer(folder: Path) -> ActionFileWriter:
    layout = CheckpointLayout(stats_json=True, stats_type=None, partition_types={})
    return ActionFileWriter(open_store(str(folder)), "x.parquet", layout.sidecar_schema, layout)


def test_the_digest_is_that_of_all_batches_in_order(tmp_path: Path) -> None:
    threads = threading.active_count()
    expected = KeyDigest()
    with open_writer(tmp_path) as writer:
        for first in range(0, 3000, 100):
            writer.write_adds(make_adds(first, 100))
            (batch,) = make_adds(first, 100).to_batches()
            expected.add(batch)
        written = writer.close()
        assert threading.active_count() == threads
    assert written.adds == join_fingerprints([expected.finish()])
    assert written.removes == join_fingerprints([])


def test_keys_that_cannot_be_digested_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: KeyDigest, rows: pa.Table) -> None:
        raise MemoryError

    threads = threading.active_count()
    monkeypatch.setattr(KeyDigest, "add", fail)
    with pytest.raises(MemoryError), open_writer(tmp_path) as writer:
        writer.write_adds(make_adds(0, 1))
        writer.close()
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == threads
