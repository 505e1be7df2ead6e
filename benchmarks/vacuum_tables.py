"""Tables for VACUUM: old live files, and files that the log does not reference."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.log_tables import (
    checkpoint_paths,
    commit_info,
    make_files,
    remove_line,
    write_checkpoint_table,
    write_commit,
    write_json_table,
)

_OLD_SECONDS = 60 * 86_400
# The retention ends a day after the newest commit at the latest, whatever the clock says.
_LOG_OLD_SECONDS = 10 * 86_400


def write_vacuum_table(table: Path, num_files: int, num_days: int) -> None:
    """A checkpoint that names empty files in so many partitions, and a tenth more orphans."""
    write_checkpoint_table(table, num_files, num_days)
    _write_files(table, checkpoint_paths(num_files, num_days), orphan_every=10)


def write_json_vacuum_table(table: Path, num_commits: int, num_days: int) -> None:
    """The same with a log of JSON commits only, 1,000 adds each, and a twentieth more orphans."""
    write_json_table(table, num_commits, 1_000, num_days)
    paths = (
        path
        for first in range(0, num_commits * 1_000, 1_000)
        for path in make_files(
            first, 1_000, num_commits * 1_000, num_days=num_days
        ).path.to_pylist()
    )
    _write_files(table, paths, orphan_every=20)


def _write_files(table: Path, paths: Iterable[str], orphan_every: int) -> None:
    when = time.time() - _OLD_SECONDS
    folders: set[str] = set()
    for number, path in enumerate(paths):
        folder = path.rpartition("/")[0]
        if folder not in folders:
            folders.add(folder)
            (table / folder).mkdir()
        _touch(f"{table}/{path}", when)
        if number % orphan_every == 0:
            _touch(f"{table}/{folder}/part-orphan-{number}.c000.snappy.parquet", when)
    _age_log(table)


def write_lite_table(table: Path, num_files: int) -> None:
    """A checkpoint, a commit after it that removed a thousand files, a bookmark between them."""
    write_checkpoint_table(table, num_files)
    adds = [
        json.dumps({"add": {"path": path, "partitionValues": {}, "size": 1}})
        for path in list(checkpoint_paths(min(num_files, 1000), 365))
    ]
    removes = [remove_line(add, 11) for add in adds]
    write_commit(table / "_delta_log", 11, [commit_info(11, "DELETE"), *removes])
    bookmark = {"latestCommitVersionOutsideOfRetentionWindow": 10}
    (table / "_delta_log" / "_last_vacuum_info").write_text(json.dumps(bookmark) + "\n")
    _age_log(table)


def _touch(path: str, when: float) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    os.utime(path, (when, when))


def _age_log(table: Path) -> None:
    when = time.time() - _LOG_OLD_SECONDS
    for path in (table / "_delta_log").iterdir():
        os.utime(path, (when, when))
