"""The real process, killed or asked to stop while it optimizes a table on a disk."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deltactl.table import Table
from tests.support.table_builder import Column, TableBuilder, multiset

pytestmark = pytest.mark.thorough

BINS = 24
FILES = 3 * BINS
ROWS = 60
ARGUMENTS = ("--codec", "zstd:19", "--max-concurrent", "2", "-o", "json")
EACH_BIN = ("--commit-every", "1KiB")


def build(root: Path) -> TableBuilder:
    builder = TableBuilder(
        root,
        [Column("id"), Column("v", "string"), Column("p", "integer")],
        partition_by=["p"],
        features=["deletionVectors"],
    )
    files = [
        [
            {"id": row, "v": f"{random.Random(row * file).random()}", "p": file % BINS}
            for row in range(ROWS)
        ]
        for file in range(FILES)
    ]
    paths = builder.append(*files)
    builder.delete_rows(paths[0], range(0, ROWS, 3))
    return builder


@dataclass(frozen=True)
class Template:
    """The table as it is before each run, and its rows."""

    root: Path
    rows: Counter[Any]

    def copy(self, to: Path) -> Path:
        return Path(shutil.copytree(self.root, to))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    root = tmp_path_factory.mktemp("kill") / "t"
    return Template(root, multiset(build(root).rows()))


def start(root: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "deltactl", "optimize", str(root), *ARGUMENTS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def data_files(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*.parquet")}


def wait_for(process: subprocess.Popen[str], root: Path, more: int) -> None:
    """Until so many files are there more than at the start, outputs and commits alike."""

    def count() -> int:
        return sum(len(names) for _, _, names in os.walk(root))

    before = count()
    while process.poll() is None and count() < before + more:
        time.sleep(0.0005)


def read(root: Path) -> Counter[Any]:
    return multiset(Table(str(root)).scan().read_all().to_pylist())


@pytest.mark.parametrize(("arguments", "more"), [(EACH_BIN, 20), ((), 24)])
def test_killed_at_a_commit(
    template: Template, tmp_path: Path, arguments: tuple[str, ...], more: int
) -> None:
    root = template.copy(tmp_path / "t")
    process = start(root, *arguments)
    wait_for(process, root, more)
    process.kill()
    process.communicate()
    assert read(root) == template.rows
    left = [p for p in (root / "_delta_log").iterdir() if p.suffix == ".json"]
    assert all(p.read_bytes().endswith(b"}\n") for p in left)
    table = Table(str(root))
    assert not table.optimize().failures
    assert read(root) == template.rows
    assert table.snapshot().num_files == BINS
    assert table.optimize(dry_run=True).plan.is_empty


def test_a_signal_commits_what_is_finished(template: Template, tmp_path: Path) -> None:
    root = template.copy(tmp_path / "t")
    before = data_files(root)
    process = start(root)
    wait_for(process, root, 6)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, out + err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert read(root) == template.rows
    snapshot = Table(str(root)).snapshot()
    assert snapshot.version == 3, "the bins that were finished are committed at once"
    assert BINS < snapshot.num_files < FILES
    assert data_files(root) == before | set(snapshot.files["path"].to_pylist())


def test_two_signals_abort_at_once(template: Template, tmp_path: Path) -> None:
    root = template.copy(tmp_path / "t")
    process = start(root)
    wait_for(process, root, 3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert read(root) == template.rows
