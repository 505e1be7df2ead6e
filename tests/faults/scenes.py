"""The commands that are killed: a small table for each, its arguments, and what must be in the end.

A scene makes a template once; each round works on a copy. The log of a table is written by the
builder of the tests, two years old, so that a vacuum and a cleanup find something to take away.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from deltactl.table import Table
from tests.faults.delta_rs import PARTITIONS, rows_of
from tests.support.symlink_reader import read_manifests
from tests.support.table_builder import START_MS, Column, TableBuilder

FILES = 24
ROWS = 20
_COLUMNS = (Column("id"), Column("v", "string"), Column("p", "integer"))


@dataclass(frozen=True)
class Scene:
    """A command: ``variants`` of arguments take turns; ``ensure_done`` looks at the end of it.

    Where it ``has_tasks``, they can run on Spark.
    """

    name: str
    command: str
    build: Callable[[Path], None]
    variants: Sequence[Sequence[str]]
    ensure_done: Callable[[Path, Sequence[int]], None]
    has_tasks: bool = True

    def arguments(self, root: Path, variant: int) -> list[str]:
        """The words after ``deltactl``."""
        return [self.command, str(root), *self.variants[variant % len(self.variants)]]


def ids_at_start() -> list[int]:
    """Ids in the table of every scene."""
    return list(range(FILES * ROWS))


def _files() -> list[list[dict[str, Any]]]:
    """Rows of each file; those of one lie in one partition."""
    step = PARTITIONS * ROWS
    starts = [first + rest for first in range(0, FILES * ROWS, step) for rest in range(PARTITIONS)]
    return [rows_of(list(range(at, at + step, PARTITIONS))).to_pylist() for at in starts]


def build_table(root: Path) -> None:
    """One commit a file; and files long removed, some by the log and some unknown to it."""
    builder = TableBuilder(
        root,
        _COLUMNS,
        partition_by=["p"],
        properties={"delta.logRetentionDuration": "interval 1 days"},
    )
    for rows in _files():
        builder.append(rows)
    gone = builder.append(*_files()[:12])
    builder.remove(*gone)
    for number in range(24):
        builder.write_file(_files()[number % 3], name=f"orphan{number}.parquet")
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (START_MS / 1000, START_MS / 1000))


def build_directory(root: Path) -> None:
    """Parquet files in folders of partitions, and no log."""
    for number, rows in enumerate(_files()):
        table = rows_of([row["id"] for row in rows]).drop_columns(["p"])
        folder = root / f"p={rows[0]['p']}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / f"part-{number}.parquet")


def _optimized(root: Path, ids: Sequence[int]) -> None:
    """Of what was there at the start nothing is left small, once nobody is in the way."""
    Table(str(root)).optimize()
    left = {path.name for path in root.rglob("f0*.parquet")}
    live = Table(str(root)).snapshot().files["path"].to_pylist()
    assert not left & {path.rpartition("/")[2] for path in live}, "small files are left"


def _vacuumed(root: Path, ids: Sequence[int]) -> None:
    assert not list(root.glob("p=*/orphan*")), "orphans are left"
    assert len(list(root.glob("p=*/f0*"))) == FILES, "files of the table, and no others"


def _checkpointed(root: Path, ids: Sequence[int]) -> None:
    assert list((root / "_delta_log").glob("*.checkpoint*.parquet"))
    assert (root / "_delta_log" / "_last_checkpoint").is_file()


def _is_converted(root: Path, ids: Sequence[int]) -> None:
    assert len(list(root.glob("p=*/part-*"))) >= FILES


def _has_manifests(root: Path, ids: Sequence[int]) -> None:
    """Manifests name just the table's rows, once nobody writes to it any more."""
    Table(str(root)).generate_manifest()
    assert sorted(row["id"] for row in read_manifests(root)) == sorted(ids)


SCENES = (
    Scene(
        "optimize",
        "optimize",
        build_table,
        [["--commit-every", "1KiB", "--max-concurrent", "2"], ["--verify", "full"]],
        _optimized,
    ),
    Scene(
        "vacuum",
        "vacuum",
        build_table,
        [["--yes", "--force-retention", "--mode", "full", "--max-orphan-fraction", "1",
          "--include-unknown", *more]
         for more in ([], ["--quarantine"])],
        _vacuumed,
    ),
    Scene(
        "checkpoint",
        "checkpoint",
        build_table,
        [["--cleanup"], ["--compact-log"]],
        _checkpointed,
    ),
    Scene("maintain", "maintain", build_table, [[]], _optimized),
    Scene("convert", "convert", build_directory, [["--partition-by", "p int"]], _is_converted),
    Scene(
        "generate-manifest",
        "generate-manifest",
        build_table,
        [[]],
        _has_manifests,
        has_tasks=False,
    ),
)  # fmt: skip
