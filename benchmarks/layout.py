"""`python -m benchmarks layout`: the share of files that a lookup of one value skips.

Four columns of random numbers in about 100 files, as in section 6.2 of the paper on Delta Lake; the
answer comes from the minima and maxima in the log after each run, for values of random rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cases import copy_table
from benchmarks.log_tables import write_commit
from benchmarks.measure import run_process
from benchmarks.shapes import PROTOCOL, commit_info, metadata_of
from benchmarks.sides import deltactl
from benchmarks.tables import default_cache
from deltactl import Table

_SEED = 62
_FILES = 100
_COLUMNS = ("a", "b", "c", "d")
_LOOKUPS = 1_000


@dataclass(frozen=True, slots=True)
class Goal:
    """What a layout must reach in the experiment."""

    least: float = 0.0
    mean: float = 0.0
    files: tuple[int, int] = (85, 125)


_BY = ",".join(_COLUMNS)
_LAYOUTS: dict[str, tuple[list[str], Goal]] = {
    "tile": (["--cluster-by", _BY], Goal(0.62, 0.66)),
    "zorder": (["--zorder-by", _BY], Goal(0.439, 0.549)),
    "liquid": ([], Goal(0.576, 0.610)),
    "hilbert": (["--cluster-by", _BY, "--layout", "hilbert"], Goal()),
    "linear": (["--cluster-by", _BY, "--layout", "linear"], Goal()),
}


def main(arguments: list[str]) -> int:
    """Lay the table out in each way and print the shares; 1 if a goal is missed."""
    options = _parse(arguments)
    missed = False
    print("| layout | least | mean | expected mean | files | seconds | CPU | MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.names or _LAYOUTS:
        folder = options.cache / f"layout-{options.rows}-{'liquid' if name == 'liquid' else 'own'}"
        _ensure_table(folder, options.rows, is_liquid=name == "liquid")
        missed |= not _run(folder, name, options.rows)
    return int(missed)


def _run(table: Path, name: str, rows: int) -> bool:
    """Lay out a copy, print its line, and return whether the goal is reached."""
    arguments, goal = _LAYOUTS[name]
    copy = table.with_name(f"{table.name}.run-{uuid.uuid4().hex}")
    copy_table(table, copy)
    try:
        size = sum(file.stat().st_size for file in copy.glob("*.parquet"))
        target = ["--target-size", f"{size // _FILES}B", "-q"]
        ran = run_process(deltactl("optimize", str(copy), *arguments, *target))
        shares, files = measure_skipping(copy, rows)
        layout = Table(str(copy)).optimize(cluster_by=_BY, full=True, dry_run=True).skipping
        assert layout is not None
        expected = np.mean([column.before or 0.0 for column in layout.columns])
    finally:
        shutil.rmtree(copy)
    least, mean = min(shares), float(np.mean(shares))
    print(
        f"| {name} | {least:.3f} | {mean:.3f} | {expected:.3f} | {files} | "
        f"{ran.wall_seconds:.1f} | {ran.cpu_seconds:.1f} | {ran.peak_bytes >> 20:,} |",
        flush=True,
    )
    is_in = goal.files[0] <= files <= goal.files[1]
    return least >= goal.least and mean >= goal.mean and is_in


def measure_skipping(table: Path, rows: int) -> tuple[list[float], int]:
    """Return the share of files that lookups of values of random rows skip, and the files."""
    stats = [json.loads(text) for text in Table(str(table)).snapshot().files["stats"].to_pylist()]
    random = np.random.default_rng(_SEED)
    picked = [make_rows(int(n), rows) for n in random.integers(0, _FILES, 10)]
    shares = []
    for column in _COLUMNS:
        low = np.array([each["minValues"][column] for each in stats])
        high = np.array([each["maxValues"][column] for each in stats])
        values = np.concatenate([random.choice(part[column], _LOOKUPS // 10) for part in picked])
        opened = [int(((low <= value) & (value <= high)).sum()) for value in values]
        shares.append(1 - float(np.mean(opened)) / len(stats))
    return shares, len(stats)


def make_rows(file: int, rows: int) -> dict[str, npt.NDArray[np.int64]]:
    """Return the columns of one of the hundred files."""
    random = np.random.default_rng((_SEED, file))
    return {column: random.integers(0, 1 << 40, rows // _FILES) for column in _COLUMNS}


def _ensure_table(folder: Path, rows: int, *, is_liquid: bool) -> None:
    """Write the table, rows in no order, unless it is there."""
    if folder.exists():
        return
    begun = time.perf_counter()
    unfinished = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
    log = unfinished / "_delta_log"
    log.mkdir(parents=True)
    lines = [commit_info(0, "WRITE"), *_head(is_liquid=is_liquid)]
    for file in range(_FILES):
        name = f"part-{file:05}-c000.snappy.parquet"
        columns = make_rows(file, rows)
        pq.write_table(pa.table(columns), unfinished / name, compression="snappy")
        stats = {
            "numRecords": rows // _FILES,
            "minValues": {column: int(values.min()) for column, values in columns.items()},
            "maxValues": {column: int(values.max()) for column, values in columns.items()},
            "nullCount": dict.fromkeys(columns, 0),
        }
        add = {
            "path": name,
            "partitionValues": {},
            "size": (unfinished / name).stat().st_size,
            "modificationTime": 1_704_067_200_000 + file,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        lines.append(json.dumps({"add": add}))
    write_commit(log, 0, lines)
    unfinished.rename(folder)
    print(f"{folder.name}: written in {time.perf_counter() - begun:.0f} s", file=sys.stderr)


def _head(*, is_liquid: bool) -> list[str]:
    metadata = json.dumps({"metaData": metadata_of(dict.fromkeys(_COLUMNS, "long"), [])})
    if not is_liquid:
        return [json.dumps({"protocol": PROTOCOL}), metadata]
    protocol = {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["clustering", "domainMetadata"],
    }
    columns = {"clusteringColumns": [[column] for column in _COLUMNS]}
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({**columns, "domainName": "delta.clustering"}),
        "removed": False,
    }
    parts = [{"protocol": protocol}, {"domainMetadata": domain}]
    return [json.dumps(parts[0]), metadata, json.dumps(parts[1])]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks layout", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*_LAYOUTS, []], help="layouts; all if none")
    parser.add_argument("--rows", type=int, default=20_000_000, help="[%(default)s]")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="[%(default)s]")
    return parser.parse_args(arguments)
