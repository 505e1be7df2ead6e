"""A simulated fleet, half on a local disk and half on MinIO: the proof of maintain.

Files on MinIO are new, as no server lets a client say how old they are: nothing is vacuumed there.

``make fleet`` builds 300 tables for each of three seeds, and gives the same budget of bytes to
``maintain`` and to ``optimize`` over the tables in the order of their names. It compares how many
small files each removed, what was predicted with what was measured, and what others read.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.run import check_table
from deltactl.operations.maintain.actions import Effect
from deltactl.operations.maintain.options import Budget, MaintainOptions
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.maintain.report import MaintainReport, Outcome
from deltactl.operations.maintain.run import maintain_tables
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.run import optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.scan import scan_snapshot
from deltactl.storage.open import open_store
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store
from tests.support.delta_spark import delta_session, find_jars
from tests.support.lake import SUMS, TARGET, LakeTable, build_lake, digest_rows
from tests.support.object_servers import ObjectServer, delta_rs_options, minio
from tests.support.spark_on_s3 import find_s3_jars, s3_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL: Final = TARGET * 3 // 4
_SHARE: Final = 6
"""The budget is one sixth of the bytes that are due."""


@dataclass(frozen=True)
class Fleet:
    """Tables and where each one is; ``server`` has those that are not local."""

    tables: list[LakeTable]
    addresses: Mapping[str, str]
    server: ObjectServer
    context: RunContext = field(init=False)

    def __post_init__(self) -> None:
        context = RunContext(warn=_quiet, storage_options=self.server.options)
        object.__setattr__(self, "context", context)

    def store(self, table: LakeTable) -> Store:
        return open_store(self.addresses[table.name], self.server.options)

    def sound(self) -> list[LakeTable]:
        return [table for table in self.tables if table.kind != "broken"]

    def count_small_files(self) -> int:
        return sum(_count_small(self.store(table)) for table in self.sound())

    def maintain(self, budget: int | None, *, dry_run: bool = False) -> MaintainReport:
        policy = MaintainPolicy(skip_hot=timedelta(hours=12))  # however long this takes
        return maintain_tables(
            [self.addresses[table.name] for table in self.tables],
            lambda _: policy,
            MaintainOptions(budget=Budget(bytes=budget)),
            self.context,
            dry_run=dry_run,
        )

    def optimize_by_name(self, budget: int) -> int:
        """Optimize table after table until the bytes are used up; return those that were read."""
        left = budget
        for table in sorted(self.tables, key=lambda it: it.name):
            try:
                options = OptimizeOptions(max_bytes=left)
                report = optimize_table(
                    DeltaLog(self.store(table), ignore_warning), options, self.context
                )
            except DeltactlError:
                assert table.kind == "broken"
                continue
            left -= report.bytes_removed
        return budget - left

    def total_due(self) -> int:
        found = self.maintain(None, dry_run=True)
        actions = (action for table in found.tables for action in table.actions)
        return sum(it.predicted.bytes_read for it in actions if it.name == "optimize")


def _quiet(_: str) -> None:
    pass


def _count_small(store: Store) -> int:
    sizes = DeltaLog(store, _quiet).snapshot().files["size_bytes"]
    return int(pc.sum(pc.less(sizes, _SMALL)).as_py() or 0)


def build_fleets(folder: Path, server: ObjectServer, number: int, seed: int) -> list[Fleet]:
    """Write the same lake twice; by chance each table is local or on the server."""
    chance = random.Random(seed)
    tables = build_lake(folder / "lake", number, seed)
    remote = {table.name for table in chance.sample(tables, number // 2)}
    fleets = []
    for copy in ("ranked", "by-name"):
        addresses = {}
        for table in tables:
            source = folder / "lake" / table.name
            address = folder / copy / table.name
            addresses[table.name] = str(address)
            if table.name in remote:
                uri = f"{server.bucket}/{folder.name}/{copy}/{table.name}"
                addresses[table.name] = uri
                _upload(source, open_store(uri, server.options))
            else:
                shutil.copytree(source, address)
        fleets.append(Fleet(tables, addresses, server))
    shutil.rmtree(folder / "lake")
    return fleets


def _upload(source: Path, store: Store) -> None:
    paths = sorted(path for path in source.rglob("*") if path.is_file())

    def put(path: Path) -> None:
        store.put(str(path.relative_to(source)), path.read_bytes())

    list(each_in_parallel(put, paths))


@dataclass(frozen=True)
class Figures:
    """What one seed gave; ``worst`` are the largest deviations of a single call of optimize."""

    seed: int
    tables: int
    due_bytes: int
    budget: int
    small_before: int
    removed_by_name: int
    read_by_name: int
    removed: int
    predicted: Effect
    measured: Effect
    worst: Mapping[str, float]
    seconds: float

    def __str__(self) -> str:
        said = [
            f"seed {self.seed}: {self.tables} tables, {self.small_before:,} small files, "
            f"{_mib(self.due_bytes)} due, budget {_mib(self.budget)}",
            f"  optimize by name: {self.removed_by_name:,} small files fewer, "
            f"{_mib(self.read_by_name)} read",
            f"  maintain: {self.removed:,} small files fewer, {_mib(self.measured.bytes_read)} "
            f"read: {self.removed / max(self.removed_by_name, 1):.1f} times as many",
        ]
        for name in ("files_removed", "bytes_read", "bytes_written", "bytes_freed", "seconds"):
            before, after = getattr(self.predicted, name), getattr(self.measured, name)
            change = f" ({before / after - 1:+.1%})" if after else ""
            worst = f", largest of one {self.worst[name]:.1%}" if name in self.worst else ""
            said.append(f"  {name}: predicted {before:,.0f}, measured {after:,.0f}{change}{worst}")
        said.append(f"  {self.seconds:.0f} s")
        return "\n".join(said)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"


def compare(ranked: Fleet, by_name: Fleet, seed: int) -> Figures:
    """Give both ways the same budget.

    Raises ``AssertionError`` if a claim does not hold.
    """
    began = time.monotonic()
    small = ranked.count_small_files()
    due = ranked.total_due()
    budget = due // _SHARE
    read_by_name = by_name.optimize_by_name(budget)
    removed_by_name = small - by_name.count_small_files()
    report = ranked.maintain(budget)
    removed = small - ranked.count_small_files()
    _ensure_kinds(ranked, report)
    assert removed >= 2 * removed_by_name, (removed, removed_by_name)
    assert report.measured.bytes_read <= budget + TARGET
    return Figures(
        seed, len(ranked.tables), due, budget, small, removed_by_name, read_by_name, removed,
        report.predicted, report.measured, _find_worst(report), time.monotonic() - began,
    )  # fmt: skip


def finish(fleet: Fleet, reader: Reader | None = None) -> None:
    """Go on where the first run ended, until nothing is left; all tables are whole.

    Raises ``AssertionError`` if a claim does not hold.
    """
    fleet.maintain(None)
    assert not fleet.maintain(None, dry_run=True).is_due
    for table in fleet.sound():
        ensure_whole(fleet, table, reader)


def _ensure_kinds(fleet: Fleet, report: MaintainReport) -> None:
    """Broken tables are reported, hot ones are not touched, nothing else failed."""
    broken = {fleet.addresses[table.name] for table in fleet.tables if table.kind == "broken"}
    assert set(report.errors) == broken
    assert {error.code for error in report.errors.values()} == {"LOG_GAP"}
    found = {table.facts.table: table for table in report.tables}
    for table in fleet.sound():
        result = found[fleet.addresses[table.name]]
        assert not result.errors, result.errors
        if table.kind == "hot":
            assert not [it for it in result.outcomes if it.name == "optimize"]
            assert "recently written" in str([action.why_left for action in result.left])


def _find_worst(report: MaintainReport) -> dict[str, float]:
    """Return by how much predictions for single calls of optimize differ from what was measured.

    None, and no sum, by more than a fifth.
    """
    calls = [o for table in report.tables for o in table.outcomes if o.name == "optimize"]
    assert calls
    worst = {}
    for name in ("files_removed", "bytes_read", "bytes_written"):
        worst[name] = max(_deviation(outcome, name) for outcome in calls)
        assert worst[name] <= 0.2, (name, worst)
        before, after = getattr(report.predicted, name), getattr(report.measured, name)
        assert abs(before / after - 1) <= 0.2, (name, before, after)
    for table in report.tables:
        for outcome in table.outcomes:
            if outcome.name == "vacuum" and outcome.measured is not None:
                assert outcome.measured.bytes_freed == outcome.predicted.bytes_freed
    return worst


def _deviation(outcome: Outcome, name: str) -> float:
    assert outcome.measured is not None, outcome.error
    before, after = getattr(outcome.predicted, name), getattr(outcome.measured, name)
    return float(abs(before / after - 1)) if after else float(before != 0)


class Reader:
    """Delta on Spark, which reads tables on both kinds of storage."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def sums(self, address: str) -> tuple[int, ...]:
        frame = self._spark.read.format("delta").load(address.replace("s3://", "s3a://"))
        return tuple(frame.selectExpr(*SUMS).first() or ())


