"""Tables that other writers made, with independent truth about their rows."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from deltactl import DeltactlError, OptimizeOptions, Table, UnsupportedFeatureError
from deltactl.errors import SafetyError
from deltactl.operations.optimize import bins as optimize_bins
from deltactl.operations.optimize import exclusions
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.run import VacuumReport, vacuum_table
from deltactl.storage.local.store import LocalStore
from tests.conftest import CORPUS
from tests.support.run import run_on

pytestmark = [pytest.mark.corpus, pytest.mark.filterwarnings("ignore::deltactl.table.TableWarning")]

# Refused by name: the list of docs/optimize.md, as far as the corpus has such tables.
_REFUSED = ("variant", "icebegCompat", "liquid_clustering")


def _manifest() -> list[dict[str, Any]]:
    path = CORPUS / "manifest.json"
    entries: list[dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else []
    return entries


_ENTRIES = {entry["name"]: entry for entry in _manifest()}
_SOUND = [name for name, entry in _ENTRIES.items() if entry["expect"]["outcome"] == "ok"]


@pytest.fixture(scope="module")
def canonical() -> ModuleType:
    """The corpus' own definition of a row checksum."""
    spec = importlib.util.spec_from_file_location("ckcanon", CORPUS / "ckcanon.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _row_checksum(canonical: ModuleType, name: str, table: Table, version: int | None) -> str:
    excluded = _ENTRIES[name]["expect"].get("checksum_excludes") or []
    rows = table.scan(version=version).read_all()
    kept = rows.select([column for column in rows.column_names if column not in excluded])
    return str(canonical.checksum(kept))


def _accepted(name: str, checksum: str) -> set[str]:
    """The truth, or what one of several disagreeing readers makes of a disputed table."""
    return {checksum, *(_ENTRIES[name]["expect"].get("per_reader") or {}).values()}


@pytest.mark.parametrize("name", _ENTRIES or ["-"])
def test_every_version_reads_as_the_truth_says(name: str, canonical: ModuleType) -> None:
    entry = _ENTRIES[name]
    expect, table = entry["expect"], Table(str(CORPUS / entry["path"]))
    if expect["outcome"] in ("error", "unsupported"):
        if not expect.get("may_open"):
            with pytest.raises(DeltactlError):
                table.scan().read_all()
        return
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.num_files) == (expect["version"], expect["num_files"])
    assert snapshot.size_bytes == expect["total_bytes"]
    assert snapshot.files.num_rows == snapshot.num_files
    if expect["outcome"] == "log_only":
        with pytest.raises(DeltactlError):
            table.scan().read_all()
        return
    for at in expect.get("versions") or []:
        assert table.snapshot(version=at["version"]).num_files == at["num_files"]
        if at.get("row_checksum"):
            found = _row_checksum(canonical, name, table, at["version"])
            assert found in _accepted(name, at["row_checksum"]), at["version"]


def _copy(name: str, target: Path) -> Table:
    shutil.copytree(CORPUS / _ENTRIES[name]["path"], target, symlinks=True)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    return Table(str(target))


def _vacuum(folder: Path, orphans: Orphans, *, dry_run: bool = False) -> VacuumReport:
    options = VacuumOptions(mode="full", max_orphan_fraction=1)
    run = partial(vacuum_table, orphans=orphans)
    return run_on(LocalStore(str(folder)), run, options, dry_run=dry_run)


def _rewrite_everything(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optimize with every file in a bin, worth it or not: each must survive being rewritten."""
    monkeypatch.setattr(optimize_bins, "pack", lambda weights, *_: [np.arange(len(weights))])
    is_clustered = lambda log, snapshot, files, z_orders: np.zeros(files.num_rows, np.bool_)  # noqa: E731
    monkeypatch.setattr(exclusions, "clustered_mask", is_clustered)
    table.optimize(OptimizeOptions(min_input_files=1, min_file_bytes=1 << 40, verify="full"))


# The corpus' own checksum takes a minute for each table with more rows.
_SMALL = [n for n in _SOUND if (_ENTRIES[n]["expect"].get("num_rows") or 0) <= 100_000]
_LARGE = sorted(set(_SOUND) - set(_SMALL))


@pytest.mark.parametrize(
    "name", [*_SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in _LARGE)] or ["-"]
)
def test_rows_survive_being_rewritten(
    name: str, canonical: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _copy(name, tmp_path / "t")
    if any(part in name for part in _REFUSED):
        try:
            _rewrite_everything(table, monkeypatch)
        except UnsupportedFeatureError:
            return
    else:
        _rewrite_everything(table, monkeypatch)
    expect = _ENTRIES[name]["expect"]
    found = _row_checksum(canonical, name, table, None)
    assert found in _accepted(name, expect["row_checksum"])


@pytest.mark.parametrize("name", _LARGE or ["-"])
def test_many_rows_survive_being_rewritten(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part of the test above that the gate can afford: the same rows as before."""
    table = _copy(name, tmp_path / "t")
    order = [(column, "ascending") for column in table.scan().schema.names]
    before = table.scan().read_all().sort_by(order)
    _rewrite_everything(table, monkeypatch)
    assert table.scan().read_all().sort_by(order).equals(before)


@pytest.mark.parametrize("name", _SOUND or ["-"])
def test_one_file_a_partition_is_left_and_a_second_plan_is_empty(name: str, tmp_path: Path) -> None:
    table = _copy(name, tmp_path / "t")
    try:
        table.optimize()
    except UnsupportedFeatureError:
        return
    # All tables are small, so Delta on Spark leaves as many.
    files = table.snapshot().files
    assert len(files) == len(set(map(str, files["partition_values"].to_pylist())))
    assert table.optimize(dry_run=True).plan.is_empty


def _age(folder: Path) -> None:
    """Set the times of everything in a folder back by sixty days."""
    when = time.time() - 60 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (when, when), follow_symlinks=False)


