"""Rows that do not fit the memory: how many are held, and what a kill or a full disk leaves."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.engine.local import LocalEngine
from deltactl.engine.spill import Spool
from deltactl.operations.optimize.layout import tasks
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.table import Table
from deltactl.units import MIB
from tests.support.folders import mounted_disk

pytestmark = pytest.mark.thorough

ROWS, FILES = 150_000, 8

# A limit for each file, of which only the one for spilled rows is so large.
_LIMITED = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (10 << 20, 10 << 20))
runpy.run_module("deltactl", run_name="__main__")
"""

# A signal arrives while the first output is written.
_STOPPED = """
import os, runpy, signal
from deltactl.parquet.writer import DataFileWriter
write = DataFileWriter.write
def stop(writer, batch):
    os.kill(os.getpid(), signal.SIGINT)
    DataFileWriter.write = write
    write(writer, batch)
DataFileWriter.write = stop
runpy.run_module("deltactl", run_name="__main__")
"""

# Another program takes the space after the first bytes were spilled.
_FILLED = """
import os, runpy
from deltactl.engine.spill import Spool
spill = Spool._spill
def fill(spool, rows):
    spill(spool, rows)
    if not os.path.exists({disk!r} + "/filler"):
        space = os.statvfs({disk!r})
        with open({disk!r} + "/filler", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, (space.f_bavail - 16) * space.f_frsize)
Spool._spill = fill
runpy.run_module("deltactl", run_name="__main__")
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of 27 MiB that compression does not make smaller."""
    root = tmp_path_factory.mktemp("disk") / "t"
    generator = np.random.default_rng(1)
    for _ in range(FILES):
        columns = {name: generator.integers(0, 1 << 62, ROWS) for name in "abc"}
        write_deltalake(str(root), pa.table(columns), mode="append")
    return root


def total(root: Path) -> list[int]:
    table = DeltaTable(str(root)).to_pyarrow_table()
    products = np.asarray(table["a"]) * np.asarray(table["b"]) + np.asarray(table["c"])
    return [table.num_rows, int(products.sum())]


total_of = cache(total)


def start(root: Path, spill: Path, *limit: str) -> Any:
    options = ("--cluster-by", "a,b", "--memory", "64MiB", "--target-size", "8MiB")
    return subprocess.Popen(
        [sys.executable, *(limit or ("-m", "deltactl")), "optimize", str(root), *options]
        + ["--spill-dir", str(spill)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file()}


def fail(template: Path, at: Path, spill: Path, *limit: str, code: int = 8) -> str:
    """Run on a copy, which stays as it was; nothing stays of spilled rows. Return the error."""
    root = Path(shutil.copytree(template, at / "t"))
    spill.mkdir(exist_ok=True)
    before = names(root)
    process = start(root, spill, *limit)
    _, error = process.communicate()
    assert process.returncode == code
    assert names(root) == before
    assert names(spill) <= {"filler"}
    assert total(root) == total_of(template)
    return str(error)


def test_rows_beyond_the_memory_are_on_disk(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(template, tmp_path / "t"))
    spools: list[RecordingSpool] = []

    class RecordingSpool(Spool):
        most_held = 0

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            spools.append(self)

        def add(self, batch: Any, destinations: Any, within: Any = None) -> None:
            super().add(batch, destinations, within)
            self.most_held = max(self.most_held, self._held_bytes)

    monkeypatch.setattr(tasks, "Spool", RecordingSpool)
    options = OptimizeOptions(cluster_by="a,b", memory_bytes=64 * MIB, target_bytes=8 * MIB)
    report = Table(str(root)).optimize(options, engine=LocalEngine(workers=2))
    (spool,) = spools
    assert spool.most_held <= 16 * MIB
    assert spool.spilled_bytes > 24 * ROWS * FILES - 16 * MIB
    assert report.rows_rewritten == ROWS * FILES
    assert total(root) == total_of(template)


def test_a_run_that_is_stopped_while_it_writes(template: Path, tmp_path: Path) -> None:
    error = fail(template, tmp_path, tmp_path / "spill", "-c", _STOPPED, code=130)
    assert f"interrupted; nothing was committed; 1 bin left ({FILES} files, " in error
    assert "or divide clusters with --max-bytes." in error


def test_a_kill_leaves_the_table_and_no_spilled_rows(template: Path, tmp_path: Path) -> None:
    root, spill = Path(shutil.copytree(template, tmp_path / "t")), tmp_path / "spill"
    spill.mkdir()
    before = names(root / "_delta_log")
    process = start(root, spill)
    while process.poll() is None and len(list(root.glob("part-*c0*"))) < FILES + 1:
        time.sleep(0.001)  # until the first output is there: all rows were spilled
    process.kill()
    process.communicate()
    assert process.returncode < 0
    assert names(root / "_delta_log") == before
    assert not list(spill.iterdir())
    assert total(root) == total_of(template)
    assert Table(str(root)).optimize(OptimizeOptions(cluster_by="a,b")).files_removed == FILES
    assert total(root) == total_of(template)


def test_a_full_disk_leaves_the_table_and_no_outputs(template: Path, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    error = fail(template, tmp_path, spill, "-c", _LIMITED)
    assert f"cannot write the spill file in '{spill}'" in error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 45 MiB: room for the table, and not for a second copy of it."""
    with mounted_disk(tmp_path, "45m") as disk:
        yield disk


def test_a_table_on_a_disk_that_becomes_full(
    template: Path, tmp_path: Path, small_disk: Path
) -> None:
    error = fail(template, small_disk, tmp_path / "spill")
    assert "No space left on device" in error
    assert "hint: Free space on the disk, which is full; then rerun." in error


def test_a_disk_that_is_too_small_for_spilled_rows_is_refused_first(
    template: Path, tmp_path: Path, small_disk: Path
) -> None:
    error = fail(template, tmp_path, small_disk)
    assert f"of rows to '{small_disk}', which has only" in error
    assert "--spill-dir" in error


def test_a_disk_for_spilled_rows_that_others_fill_meanwhile(
    template: Path, tmp_path: Path, small_disk: Path
) -> None:
    """There is room when the run begins, and none when it spills."""
    subprocess.run(["mount", "-o", "remount,size=100m", str(small_disk)], check=True)
    error = fail(template, tmp_path, small_disk, "-c", _FILLED.format(disk=str(small_disk)))
    assert f"of rows to '{small_disk}', which has only" in error
    assert names(small_disk) == {"filler"}
