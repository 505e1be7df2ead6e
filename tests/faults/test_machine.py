"""A machine that has run out of something, tells wrong times, or loses the table's folder.

Each run ends well or with an error of ours that says what, where and why; the table is as before or
as after; and nothing of ours is left that no version names.
"""

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.cli.app import run
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.cli.conftest import Ran
from tests.faults.scenes import SCENES, Scene, build_directory, build_table, ids_at_start
from tests.support.folders import files_in, mounted_disk
from tests.support.table_builder import Column, TableBuilder

_PAGE = 4096
_DISK_BYTES = 200 * _PAGE
_YEAR_NS = 365 * 24 * 3600 * 10**9
_COMMANDS = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)

Cli = Callable[..., Ran]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The table of each scene as it is at the start."""
    folder = tmp_path_factory.mktemp("faults")
    build_table(folder / "table")
    build_directory(folder / "directory")
    return {
        scene.name: folder / ("directory" if scene.build is build_directory else "table")
        for scene in SCENES
    }


@pytest.fixture
def deltactl(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: str | Path) -> Ran:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "this is a bug" not in captured.err, captured.err
        assert "Traceback" not in captured.err
        return Ran(code, captured.out, captured.err)

    return call


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a table and little else."""
    with mounted_disk(tmp_path, str(_DISK_BYTES)) as disk:
        yield disk


def is_table(root: Path) -> bool:
    return any(root.glob("_delta_log/0*.json"))


def ensure_sound(root: Path) -> None:
    """All rows are there once, and nothing is wrong with the table; if it is one by now."""
    if is_table(root):
        table = Table(str(root))
        assert sorted(table.scan(columns=["id"]).read_all()["id"].to_pylist()) == ids_at_start()
        report = table.check(CheckOptions(depth=Depth.FOOTERS, checkpoints=True))
        assert report.is_sound, report.findings.to_pylist()


def named_by_the_log(root: Path) -> set[str]:
    """Files of all versions that are in the log."""
    texts = [path.read_text() for path in root.glob("_delta_log/0*.json")]
    nodes = [json.loads(line) for text in texts for line in text.splitlines()]
    return {node["add"]["path"] for node in nodes if "add" in node}


def ensure_cleaned(root: Path, before: set[str]) -> None:
    """What is new is part of a version, a checkpoint, or kept on purpose under its own name."""
    new = files_in(root) - before - named_by_the_log(root)
    kept = ("_delta_log/0", "_delta_log/_last_", "_deltactl/", "_symlink_format_manifest/")
    assert all(name.startswith(kept) for name in new), new
    assert not [name for name in new if name.endswith(".tmp")], new


# -- no room ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "free_pages",
    [0, *(pytest.param(pages, marks=pytest.mark.slow) for pages in (1, 2, 3, 5, 7, 11))],
)
@_COMMANDS
def test_a_full_disk_leaves_a_sound_table(
    templates: dict[str, Path], small_disk: Path, deltactl: Cli, scene: Scene, free_pages: int
) -> None:
    root = shutil.copytree(templates[scene.name], small_disk / "t")
    filler, before = small_disk / "filler", files_in(root)
    _leave_free(filler, free_pages)
    ran = deltactl(*scene.arguments(root, 0))
    # With a little room a part of the bins may fit, or all there is to write.
    assert ran.code in ((0, 5, 8) if free_pages or scene.name == "vacuum" else (8,)), ran
    if ran.code == 8:
        assert "No space left on device" in ran.err
        assert f"{root}" in ran.err
        # A vacuum knows how much its journal needs, unless the commit before it found no room.
        amount = r"(?:\d.*|space)" if scene.name == "vacuum" else "space"
        assert re.search(f"hint: Free {amount} on the disk, .*; then rerun\\.", ran.err)
    ensure_sound(root)
    ensure_cleaned(root, before)
    filler.unlink()
    ran = deltactl(*scene.arguments(root, 0))
    assert ran.code == 0, ran.err
    ensure_sound(root)


def _leave_free(filler: Path, pages: int) -> None:
    space = os.statvfs(filler.parent)
    with filler.open("wb") as file, suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, (space.f_bavail - pages) * space.f_frsize)


