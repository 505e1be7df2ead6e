"""Footers that nobody holds any more do not wait for a collector that the program lets rest."""

import gc
import io
import weakref
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.parquet import footer_bytes
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.writer import DataFileWriter, WriteOptions
from deltactl.protocol.stats_columns import StatsColumns
from tests.support.stores import MemoryStore

pytestmark = pytest.mark.thorough

ROUNDS = 40


@pytest.fixture(autouse=True)
def resting_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(footer_bytes, "MAX_WAITING_BYTES", 4_000)
    gc.freeze()  # what other tests left is not looked through each time
    gc.disable()
    yield
    gc.enable()


def _count_alive(footers: list[weakref.ref[pq.FileMetaData]]) -> int:
    return sum(footer() is not None for footer in footers)


def test_arrow_keeps_a_footer_whose_schema_was_asked_for() -> None:
    """Why all this is: once it fails, ``footer_bytes`` may go."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink)
    footers = []
    for _ in range(ROUNDS):
        footer = pq.read_metadata(sink)
        footer.schema  # noqa: B018
        footers.append(weakref.ref(footer))
    del footer
    assert _count_alive(footers) == ROUNDS
    gc.collect()
    assert _count_alive(footers) == 0


def test_footers_that_were_read_are_freed() -> None:
    store = MemoryStore("memory://footers")
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink)
    store.put("x.parquet", sink.getvalue())
    footers = []
    for _ in range(ROUNDS):
        footer = parse_footer(store, "x.parquet", len(sink.getvalue())).metadata
        footer.schema  # noqa: B018
        footers.append(weakref.ref(footer))
    assert footer.serialized_size * ROUNDS > 3 * footer_bytes.MAX_WAITING_BYTES
    assert _count_alive(footers) * footer.serialized_size <= 2 * footer_bytes.MAX_WAITING_BYTES


def test_footers_that_were_written_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("memory://footers")
    batch = pa.record_batch({"a": [1]})
    footers: list[weakref.ref[pq.FileMetaData]] = []
    read = pq.read_metadata

    def read_and_note(source: pa.NativeFile) -> pq.FileMetaData:
        footer = read(source)
        footers.append(weakref.ref(footer))
        return footer

    monkeypatch.setattr(pq, "read_metadata", read_and_note)
    for number in range(ROUNDS):
        with DataFileWriter(
            store, f"{number}", batch.schema, WriteOptions(), StatsColumns()
        ) as writer:
            writer.write(batch)
            writer.close()
    assert len(footers) == ROUNDS
    assert _count_alive(footers) < ROUNDS
    assert _count_alive(footers) * 300 <= 2 * footer_bytes.MAX_WAITING_BYTES
