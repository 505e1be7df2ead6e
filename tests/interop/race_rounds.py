"""Another writer deletes and updates rows of a table while optimize runs on it, round after round.

``make races`` runs 30 rounds each beside Delta on Spark, which writes deletion vectors, on a local
disk, on MinIO, and on a table whose commits a Unity Catalog decides, and beside delta-rs, which
rewrites files, on MinIO.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from deltactl import OptimizeOptions, Table
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.storage.open import open_store
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.catalog_servers import UnityServer, unity_server
from tests.support.delta_spark import delta_session, find_jars
from tests.support.fault_proxy import FaultProxy, Meanwhile, Rule, fault_proxy
from tests.support.forwarding import ForwardingStore
from tests.support.managed_tables import (
    ADD_COMMIT,
    LOAD,
    ManagedTable,
    permitting,
    read_with_duckdb,
)
from tests.support.object_servers import ObjectServer, delta_rs_options, minio
from tests.support.spark_on_s3 import find_s3_jars, s3_settings
from tests.support.table_builder import Column, TableBuilder
from tests.support.unity_spark import find_unity_jars, with_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 24, 400
_NO_OPTIONS: Mapping[str, str] = {}


@dataclass
class Model:
    """What the table should hold: ``v`` by ``id``, and the row id of each once it was read."""

    rows: dict[int, int] = field(default_factory=dict)
    row_ids: dict[int, int] = field(default_factory=dict)


class Side(Protocol):
    """Another writer, and a table of it."""

    uri: str
    options: Mapping[str, str]

    def append(self, first: int) -> None:
        """Add ``FILES`` files of ``ROWS`` rows each; ids begin at ``first``."""

    def change(self, condition: str, *, delete: bool) -> None:
        """Delete some rows, or add 1 to their ``v``."""

    def choose(self, chance: random.Random, model: Model) -> tuple[str, list[int]]:
        """Return a condition, and the ids that it means."""

    def opened(self, writer: Writer, commits: int) -> Table:
        """The table; before its first commit, the writer commits so many times."""

    def verify(self, model: Model) -> None:
        """Compare what others read with the model."""


class OnStore:
    """A table whose commits are decided by its store."""

    uri: str
    options: Mapping[str, str]

    def opened(self, writer: Writer, commits: int) -> Table:
        """See ``Side``."""
        store = Waiting(open_store(self.uri, self.options), writer, commits)
        return Table(self.uri, storage_options=self.options, store=store)


class SparkSide(OnStore):
    """Delta on Spark, with deletion vectors, row tracking and a change feed."""

    def __init__(
        self,
        spark: SparkSession,
        uri: str,
        options: Mapping[str, str] = _NO_OPTIONS,
        *,
        name: str = "",
    ) -> None:
        """Create the table; Spark finds it by its ``name``, or by its path."""
        self.uri, self.options, self._spark = uri, options, spark
        self._first_change, self._rows_before = 1, set[tuple[int, int]]()
        self._address = uri.replace("s3://", "s3a://")
        self._name = name or f"delta.`{self._address}`"
        spark.sql(
            f"CREATE TABLE {self._name} (id BIGINT, v BIGINT, s STRING) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
            "'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true')"
        )

    def append(self, first: int) -> None:
        frame = self._spark.range(first, first + FILES * ROWS, 1, FILES)
        frame.selectExpr("id", "0L AS v", "'x' || id AS s").writeTo(self._name).append()

    def change(self, condition: str, *, delete: bool) -> None:
        what = f"DELETE FROM {self._name}" if delete else f"UPDATE {self._name} SET v = v + 1"
        self._spark.sql(f"{what} WHERE {condition}")

    def choose(self, chance: random.Random, model: Model) -> tuple[str, list[int]]:
        key = chance.randrange(97)
        return f"id % 97 = {key}", [number for number in model.rows if number % 97 == key]

    def verify(self, model: Model) -> None:
        query = f"SELECT id, v, _metadata.row_id AS r FROM {self._name}"
        found = self._spark.sql(query).collect()
        moved = [row for row in found if model.row_ids.setdefault(row["id"], row["r"]) != row["r"]]
        assert not moved, moved[:5]
        assert len({row["r"] for row in found}) == len(found), "two rows have one row id"
        _compare("Spark", found, model)
        self._verify_changes(model)
        self._verify_others(model)

    def _verify_others(self, model: Model) -> None:
        with self._local_table() as path:
            _compare("DuckDB", rows_with_duckdb(path), model)
            _compare("delta-rs", rows_with_delta_rs(path), model)

    @contextmanager
    def _local_table(self) -> Iterator[Path]:
        """The table, or a copy of it: DuckDB has no client for S3 without its extensions."""
        if self._address == self.uri:
            yield Path(self.uri)
            return
        store = open_store(self.uri, self.options)
        with tempfile.TemporaryDirectory() as scratch:
            for name in (name for batch in store.walk() for name in batch):
                path = Path(scratch, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(store.read(name))
            yield Path(scratch)

    def _verify_changes(self, model: Model) -> None:
        """The change feed since the last look has what Spark changed, and nothing of our commits.

        Of all versions it would take longer with every round.
        """
        feed = self._spark.read.format("delta").option("readChangeFeed", "true")
        changes = feed.option("startingVersion", self._first_change).table(self._name)
        sums = changes.selectExpr(
            "id",
            "v",
            "IF(_change_type IN ('insert', 'update_postimage'), 1, -1) AS n",
            "_commit_version AS version",
        )
        sums = sums.groupBy("id", "v").agg({"n": "sum", "version": "max"})
        changed = sums.collect()
        found = {(row["id"], row["v"]): row["sum(n)"] for row in changed if row["sum(n)"]}
        rows = set(model.rows.items())
        expected = dict.fromkeys(rows - self._rows_before, 1)
        expected |= dict.fromkeys(self._rows_before - rows, -1)
        assert found == expected, "change feed"
        self._first_change = 1 + max(row["max(version)"] for row in changed)
        self._rows_before = rows


class ManagedSide(SparkSide):
    """Delta on Spark on a managed table of a Unity Catalog; deltactl asks through a proxy."""

    def __init__(self, spark: SparkSession, server: UnityServer, proxy: FaultProxy) -> None:
        self._table, self._proxy = ManagedTable(server, "main.default.races"), proxy
        proxy.add(permitting("DATA_REORGANIZATION"))
        super().__init__(
            with_catalog(spark, "main", server.address),
            f"uc://{self._table.name}",
            {"databricks_host": proxy.endpoint, "databricks_token": "not-checked"},
            name=self._table.name,
        )

    def opened(self, writer: Writer, commits: int) -> Table:
        """See ``Side``."""

        def wait() -> None:
            for _ in range(commits):
                writer.wait_for_a_commit()

        self._proxy.add(Rule(Meanwhile(wait), "POST", LOAD, ADD_COMMIT))
        return Table(self.uri, storage_options=self.options)

    @property
    def lost(self) -> int:
        """How many commits of deltactl came too late for their version."""
        commits = self._proxy.find("POST", LOAD, ADD_COMMIT)
        return sum(request.status == HTTPStatus.CONFLICT for request in commits)

    def _verify_others(self, model: Model) -> None:
        found = read_with_duckdb(self._table.server.address, self._table.name)
        _compare("DuckDB", [{"id": row[0], "v": row[1]} for row in found], model)
        self._verify_history()

    def _verify_history(self) -> None:
        """No version is missing, to us nor to Spark; each is published at last."""
        latest = self._table.load()["latest-table-version"]
        ours = Table(self.uri, storage_options=self.options).history()["version"].to_pylist()
        theirs = self._spark.sql(f"DESCRIBE HISTORY {self._name}").select("version").collect()
        versions = list(range(latest, -1, -1))
        assert ours == versions, ours
        assert [row["version"] for row in theirs] == versions


class DeltaRsSide(OnStore):
    """delta-rs on an S3 server: it writes the rows of a file that are left to a new file."""

    def __init__(self, server: ObjectServer) -> None:
        self.uri, self.options = f"{server.bucket}/races", server.options
        self._options = delta_rs_options(server.endpoint)
        self._builder = TableBuilder(
            open_store(self.uri, self.options),
            [Column("id"), Column("v")],
            features=["deletionVectors"],
            properties={"delta.enableDeletionVectors": "true"},
        )

    def append(self, first: int) -> None:
        import pyarrow as pa
        from deltalake import write_deltalake

        for start in range(first, first + FILES * ROWS, ROWS):
            rows = pa.table({"id": range(start, start + ROWS), "v": [0] * ROWS})
            write_deltalake(self.uri, rows, mode="append", storage_options=self._options)

    def change(self, condition: str, *, delete: bool) -> None:
        from deltalake import DeltaTable

        table = DeltaTable(self.uri, storage_options=self._options)
        if delete:
            table.delete(condition)
        else:
            table.update(updates={"v": "v + 1"}, predicate=condition)

    def choose(self, chance: random.Random, model: Model) -> tuple[str, list[int]]:
        start = chance.choice(list(model.rows))
        condition = f"id >= {start} AND id < {start + 20}"
        return condition, [number for number in range(start, start + 20) if number in model.rows]

    def verify(self, model: Model) -> None:
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder

        table = DeltaTable(self.uri, storage_options=self._options)
        query = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
        _compare("delta-rs", pa.table(query).to_pylist(), model)


def _compare(reader: str, rows: list[Any], model: Model) -> None:
    assert Counter((row["id"], row["v"]) for row in rows) == Counter(model.rows.items()), reader


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
class Writer:
    """A thread in which the other side deletes and updates, and tells the model of it."""

    side: Side
    model: Model
    seed: int
    commits: int = 0
    lost: int = 0
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        chance = random.Random(self.seed)
        while not self._stop.is_set():
            self._change(*self.side.choose(chance, self.model), delete=chance.random() < 0.7)
            with self._changed:
                self._changed.notify_all()

    def _change(self, condition: str, hit: list[int], *, delete: bool) -> None:
        try:
            self.side.change(condition, delete=delete)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if not any(word in text.upper() for word in ("CONCURRENT", "CONFLICT")):
                self.errors.append(text[:500])
                self._stop.set()
            self.lost += 1
            return
        for number in hit:
            if delete:
                del self.model.rows[number]
            else:
                self.model.rows[number] += 1
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


def race(side: Side, number: int, model: Model) -> OptimizeReport:
    """One round: new files, changes beside an optimize; all readers see the rows of the model."""
    first = number * FILES * ROWS
    side.append(first)
    model.rows |= dict.fromkeys(range(first, first + FILES * ROWS), 0)
    writer = Writer(side, model, number)
    with writer.beside():
        report = side.opened(writer, 1 + number % 3).optimize(OptimizeOptions())
    side.verify(model)
    checked = Table(side.uri, storage_options=side.options).check(CheckOptions(depth=Depth.DATA))
    assert not checked.findings.num_rows, checked.findings.to_pylist()
    print(
        f"round {number}: versions {report.versions}, {report.carried_rows} rows carried in "
        f"{report.carried_bins} bins, {len(report.dropped)} bins dropped, {report.rounds} rounds; "
        f"the other writer: {writer.commits} commits, {writer.lost} lost",
        file=sys.stderr,
    )
    return report


def race_often(side: Side, rounds: range) -> int:
    """Run these rounds on one new table; return the number of rows carried over."""
    model = Model()
    reports = [race(side, number, model) for number in rounds]
    assert all(report.versions for report in reports)
    assert not any(report.conflicts or report.failures for report in reports)
    carried = sum(report.carried_rows for report in reports)
    print(f"{len(rounds)} rounds, {carried} rows carried over, nothing left", file=sys.stderr)
    return carried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="go on after so many rounds")
    parser.add_argument("--side", choices=[*_RUNS], action="append")
    arguments = parser.parse_args()
    rounds = range(arguments.first, arguments.rounds)
    for side in arguments.side or _RUNS:
        with tempfile.TemporaryDirectory() as scratch:
            print(side, file=sys.stderr)
            _RUNS[side](Path(scratch), rounds)


def _beside_spark(scratch: Path, rounds: range) -> None:
    with delta_session(scratch) as spark:
        race_often(SparkSide(spark, str(scratch / "table")), rounds)


def _beside_spark_on_minio(scratch: Path, rounds: range) -> None:
    jars = find_s3_jars(find_jars())
    with (
        minio(scratch) as server,
        delta_session(scratch, jars, s3_settings(server.endpoint)) as spark,
    ):
        race_often(SparkSide(spark, f"{server.bucket}/races", server.options), rounds)


def _beside_spark_on_unity(scratch: Path, rounds: range) -> None:
    jars = find_unity_jars(find_jars())
    with (
        unity_server(scratch, is_kept=True) as server,
        fault_proxy(server.address) as proxy,
        delta_session(scratch, jars) as spark,
    ):
        server.add_catalog("main", "default")
        side = ManagedSide(spark, server, proxy)
        race_often(side, rounds)
        print(f"{side.lost} commits came too late for their version", file=sys.stderr)
        assert side.lost >= len(rounds) // 6, "too few races for a version"


def _beside_delta_rs(scratch: Path, rounds: range) -> None:
    with minio(scratch) as server:
        race_often(DeltaRsSide(server), rounds)


_RUNS: Final = {
    "spark": _beside_spark,
    "spark-minio": _beside_spark_on_minio,
    "spark-unity": _beside_spark_on_unity,
    "delta-rs-minio": _beside_delta_rs,
}


if __name__ == "__main__":
    main()
