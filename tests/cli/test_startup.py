"""How commands load Arrow, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.history_logs import write_log

PROGRAM = """
import sys
from deltactl.cli.app import run
code = run(sys.argv[1:])
print(code, "pyarrow" in sys.modules, "pandas" in sys.modules, file=sys.stderr)
"""


def run(*arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()[-1].split()


def test_arrow_is_loaded_without_pandas(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    assert run("vacuum", str(tmp_path), "--dry-run") == ["0", "True", "False"]


def test_a_list_of_commits_as_json_needs_no_arrow(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    arguments = ["describe-history", str(tmp_path), "--limit", "2", "-o", "json"]
    assert run(*arguments) == ["0", "False", "False"]