@_COMMANDS
def test_a_file_system_that_is_mounted_read_only(
    templates: dict[str, Path], small_disk: Path, deltactl: Cli, scene: Scene
) -> None:
    root = shutil.copytree(templates[scene.name], small_disk / "t")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    ran = deltactl(*scene.arguments(root, 0))
    assert ran.code == 8, ran
    assert "Read-only file system" in ran.err
    assert "hint: Remount the file system: it is mounted read-only." in ran.err
    ensure_sound(root)
    if is_table(root):
        assert deltactl("check", str(root)).code == 0
        assert deltactl("describe-history", str(root)).code == 0


# -- limits of a process ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "t"
    builder = TableBuilder(root, [Column("id"), Column("v", "string")])
    builder.append(*[[{"id": i, "v": "v"}] for i in range(150)])
    return root


def test_64_open_files_in_512_mebibytes_are_enough_for_150_files(
    many: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(many, tmp_path / "t")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))

    ran = subprocess.run(
        [sys.executable, "-m", "deltactl", "optimize", str(root), "--max-concurrent", "8"],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(Table(str(root)).scan().read_all()) == 150


@pytest.mark.parametrize(
    "error",
    [MemoryError(), pa.ArrowMemoryError("malloc failed"), RuntimeError("can't start new thread")],
    ids=["Python", "Arrow", "threads"],
)
def test_no_memory_is_reported_as_such(
    many: Path, tmp_path: Path, deltactl: Cli, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(many, tmp_path / "t")
    is_thread = isinstance(error, RuntimeError)
    refusing, name = (ThreadPoolExecutor, "submit") if is_thread else (pq.ParquetFile, "__init__")
    refuse = Mock(side_effect=error)
    monkeypatch.setattr(refusing, name, refuse)
    ran = deltactl("optimize", str(root), "-o", "json")
    monkeypatch.undo()
    assert ran.code == 1, ran
    assert json.loads(ran.out)["error"]["code"] == "MEMORY"
    assert "out of memory" in ran.err
    assert "hint: Raise the memory limit" in ran.err
    assert named_by_the_log(root) == named_by_the_log(many)


# -- wrong times --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(scene, id=scene.name, marks=[pytest.mark.slow] * (scene.name != "vacuum"))
        for scene in SCENES
    ],
)
def test_a_clock_that_jumps(
    templates: dict[str, Path],
    tmp_path: Path,
    deltactl: Cli,
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten years to and fro at each look at it: no row is lost, and what is written is sound."""
    root = shutil.copytree(templates[scene.name], tmp_path / "t")
    chance, real = random.Random(3), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + chance.randint(-10, 10) * _YEAR_NS)
    free = [] if scene.name == "convert" else ["--no-lease"]
    for _ in range(3):
        ran = deltactl(*scene.arguments(root, 0), *free)
        assert ran.code in (0, 6), ran.err
    monkeypatch.undo()
    ensure_sound(root)
    history = Table(str(root)).history()
    assert history["timestamp"].to_pylist() == sorted(history["timestamp"].to_pylist())[::-1]


# -- a folder that goes away --------------------------------------------------------------------


@pytest.mark.parametrize(
    "calls",
    [9, *(pytest.param(calls, marks=pytest.mark.slow) for calls in (1, 2, 3, 5, 14, 25, 40, 60))],
)
@_COMMANDS
def test_a_folder_removed_underneath(
    templates: dict[str, Path],
    tmp_path: Path,
    deltactl: Cli,
    scene: Scene,
    calls: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = shutil.copytree(templates[scene.name], tmp_path / "t")
    left = [calls]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: LocalStore, *arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                shutil.rmtree(root)
            return real(self, *arguments, **options)

        return call

    for name in ("list_from", "read", "open_input", "open_output", "put", "put_if_absent",
                 "open_replacement", "stat_many", "walk", "walk_tree", "delete_many"):  # fmt: skip
        monkeypatch.setattr(LocalStore, name, counted(getattr(LocalStore, name)))
    ran = deltactl(*scene.arguments(root, 0))
    monkeypatch.undo()
    # A directory without files is nothing to convert: exit 6.
    assert left[0] > 0 or ran.code in (0, 1, 8, *([6] if scene.name == "convert" else [])), ran
    if ran.code:
        assert str(root) in ran.err or "hint: " in ran.err
    assert left[0] > 0 or not is_table(root), "a table of nothing was left"
