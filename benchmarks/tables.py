"""The tables of the benchmarks, built once and kept outside the tree.

Run as a program, it builds one: `python -m benchmarks.tables NAME SCALE FOLDER`. The runner does
that in a process of its own, so that it stays small itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.shapes import Shape

# To be raised when a builder writes something else than before.
_FORMAT = 4

_SMALL_ROWS = 8_000  # 0.9 MB of the twenty columns
_LARGE_ROWS = 270_000  # 30 MB


def default_cache() -> Path:
    """Where tables are kept between runs."""
    return Path(tempfile.gettempdir()) / "deltactl-benchmarks"


def ensure_table(name: str, scale: float, cache: Path, shape: Shape = Shape.PLAIN) -> Path:
    """The folder of a table, built now if it is not there."""
    folder = cache / f"{name}-{shape}-{scale:g}-v{_FORMAT}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
        try:
            arguments = [name, shape, f"{scale}", str(unfinished)]
            subprocess.run([sys.executable, "-m", "benchmarks.tables", *arguments], check=True)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def build_table(name: str, shape: Shape, scale: float, folder: Path) -> None:
    """Build a table; ``scale`` 1 is the size that the goals speak of."""
    from benchmarks import data_tables, log_tables, vacuum_tables

    def scaled(count: int) -> int:
        return max(1, round(count * scale))

    def write_history_with_checkpoint() -> None:
        from deltalake import DeltaTable

        log_tables.write_history_table(folder, scaled(20_000), shape)
        DeltaTable(folder).create_checkpoint()

    # Manifests cannot say which rows are deleted.
    logs, data, vacuums = log_tables, data_tables, vacuum_tables
    builders: dict[str, Callable[[], None]] = {
        "checkpoint": lambda: logs.write_checkpoint_table(folder, scaled(1_000_000), shape=shape),
        "read": lambda: logs.write_read_table(folder, scaled(1_000_000), shape),
        "grown": lambda: logs.write_grown_table(folder, scaled(1_000_000), shape),
        "grown-4": lambda: logs.write_grown_table(folder, scaled(4_000_000), shape),
        "restore": lambda: logs.write_restore_table(folder, scaled(1_000_000), shape),
        "json": lambda: logs.write_json_table(folder, scaled(1_000), 1_000, shape=shape),
        "history": lambda: logs.write_history_table(folder, scaled(20_000), shape),
        "history-checkpoint": write_history_with_checkpoint,
        "data": lambda: data.write_data_table(folder, [_SMALL_ROWS] * scaled(1_000), shape),
        "clone": lambda: data.write_data_table(folder, [_SMALL_ROWS] * scaled(2_000), shape),
        "large": lambda: data.write_data_table(folder, [_LARGE_ROWS] * scaled(40), shape),
        "vacuum": lambda: vacuums.write_vacuum_table(folder, scaled(200_000), scaled(1_000), shape),
        "vacuum-json": lambda: vacuums.write_json_vacuum_table(
            folder, scaled(190), scaled(1_000), shape
        ),
        "partitions-1000": lambda: logs.write_checkpoint_table(
            folder, scaled(190_000), scaled(1_000), shape, vectors=False
        ),
        "partitions-10000": lambda: logs.write_checkpoint_table(
            folder, scaled(1_000_000), scaled(10_000), shape, vectors=False
        ),
        "manifest": lambda: logs.write_checkpoint_table(
            folder, scaled(1_000_000), 10_000, shape, vectors=False
        ),
        "directory": lambda: data.write_parquet_directory(folder, scaled(2_000), 100, shape),
        "small": lambda: logs.write_json_table(folder, 1, 1, shape=shape),
    }
    builders[name]()


if __name__ == "__main__":
    build_table(sys.argv[1], Shape(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
