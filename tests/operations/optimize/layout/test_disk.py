"""Rows that do not fit the memory: how many are held, and what a kill or a full disk leaves."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
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

pytestmark = pytest.mark.thorough

ROWS, FILES = 300_000, 8

# A limit for each file, of which only the one for spilled rows is so large.
_LIMITED = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, 20 << 20))
runpy.run_module("deltactl", run_name="__main__")
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of 55 MiB that compression does not make smaller."""
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
    assert total(root) == total(template)


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
    assert total(root) == total(template)
    assert Table(str(root)).optimize(OptimizeOptions(cluster_by="a,b")).files_removed == FILES
    assert total(root) == total(template)


def test_a_full_disk_leaves_the_table_and_no_outputs(template: Path, tmp_path: Path) -> None:
    root, spill = Path(shutil.copytree(template, tmp_path / "t")), tmp_path / "spill"
    spill.mkdir()
    before = names(root)
    process = start(root, spill, "-c", _LIMITED)
    _, error = process.communicate()
    assert process.returncode == 8
    assert f"cannot write the spill file in '{spill}'" in error
    assert names(root) == before
    assert not list(spill.iterdir())
