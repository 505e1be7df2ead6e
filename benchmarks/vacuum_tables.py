"""Tables for VACUUM: old live files, and files that the log does not reference."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.adds import vector_files
from benchmarks.log_tables import (
    list_paths,
    write_checkpoint_table,
    write_json_table,
)
from benchmarks.shapes import Shape

_OLD_SECONDS = 60 * 86_400
# The retention ends a day after the newest commit at the latest, whatever the clock says.
_LOG_OLD_SECONDS = 10 * 86_400


def write_vacuum_table(table: Path, num_files: int, num_days: int, shape: Shape) -> None:
    """A checkpoint that names empty files in so many partitions, and a tenth more orphans."""
    write_checkpoint_table(table, num_files, num_days, shape)
    _write_files(table, shape, orphan_every=10)


def write_json_vacuum_table(table: Path, num_commits: int, num_days: int, shape: Shape) -> None:
    """The same with a log of JSON commits only, 1,000 adds each, and a twentieth more orphans."""
    write_json_table(table, num_commits, 1_000, num_days, shape)
    _write_files(table, shape, orphan_every=20)


def _write_files(table: Path, shape: Shape, orphan_every: int) -> None:
    when = time.time() - _OLD_SECONDS
    folders = {""}
    for name in vector_files(shape):
        _touch(f"{table}/{name}", when)
    for number, path in enumerate(list_paths(table)):
        folder = path.rpartition("/")[0]
        if folder not in folders:
            folders.add(folder)
            (table / folder).mkdir()
        _touch(f"{table}/{path}", when)
        if number % orphan_every == 0:
            _touch(f"{table}/{folder}/part-orphan-{number}.c000.snappy.parquet", when)
    _age_log(table)


def _touch(path: str, when: float) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.utime(path, (when, when))


def _age_log(table: Path) -> None:
    when = time.time() - _LOG_OLD_SECONDS
    for path in (table / "_delta_log").iterdir():
        os.utime(path, (when, when))
