"""An shuffle on Spark: each row reaches its destination once, errors keep their types."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from deltactl.engine.base import CancelToken
from deltactl.engine.shuffle import RowCounts, ShuffleSource, ShuffleWork
from deltactl.engine.spark import shuffle
from deltactl.engine.spark.engine import SparkEngine
from deltactl.engine.spill import PLACE
from deltactl.errors import DataFileError, InterruptedRunError
from deltactl.operations.check.options import CheckOptions
from deltactl.operations.optimize.layout import distribute
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.table import Table
from tests.support.spark_cluster import ON_CLUSTER, ON_SPARK
from tests.support.table_builder import Column, TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(
    params=[pytest.param("delta_spark", marks=ON_SPARK), pytest.param("cluster", marks=ON_CLUSTER)]
)
def session(request: pytest.FixtureRequest) -> SparkSession:
    """Return a classic session, and one of Spark Connect."""
    found: SparkSession = request.getfixturevalue(request.param)
    return found


# Spark has no type for some of these, and none of them becomes one.
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("u", pa.uint8()),
        ("time", pa.time64("ns")),
        ("text", pa.dictionary(pa.int8(), pa.string())),
    ]
)


def make(fail_at: str, attempt: int) -> ShuffleWork[int, int, tuple[int, RowCounts, list[int]]]:
    def batches(source: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, 3000, 1000):
            numbers = range(100_000 * source + start, 100_000 * source + start + 1000)
            if fail_at == "read" and source == 2:
                raise DataFileError("a broken file")
            rows = [{"n": n, "u": n % 256, "time": n, "text": f"t{n % 9}"} for n in numbers]
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)

    def read(source: int) -> ShuffleSource[int]:
        return ShuffleSource(batches(source), lambda: source)

    def key(batch: pa.RecordBatch, first_row: int) -> Any:
        assert (np.asarray(batch["n"]) % 100_000)[0] == first_row
        return np.asarray(batch["n"]) % 7, np.asarray(batch["n"])

    def write(
        destination: int, counts: RowCounts, batches: Iterator[pa.RecordBatch]
    ) -> tuple[int, RowCounts, list[int]]:
        if fail_at == "write" and destination == 3:
            raise DataFileError("a full disk")
        found = pa.Table.from_batches(batches, SCHEMA.append(PLACE))
        assert found["place"].to_pylist() == found["n"].to_pylist()
        assert found["text"].to_pylist() == [f"t{n % 9}" for n in found["n"].to_pylist()]
        return destination, counts, found["n"].to_pylist()

    return ShuffleWork(SCHEMA, read, key, write)


def run_shuffle(session: SparkSession, fail_at: str = "", **options: Any) -> Any:
    return SparkEngine(session).shuffle(partial(make, fail_at), range(5), 7, **options)


def test_each_row_arrives_once(session: SparkSession) -> None:
    reports, written = run_shuffle(session, usual_rows=9)
    assert sorted(reports) == list(range(5))
    assert sorted(destination for destination, _, _ in written) == list(range(7))
    for destination, counts, numbers in written:
        assert counts == RowCounts(len(numbers), 9)
        assert {n % 7 for n in numbers} == {destination}
    found = sorted(n for _, _, numbers in written for n in numbers)
    assert found == [100_000 * source + n for source in range(5) for n in range(3000)]


def test_places_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source sends its rows when they and their places fill the memory."""
    monkeypatch.setattr(shuffle, "_JOINED_BYTES", 1)
    monkeypatch.setattr(shuffle, "_HELD_BYTES", 2 * 9 * 100)
    batch = pa.record_batch({"n": pa.array([1] * 100, pa.int8())})
    work: ShuffleWork[int, int, None] = ShuffleWork(
        batch.schema,
        lambda source: ShuffleSource(iter([batch] * 4), lambda: source),
        lambda batch, first_row: (np.zeros(100, np.int64), np.arange(100)),
        lambda destination, counts, batches: None,
    )
    assert [number for number, _ in shuffle._read_source(work, 0)] == [0, 0, shuffle.REPORT]


@pytest.mark.parametrize(
    ("kind", "fail_at", "message"),
    [
        pytest.param("delta_spark", "read", "a broken file", marks=ON_SPARK),
        pytest.param("cluster", "write", "a full disk", marks=ON_CLUSTER),
    ],
)
def test_errors_of_workers_are_raised(
    request: pytest.FixtureRequest, kind: str, fail_at: str, message: str
) -> None:
    """Both kinds of session send errors back in the same way, from both sides of the shuffle."""
    with pytest.raises(DataFileError, match=message):
        run_shuffle(request.getfixturevalue(kind), fail_at)


def test_a_cancelled_exchange_ends(session: SparkSession) -> None:
    cancel = CancelToken()
    cancel.set()
    with pytest.raises(InterruptedRunError):
        run_shuffle(session, cancel=cancel)


def test_a_table_is_clustered_by_the_shuffle(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A concurrent delete of an input loses its cluster only, which is placed in the next round."""
    monkeypatch.setattr(distribute, "SHUFFLED_FROM_BYTES", 1)
    builder = TableBuilder(
        tmp_path / "t",
        [Column("id"), Column("v", "string"), Column("p")],
        partition_by=["p"],
        features=["deletionVectors"],
    )
    files = [
        [{"id": 4 * k + n, "v": f"v{k % 9}", "p": n % 2} for k in range(200)] for n in range(4)
    ]
    first, *_ = builder.append(*files)
    builder.delete_rows(first, [0])
    raced: list[int] = []

    class Racing(SparkEngine):
        def shuffle(self, *arguments: Any, **options: Any) -> Any:
            found = super().shuffle(*arguments, **options)
            if not raced:
                raced.append(builder.delete_rows(first, [1]))
            return found

    table = Table(str(tmp_path / "t"))
    options = OptimizeOptions(cluster_by="id,v", target_bytes=table.snapshot().size_bytes // 4)
    report = table.optimize(options, engine=Racing(session))
    assert raced
    assert (report.engine, report.files_removed, report.rounds) == ("spark", 4, 2)
    assert (len(report.dropped), report.conflicts) == (1, ())
    assert report.files_added > 1
    found = sorted(table.scan(columns=["id"]).read_all()["id"].to_pylist())
    assert found == sorted(set(range(800)) - {0, 4})
    assert table.optimize(options, dry_run=True).plan.is_empty
    checked = table.check(CheckOptions(proofs=True), engine=SparkEngine(session))
    assert checked.is_sound
    assert checked.counts.num_digests == len(report.versions)
