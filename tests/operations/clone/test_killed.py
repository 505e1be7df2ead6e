"""A deep clone of many files whose process is killed again and again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.table import Table
from tests.support.table_builder import (
    START_MS,
    Action,
    Column,
    commit_path,
    encode_lines,
    struct_of,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_FILES = 10_000
_FOLDERS = 20
_KILLS = 20
_PATIENCE_S = 120


def build_source(root: Path) -> None:
    for folder in range(_FOLDERS):
        (root / f"p={folder}").mkdir(parents=True)
    schema = struct_of(Column("p"), Column("id"))
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": ["p"],
        "configuration": {},
        "createdTime": START_MS,
    }
    actions: list[Action] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
    ]
    for number in range(_FILES):
        folder = number % _FOLDERS
        name = f"p={folder}/part-{number:05}.parquet"
        if number < _FOLDERS:
            pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), root / name)
        else:
            content = (root / f"p={folder}" / f"part-{folder:05}.parquet").read_bytes()
            (root / name).write_bytes(content)
        add = {
            "path": name,
            "partitionValues": {"p": str(folder)},
            "size": (root / name).stat().st_size,
            "modificationTime": START_MS,
            "dataChange": True,
        }
        actions.append({"add": add})
    (root / "_delta_log").mkdir()
    (root / commit_path(0)).write_bytes(encode_lines(actions))


def whole_files(root: Path) -> dict[str, int]:
    """The data files that have their names, with their inodes."""
    found = {}
    for folder in root.glob("p=*"):
        for entry in os.scandir(folder):
            if entry.name.startswith("part-"):
                found[f"{folder.name}/{entry.name}"] = entry.inode()
    return found


def start(source: Path, target: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "deltactl", "clone", str(source), str(target), "--deep", "-q"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill_somewhere(run: subprocess.Popen[bytes], target: Path, chance: random.Random) -> bool:
    """Kill a run while it copies; return whether it ended by itself before."""
    before = len(whole_files(target))
    after_a_batch = chance.random() < 0.3
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and run.poll() is None:
        copying = after_a_batch or any(target.glob("p=*/.*"))
        if copying and (not after_a_batch or len(whole_files(target)) > before):
            break
        time.sleep(0.01)
    time.sleep(chance.random() * 0.05)
    if run.poll() is not None:
        return True
    run.send_signal(signal.SIGKILL)
    run.communicate()
    return False


def test_killed_and_resumed(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    build_source(source)
    chance = random.Random(0)
    kills = 0
    known: dict[str, int] = {}
    for _ in range(_KILLS):
        run = start(source, target)
        if kill_somewhere(run, target, chance):
            assert run.returncode == 0, run.communicate()
            break
        kills += 1
        assert not (target / commit_path(0)).exists()
        now = whole_files(target)
        # Whatever was whole at an earlier kill was not copied a second time.
        assert known.items() <= now.items()
        known = now
    run = start(source, target)
    _, said = run.communicate()
    assert run.returncode == 0, said
    assert kills == _KILLS
    assert known.items() <= whole_files(target).items()
    assert len(whole_files(target)) == _FILES
    for name in whole_files(target):
        assert (target / name).read_bytes() == (source / name).read_bytes()
    rows = [Table(root).scan().read_all().sort_by([("p", "ascending"), ("id", "ascending")])
            for root in (source, target)]  # fmt: skip
    assert rows[0].equals(rows[1])
    left = [path for path in target.rglob(".*") if path.is_file() and "_delta_log" not in str(path)]
    assert len(left) <= kills * 2 * 512  # of killed runs; a vacuum removes them
