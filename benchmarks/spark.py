"""`python -m benchmarks.spark`: the Spark engine beside the local one, and beside Delta on Spark.

All sides run in this process on one session that is up already: its start is not counted. Needs
Java, and the network once for Delta's jars.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.cases import copy_table
from benchmarks.tables import default_cache, ensure_table
from deltactl import LocalEngine, OptimizeOptions, SparkEngine, Table
from deltactl.engine.base import Done
from deltactl.engine.spark.session import SparkSettings, spark_session
from deltactl.engine.tasks import LazyTasks
from tests.support.delta_spark import find_jars
from tests.support.spark_servers import worker_environ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TARGET = 100_000_000
_NAME = "year=2024/month=01/part-{:05}-8f14e45f-ceea-467f-a8b2-{:012}-c000.snappy.parquet"

Side = Callable[[Path], object]


def main(arguments: list[str]) -> int:
    """Run the chosen cases on one session."""
    options = _parse(arguments)
    with tempfile.TemporaryDirectory(prefix="deltactl-spark-") as scratch:
        settings = SparkSettings("local[2]", conf=_conf(Path(scratch)))
        with spark_session(settings, worker_environ()) as session:
            SparkEngine(session).prepare()
            for name in options.names or _CASES:
                print(f"{name}: {_CASES[name].__doc__}", flush=True)
                _CASES[name](session, options)
    return 0


def engines(session: SparkSession, options: argparse.Namespace) -> None:
    """1 MB files to 100 MB, Spark engine / local engine; at most 1.25."""
    table = ensure_table("data", 4 * options.scale, options.cache)
    _compare(
        table,
        options.runs,
        spark=lambda path: _optimize(path, SparkEngine(session)),
        local=lambda path: _optimize(path, LocalEngine(2)),
    )


def delta(session: SparkSession, options: argparse.Namespace) -> None:
    """1,000 files of 1 MB to 100 MB, Spark engine / OPTIMIZE of Delta on Spark; at most 0.3."""
    table = ensure_table("data", options.scale, options.cache)
    session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(_TARGET))
    _compare(
        table,
        options.runs,
        spark=lambda path: _optimize(path, SparkEngine(session)),
        delta=lambda path: session.sql(f"OPTIMIZE delta.`{path}`").collect(),
    )


def zorder(session: SparkSession, options: argparse.Namespace) -> None:
    """The same by two columns, Spark engine / ZORDER BY of Delta on Spark; at most 0.6."""
    table = ensure_table("data", options.scale, options.cache)
    session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(_TARGET))
    columns = "user_id,store"
    _compare(
        table,
        options.runs,
        spark=lambda path: _optimize(path, SparkEngine(session), zorder_by=columns),
        delta=lambda path: session.sql(f"OPTIMIZE delta.`{path}` ZORDER BY ({columns})").collect(),
    )


def tasks(session: SparkSession, options: argparse.Namespace) -> None:
    """10,000 tasks of 100 names / 100 tasks of 10,000 names; at most 60 s more, memory flat."""
    names = round(1_000_000 * options.scale)
    engine = SparkEngine(session)
    for count in (100, 10_000):
        started = time.perf_counter()
        lazily = LazyTasks([0] * count, partial(_make_names, names // count))
        found = sum(o.result for o in engine.run(count_names, lazily) if isinstance(o, Done))
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  {count:>6} tasks: {seconds:6.1f} s, {found:,} names; peak {peak:.0f} MiB so far")


_CASES: dict[str, Callable[[SparkSession, argparse.Namespace], None]] = {
    "tasks": tasks,
    "delta": delta,
    "engines": engines,
    "zorder": zorder,
}


def count_names(names: list[str], attempt: int) -> int:
    """The work of a task that has next to none."""
    return len(names)


def _make_names(count: int, task: int) -> list[str]:
    return [_NAME.format(task, number) for number in range(count)]


def _optimize(
    path: Path, engine: LocalEngine | SparkEngine, zorder_by: str | None = None
) -> object:
    options = OptimizeOptions(target_bytes=_TARGET, codec="snappy", zorder_by=zorder_by)
    report = Table(str(path)).optimize(options, engine=engine)
    if report.failures or not report.versions:
        raise RuntimeError(f"{engine.name}: {report.failures}")
    return report


def _compare(table: Path, runs: int, **sides: Side) -> None:
    """Run both sides in turn, the first time uncounted, and print the ratio of medians."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(runs + 1):
        for name in list(sides) if turn % 2 else list(sides)[::-1]:
            with _copied(table) as path:
                started = time.perf_counter()
                sides[name](path)
                if turn:
                    seconds[name].append(time.perf_counter() - started)
    ours, theirs = (median(each) for each in seconds.values())
    told = ", ".join(f"{name} {median(each):.1f} s" for name, each in seconds.items())
    print(f"  {told}: ratio {ours / theirs:.2f}", flush=True)


@contextmanager
def _copied(table: Path) -> Iterator[Path]:
    copy = table.with_name(f"{table.name}.spark")
    copy_table(table, copy)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


def _conf(scratch: Path) -> dict[str, str]:
    return {
        "spark.jars": ",".join(map(str, find_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": "2g",
        # As Spark comes, for Delta's own OPTIMIZE; deltactl turns them down to start faster.
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={scratch}",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*_CASES, []], help="cases; all if none")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of a side [3]")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the tables [1]")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="[%(default)s]")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    # By its name, which workers can import; `__main__` is another module there.
    from benchmarks.spark import main as run

    sys.exit(run(sys.argv[1:]))