def ensure_whole(fleet: Fleet, table: LakeTable, reader: Reader | None = None) -> None:
    """All readers see the rows that were written, and check finds nothing."""
    store, address = fleet.store(table), fleet.addresses[table.name]
    snapshot = DeltaLog(store, _quiet).snapshot()
    assert digest_rows(scan_snapshot(snapshot).read_all().to_pylist()) == table.digest, address
    report = check_table(
        DeltaLog(store, ignore_warning), CheckOptions(depth=Depth.FOOTERS), fleet.context
    )
    assert report.findings.num_rows == 0, report.findings.to_pylist()
    assert digest_rows(_read_with_delta_rs(fleet, address)) == table.digest, address
    if reader is not None:
        assert reader.sums(address) == table.sums, address


def _read_with_delta_rs(fleet: Fleet, address: str) -> list[dict[str, Any]]:
    from deltalake import DeltaTable, QueryBuilder

    options = delta_rs_options(fleet.server.endpoint) if "://" in address else None
    query = QueryBuilder().register("t", DeltaTable(address, storage_options=options))
    return list(pa.table(query.execute("SELECT * FROM t").read_all()).to_pylist())


@contextmanager
def _opened_reader(server: ObjectServer, scratch: Path) -> Iterator[Reader]:
    jars = find_s3_jars(find_jars())
    with delta_session(scratch, jars, s3_settings(server.endpoint)) as spark:
        yield Reader(spark)


def main() -> None:
    """Prove it for each seed; print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--spark", action="store_true", help="Delta on Spark reads all tables")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        server = stack.enter_context(minio(Path(scratch)))
        reader = None
        if arguments.spark:
            reader = stack.enter_context(_opened_reader(server, Path(scratch, "spark")))
        for seed in arguments.seeds:
            folder = Path(scratch, f"seed-{seed}")
            ranked, by_name = build_fleets(folder, server, arguments.tables, seed)
            print(compare(ranked, by_name, seed), flush=True)
            finish(ranked, reader)
            print(f"  {len(ranked.sound())} tables read by all, and checked", flush=True)
            shutil.rmtree(folder)
    print("all claims hold", file=sys.stderr)


if __name__ == "__main__":
    main()
