"""The allocator from which Arrow takes memory in a run of `optimize`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltactl import OptimizeOptions, Table

_PROGRAM = """
import atexit, runpy
def show():
    import pyarrow
    print("pool", pyarrow.default_memory_pool().backend_name)
atexit.register(show)
runpy.run_module("deltactl", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("options", "variable", "pool"),
    [
        ([], None, "system"),
        (["--dry-run", "--zorder-by", "n"], None, "mimalloc"),
        (["--zorder-by", "n"], None, "mimalloc"),
        (["--zorder-by", "n"], "system", "system"),
    ],
)
def test_rows_that_move_use_the_allocator_of_arrow(
    tmp_path: Path, options: list[str], variable: str | None, pool: str
) -> None:
    if "mimalloc" not in pa.supported_memory_backends():
        pytest.skip("Arrow was built without mimalloc")
    for _ in range(2):
        write_deltalake(str(tmp_path), pa.table({"n": [1, 2, 3]}), mode="append")
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    if variable is not None:
        environment["ARROW_DEFAULT_MEMORY_POOL"] = variable
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "optimize", str(tmp_path), *options],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.splitlines()[-1] == f"pool {pool}"


_LIBRARY = """
import sys
import pyarrow as pa
from deltactl import OptimizeOptions, Table
pa.set_memory_pool(pa.system_memory_pool())
report = Table(sys.argv[1]).optimize(OptimizeOptions(zorder_by="n"))
print(report.rows_rewritten, pa.default_memory_pool().backend_name)
"""


def test_a_program_keeps_its_allocator(tmp_path: Path) -> None:
    for _ in range(2):
        write_deltalake(str(tmp_path), pa.table({"n": [1, 2, 3]}), mode="append")
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    program = [sys.executable, "-c", _LIBRARY, str(tmp_path)]
    printed = subprocess.check_output(program, env=environment, text=True)
    assert printed.split() == ["6", "system"]


def test_a_run_that_finds_a_layout_changes_the_allocator(tmp_path: Path) -> None:
    if "mimalloc" not in pa.supported_memory_backends():
        pytest.skip("Arrow was built without mimalloc")
    for number in range(4):
        write_deltalake(str(tmp_path), pa.table({"n": [1, 2, 3]}), mode="append")
        if number == 1:
            Table(str(tmp_path)).optimize(OptimizeOptions(cluster_by="n"))
    environment = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    program = [sys.executable, "-c", _PROGRAM, "optimize", str(tmp_path)]
    printed = subprocess.check_output(program, env=environment, text=True)
    assert printed.splitlines()[-1] == "pool mimalloc"
