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
from pathlib import Path

_FORMAT = 2  # to be raised when a builder writes something else than before


def default_cache() -> Path:
    """Where tables are kept between runs."""
    return Path(tempfile.gettempdir()) / "deltactl-benchmarks"


def ensure_table(name: str, scale: float, cache: Path) -> Path:
    """The folder of a table, built now if it is not there."""
    folder = cache / f"{name}-{scale:g}-v{_FORMAT}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
        try:
            command = [sys.executable, "-m", "benchmarks.tables", name, f"{scale}", str(unfinished)]
            subprocess.run(command, check=True)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def build_table(name: str, scale: float, folder: Path) -> None:
    """Build a table; ``scale`` 1 is the size that the goals speak of."""
    from benchmarks import data_tables, log_tables

    def scaled(count: int) -> int:
        return max(1, round(count * scale))

    match name:
        case "checkpoint":
            log_tables.write_checkpoint_table(folder, scaled(1_000_000))
        case "json":
            log_tables.write_json_table(folder, scaled(1_000), 1_000)
        case "history":
            log_tables.write_history_table(folder, scaled(20_000))
        case "history-checkpoint":
            from deltalake import DeltaTable

            log_tables.write_history_table(folder, scaled(20_000))
            DeltaTable(folder).create_checkpoint()
        case "data":
            data_tables.write_data_table(folder, scaled(1_000), 8_000)
        case "partitions-1000":
            log_tables.write_checkpoint_table(folder, scaled(190_000), scaled(1_000))
        case "partitions-10000":
            log_tables.write_checkpoint_table(folder, scaled(1_000_000), scaled(10_000))
        case "directory":
            data_tables.write_parquet_directory(folder, scaled(2_000), 100)
        case "none":
            folder.mkdir()
        case _:
            raise ValueError(f"no table is named {name!r}")


if __name__ == "__main__":
    build_table(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