def _files(folder: Path) -> set[str]:
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    return {name for name in names if not name.startswith(("_delta_log/", "_deltactl/"))}


_ID = "00000000-0000-4000-8000-000000000000"
_KEPT = (
    *("_hidden/x.parquet", "p=x/.y.parquet", "_SUCCESS", "README.md", "p=x/model.bin"),
    *("landed a%b.parquet", f"export/part-00000-{_ID}-c000.snappy.parquet"),
)
_GONE = (
    f"deletion_vector_{_ID}.bin",
    f"p=a%b/part-00000-{_ID}-c000.snappy.parquet",
    f"_change_data/cdc-00000-{_ID}.c000.snappy.parquet",
)
# No Delta writer gives these names: their tables count as converted.
_NAMED_IN_TESTS = ("/test%file%prefix", "/test%dv%prefix")
_NAMED_BY_HAND = ("delta__log-replay-special-characters-a", "kernelrs__table-with-cdf")


@pytest.mark.usefixtures("trusted_clock")
@pytest.mark.parametrize("name", _SMALL or ["-"])
def test_a_vacuum_removes_what_was_planted_and_no_row(
    name: str, canonical: ModuleType, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    table = _copy(name, folder)
    is_delta = name not in _NAMED_BY_HAND and not any(
        it in f"/{file}" for file in _files(folder) for it in _NAMED_IN_TESTS
    )
    for planted in (*_KEPT, *_GONE):
        (folder / planted).parent.mkdir(parents=True, exist_ok=True)
        (folder / planted).write_bytes(b"planted")
    _age(folder)
    version = table.snapshot().version
    if "liquid_clustering" in name:
        with pytest.raises(UnsupportedFeatureError, match="liquid"):
            _vacuum(folder, "named")
        return
    if name == "kernelrs__crc-full":  # its checksum file has ten files, and its commit none
        with pytest.raises(SafetyError, match="has no operationMetrics"):
            _vacuum(folder, "named")
        (folder / "_delta_log" / f"{0:020}.crc").unlink()
    report = _vacuum(folder, "named")
    assert not report.failures
    assert report.plan.is_empty or report.versions == (version + 1, version + 2)
    left = _files(folder)
    assert left >= set(_KEPT)
    assert left & set(_GONE) == (set() if is_delta else set(_GONE))
    found = _row_checksum(canonical, name, table, None)
    assert found in _accepted(name, _ENTRIES[name]["expect"]["row_checksum"])
    again = _vacuum(folder, "named", dry_run=True)
    assert again.plan.files.num_rows == 0


@pytest.mark.usefixtures("trusted_clock")
@pytest.mark.parametrize("name", _SMALL or ["-"])
def test_a_vacuum_inside_the_retention_removes_nothing_a_version_needs(
    name: str, canonical: ModuleType, tmp_path: Path
) -> None:
    """With commits as young as the copy, every version that could be read still can."""
    if len(_ENTRIES[name]["expect"].get("versions") or []) < 2:
        return
    folder = tmp_path / "t"
    table = _copy(name, folder)
    for path in folder.rglob("*"):
        if "_delta_log" not in path.parts:
            when = time.time() - 60 * 86_400
            os.utime(path, (when, when), follow_symlinks=False)
    for path in (folder / "_delta_log").rglob("*"):
        os.utime(path)
    _vacuum(tmp_path / "t", "all")
    for at in _ENTRIES[name]["expect"]["versions"]:
        if at.get("row_checksum"):
            found = _row_checksum(canonical, name, table, at["version"])
            assert found in _accepted(name, at["row_checksum"]), at["version"]


@pytest.mark.slow
@pytest.mark.usefixtures("trusted_clock")
@pytest.mark.parametrize("name", _SOUND or ["-"])
def test_other_readers_read_the_same_rows_after_a_vacuum(name: str, tmp_path: Path) -> None:
    _copy(name, tmp_path / "t")
    _age(tmp_path / "t")
    try:
        _vacuum(tmp_path / "t", "all")
    except UnsupportedFeatureError:
        return
    _ensure_same_rows(name, tmp_path / "t")


_JUDGED = ("dv-partitioned-with-checkpoint", "table-with-dv-special-char", "special-b", "cdf")


@pytest.mark.usefixtures("trusted_clock")
@pytest.mark.parametrize(
    "name", [name for name in _SOUND if any(part in name for part in _JUDGED)] or ["-"]
)
def test_other_readers_read_some_tables_after_a_vacuum(name: str, tmp_path: Path) -> None:
    """The part of the test above that the gate can afford: E1's table, odd names, change data."""
    test_other_readers_read_the_same_rows_after_a_vacuum(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", _SOUND or ["-"])
def test_other_readers_read_the_same_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _copy(name, tmp_path / "t")
    try:
        _rewrite_everything(table, monkeypatch)
    except UnsupportedFeatureError:
        return
    _ensure_same_rows(name, tmp_path / "t")


def _ensure_same_rows(name: str, folder: Path) -> None:
    """DuckDB and delta-rs, as far as they could read the table, read the rows it had."""
    judge = [sys.executable, str(CORPUS / "check_readback.py"), str(folder), name]
    verdict = subprocess.run(judge, capture_output=True, text=True, check=False)
    assert verdict.returncode == 0, verdict.stdout
