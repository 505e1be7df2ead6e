"""Delta on Spark deletes and updates rows of a table while optimize runs on it, round after round.

``make races`` runs 30 rounds: ``python -m tests.interop.race_rounds --rounds 30``.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltactl import OptimizeOptions, Table
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.storage.forwarding import ForwardingStore
from deltactl.storage.open import open_store
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.delta_spark import delta_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 24, 400
_KEYS = 97


class Waiting(ForwardingStore):
    """Lets the other writer commit a number of times before our first attempt."""

    def __init__(self, inner: Any, writer: Writer, commits: int) -> None:
        super().__init__(inner)
        self._writer, self._commits = writer, commits

    def put_if_absent(self, name: str, data: bytes) -> None:
        while self._commits:
            self._commits -= 1
            self._writer.wait_for_a_commit()
        super().put_if_absent(name, data)


@dataclass
class Model:
    """What the table should hold: ``v`` by ``id``, and the row id of each once it was read."""

    rows: dict[int, int] = field(default_factory=dict)
    row_ids: dict[int, int] = field(default_factory=dict)


@dataclass
class Writer:
    """A thread in which Spark deletes and updates, and what the table should hold after it."""

    spark: SparkSession
    path: Path
    seed: int
    rows: dict[int, int]
    commits: int = 0
    lost: int = 0
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        chance = random.Random(self.seed)
        while not self._stop.is_set():
            self._change(chance.choice(["delete", "delete", "update"]), chance.randrange(_KEYS))

    def _change(self, kind: str, key: int) -> None:
        what = "DELETE FROM" if kind == "delete" else "UPDATE"
        change = "" if kind == "delete" else "SET v = v + 1 "
        try:
            self.spark.sql(f"{what} delta.`{self.path}` {change}WHERE id % {_KEYS} = {key}")
        except Exception as error:
            if "CONCURRENT" not in str(error).upper():
                self.errors.append(str(error)[:500])
                self._stop.set()
            self.lost += 1
            return
        finally:
            with self._changed:
                self._changed.notify_all()
        hit = [number for number in self.rows if number % _KEYS == key]
        for number in hit:
            if kind == "delete":
                del self.rows[number]
            else:
                self.rows[number] += 1
        self.commits += 1

    def wait_for_a_commit(self) -> None:
        with self._changed:
            self._changed.wait(60)

    @contextmanager
    def beside(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        assert not self.errors, self.errors


def create(spark: SparkSession, path: Path) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v BIGINT, s STRING) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')"
    )


def append(spark: SparkSession, path: Path, first: int) -> dict[int, int]:
    end = first + FILES * ROWS
    frame = spark.range(first, end, 1, FILES).selectExpr("id", "0L AS v", "'x' || id AS s")
    frame.write.format("delta").mode("append").save(str(path))
    return dict.fromkeys(range(first, end), 0)


def race(spark: SparkSession, path: Path, number: int, model: Model) -> OptimizeReport:
    """One round: new files, Spark's changes beside an optimize; the rows are right for all."""
    rows = model.rows
    rows |= append(spark, path, number * FILES * ROWS)
    writer = Writer(spark, path, number, rows)
    store = Waiting(open_store(str(path)), writer, 1 + number % 3)
    with writer.beside():
        report = Table(str(path), store=store).optimize(OptimizeOptions(min_input_files=2))
    verify(spark, path, model)
    print(
        f"round {number}: versions {report.versions}, {report.carried_rows} rows carried in "
        f"{report.carried_bins} bins, {len(report.dropped)} bins dropped, {report.rounds} rounds; "
        f"Spark: {writer.commits} commits, {writer.lost} lost",
        file=sys.stderr,
    )
    return report


def verify(spark: SparkSession, path: Path, model: Model) -> None:
    """Spark, DuckDB and delta-rs see the rows of the model; ``check`` finds nothing."""
    expected = Counter(model.rows.items())
    found = spark.sql(f"SELECT id, v, _metadata.row_id AS r FROM delta.`{path}`").collect()
    moved = [row for row in found if model.row_ids.setdefault(row["id"], row["r"]) != row["r"]]
    assert not moved, moved[:5]
    assert len({row["r"] for row in found}) == len(found), "two rows have one row id"
    assert Counter((row["id"], row["v"]) for row in found) == expected, "Spark"
    for read in (rows_with_duckdb, rows_with_delta_rs):
        assert Counter((row["id"], row["v"]) for row in read(path)) == expected, read.__name__
    checked = Table(str(path)).check(CheckOptions(depth=Depth.DATA))
    assert not checked.findings.num_rows, checked.findings.to_pylist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch, delta_session(Path(scratch)) as spark:
        path = Path(scratch, "table")
        create(spark, path)
        model = Model()
        reports = [race(spark, path, number, model) for number in range(rounds)]
        assert not any(report.conflicts or report.failures for report in reports)
        carried = sum(report.carried_rows for report in reports)
        print(f"{rounds} rounds, {carried} rows carried over, nothing left", file=sys.stderr)


if __name__ == "__main__":
    main()
