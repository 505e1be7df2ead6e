"""How commands load Arrow, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.history_logs import write_log

PROGRAM = """
import os, sys
from deltactl.cli.app import run
code = run(sys.argv[1:])
import pyarrow as pa
name = pa.default_memory_pool().backend_name
print(code, name, os.environ.get("ARROW_DEFAULT_MEMORY_POOL"), file=sys.stderr)
"""


def run(*arguments: str, **environ: str) -> list[str]:
    kept = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=kept | environ,
    )
    return done.stderr.splitlines()[-1].split()


def test_commands_of_the_table_use_the_pool_of_the_c_library(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    assert run("vacuum", str(tmp_path), "--dry-run") == ["0", "system", "None"]
    assert run("optimize", str(tmp_path), "--dry-run") == ["0", "system", "None"]
    assert run("generate-manifest", str(tmp_path)) == ["0", "system", "None"]


def test_others_use_that_of_arrow(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    code, pool, variable = run("checkpoint", str(tmp_path))
    assert (code, variable) == ("0", "None")
    assert pool != "system"


@pytest.mark.parametrize("command", ["vacuum", "checkpoint"])
def test_the_environment_decides(tmp_path: Path, command: str) -> None:
    write_log(tmp_path, 3)
    done = run(command, str(tmp_path), "--dry-run", ARROW_DEFAULT_MEMORY_POOL="system")
    assert done == ["0", "system", "system"]
