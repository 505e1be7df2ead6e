"""Files that no action in the log names: who may remove them, and in which tables."""

import json
import os
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake

from deltactl import Table, convert, maintain
from deltactl.errors import ConflictError
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.plan import VacuumPlan
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.local.store import LocalStore
from deltactl.table import TableWarning
from tests.operations.vacuum.test_local import age
from tests.support.duckdb_delta import connect_duckdb
from tests.support.run import run_on
from tests.support.table_builder import commit_path

pytestmark = pytest.mark.usefixtures("trusted_clock")

ID = "6a09e667-f3bc-4908-8b2f-3bcc908bc8a1"
LEFTOVER = f"part-00000-{ID}-c000.snappy.parquet"
VECTOR = f"deletion_vector_{ID}.bin"
CHANGES = f"_change_data/cdc-00000-{ID}.c000.snappy.parquet"
FULL = VacuumOptions(mode="full", max_orphan_fraction=1.0, retain_ms=0, force_retention=True)
STRANGE = ("events-1.parquet", "README.md", f"export/{LEFTOVER}")
WRITTEN = (LEFTOVER, VECTOR, CHANGES)

UNKNOWN = "not in the log, and not named by a Delta writer"
CONVERTED = "not in the log, in the directory of a converted table"
REWRITTEN = "written again after a commit removed it, perhaps by another program"
UNATTENDED = "not in the log, and this run is unattended"


def plant(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [100]}), path)
    age(root)


def plan(root: Path, orphans: Orphans = "keep") -> VacuumPlan:
    run = partial(vacuum_table, orphans=orphans)
    store = LocalStore(str(root))
    return run_on(store, run, FULL, warn=pytest.fail, dry_run=True).plan


def paths_of(found: VacuumPlan) -> set[str]:
    return set(found.files["path"].to_pylist())


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A table that delta-rs wrote, with a file that was removed, and files that nobody names."""
    root = tmp_path / "t"
    for number in range(2):
        write_deltalake(root, pa.table({"id": [number]}), mode="append")
    DeltaTable(root).delete("id = 0")
    plant(root, *STRANGE, *WRITTEN)
    return root


@pytest.mark.parametrize(
    ("orphans", "removed", "kept"),
    [
        ("keep", (), {UNATTENDED: len(WRITTEN), UNKNOWN: len(STRANGE)}),
        ("named", WRITTEN, {UNKNOWN: len(STRANGE)}),
        ("all", (*WRITTEN, *STRANGE), {}),
    ],
)
def test_files_that_nobody_names_go_as_far_as_was_agreed_to(
    written: Path, orphans: Orphans, removed: tuple[str, ...], kept: dict[str, int]
) -> None:
    """None in an unattended run; then those with the names of a Delta writer; then all."""
    found = plan(written, orphans)
    rows = found.files.to_pylist()
    assert {row["path"] for row in rows if row["reason"] != "tombstone"} == set(removed)
    assert len(rows) == 1 + len(removed), "and the file that a commit removed"
    assert found.kept == kept
    assert found.unnamed_kept == sum(kept.values())


def test_a_writer_takes_in_what_another_program_wrote_while_a_person_is_asked(
    written: Path,
) -> None:
    """Only this commit shows that other programs write to the directory."""
    before = {*written.rglob("*.parquet")}

    def take_in(plan: VacuumPlan) -> bool:
        assert {LEFTOVER, CHANGES} < paths_of(plan)
        size = (written / "events-1.parquet").stat().st_size
        add = {"path": "events-1.parquet", "partitionValues": {}, "size": size}
        add |= {"modificationTime": 1, "dataChange": True}
        (written / commit_path(plan.version + 1)).write_text(json.dumps({"add": add}))
        return True

    run = partial(vacuum_table, orphans="named", confirm=take_in)
    with pytest.raises(ConflictError, match="'events-1.parquet', whose name no Delta writer gives"):
        run_on(LocalStore(str(written)), run, FULL, warn=pytest.fail)
    assert before <= {*written.rglob("*.parquet")}


def test_a_call_from_python_cannot_remove_what_no_commit_removed(written: Path) -> None:
    for name in ("include_orphans", "include_unknown", "orphans"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            Table(written).vacuum(mode="full", **{name: True})  # type: ignore[arg-type]
    report = Table(written).vacuum(
        mode="full", retain="0s", force_retention=True, max_orphan_fraction=1.0
    )
    assert report.files_removed == 1
    assert all((written / name).exists() for name in (*WRITTEN, *STRANGE))


def test_a_log_that_was_cleaned_shows_that_a_table_was_not_converted(written: Path) -> None:
    clean_log(written)
    age(written)
    found = plan(written, "named")
    assert set(WRITTEN) <= paths_of(found)
    assert found.kept == {UNKNOWN: len(STRANGE)}


def land(root: Path, name: str) -> None:
    root.mkdir()
    pq.write_table(pa.table({"id": [1]}), root / name)


def convert_ours(root: Path) -> None:
    """The names are those of a Delta writer: only the property shows the conversion."""
    land(root, LEFTOVER.replace("00000-", "00001-"))
    convert(str(root), ConvertOptions())
    clean_log(root)


def clean_log(root: Path) -> None:
    """Write a checkpoint, and delete the commits before it."""
    write_deltalake(root, pa.table({"id": [2]}), mode="append")
    DeltaTable(root).create_checkpoint()
    first, *_ = sorted((root / "_delta_log").glob("*.json"))
    first.unlink()


def convert_older_files(root: Path) -> None:
    """The names are those of a Delta writer: only the time of a file shows the conversion."""
    land(root, LEFTOVER.replace("00000-", "00001-"))
    age(root)
    convert_to_deltalake(str(root))
    clean_log(root)


def write_without_creation_time(root: Path) -> None:
    """Nothing shows whether the table was converted."""
    write_deltalake(root, pa.table({"id": [2]}))
    first = root / "_delta_log" / f"{0:020}.json"
    text, count = re.subn(r',?"createdTime":\d+', "", first.read_text())
    assert count == 1
    first.write_text(text)
    clean_log(root)


def convert_with_delta_rs(root: Path) -> None:
    """The names are those of a Delta writer: only the operation shows the conversion."""
    land(root, LEFTOVER.replace("00000-", "00001-"))
    convert_to_deltalake(str(root))


def convert_long_ago(root: Path, *, is_live: bool, has_checkpoint: bool) -> None:
    """Only the name of a file shows the conversion, live or removed, in a commit or checkpoint."""
    land(root, "1.parquet")
    convert_to_deltalake(str(root))
    log = root / "_delta_log"
    first = log / f"{0:020}.json"
    first.write_text(first.read_text().replace('"CONVERT"', '"WRITE"'))
    mode = "append" if is_live else "overwrite"
    write_deltalake(root, pa.table({"id": [2]}), mode=mode)  # type: ignore[call-overload]
    if has_checkpoint:
        write_deltalake(root, pa.table({"id": [3]}), mode="append")
        DeltaTable(root).create_checkpoint()
        for version in range(2):
            (log / f"{version:020}.json").unlink()
    elif not is_live:
        (root / "1.parquet").unlink()  # an earlier vacuum removed it


@pytest.mark.parametrize(
    "make",
    [
        convert_ours,
        convert_with_delta_rs,
        convert_older_files,
        write_without_creation_time,
        partial(convert_long_ago, is_live=True, has_checkpoint=False),
        partial(convert_long_ago, is_live=False, has_checkpoint=False),
        partial(convert_long_ago, is_live=True, has_checkpoint=True),
        partial(convert_long_ago, is_live=False, has_checkpoint=True),
    ],
)
def test_in_a_converted_table_all_stay(tmp_path: Path, make: Callable[[Path], None]) -> None:
    root = tmp_path / "t"
    make(root)
    plant(root, LEFTOVER, "landed.parquet")
    found = plan(root, "named")
    assert paths_of(found) <= {"1.parquet"}
    assert found.kept == {CONVERTED: 1, UNKNOWN: 1}
    assert paths_of(plan(root, "all")) >= {LEFTOVER, "landed.parquet"}


def test_a_file_that_landed_after_a_conversion_stays(tmp_path: Path) -> None:
    """Without a policy, ``maintain`` leaves what a program puts into the directory."""
    root = tmp_path / "t"
    root.mkdir()
    for number in range(8):
        pq.write_table(pa.table({"id": [number]}), root / f"part-{number:05}-{ID}-c000.parquet")
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    convert(str(root), ConvertOptions(properties=properties))
    plant(root, "landed.parquet", LEFTOVER)
    done: list[str] = []
    for _ in range(2):  # the second run removes what the optimize of the first replaced
        [table] = maintain([str(root)], MaintainPolicy(skip_hot=timedelta())).tables
        assert all(outcome.error is None for outcome in table.outcomes)
        done += (outcome.name for outcome in table.outcomes)
    assert {"optimize", "vacuum"} <= set(done)
    assert len(list(root.glob("*.parquet"))) == 3
    assert pq.read_table(root / "landed.parquet")["id"].to_pylist() == [100]
    assert (root / LEFTOVER).exists()
    assert not (root / "_deltactl" / "quarantine").exists()
    assert sorted(DeltaTable(root).to_pyarrow_table()["id"].to_pylist()) == list(range(8))
    rows = connect_duckdb().execute(f"SELECT id FROM delta_scan('{root}') ORDER BY id").fetchall()
    assert rows == [(number,) for number in range(8)]


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize("grows", [True, False])
def test_a_program_writes_again_to_a_name_that_the_log_removed(
    tmp_path: Path, mode: Literal["full", "lite"], grows: bool
) -> None:
    """DuckDB and others write to fixed names, such as data_0.parquet."""
    for number in range(2):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"data_{number}.parquet")
    convert(str(tmp_path))
    Table(tmp_path).optimize()
    rows = pa.table({"id": [100 + number for number in range(1000 if grows else 1)]})
    pq.write_table(rows, tmp_path / "data_0.parquet")
    if grows:  # by a clock that was behind
        os.utime(tmp_path / "data_0.parquet", (1, 1))
    report = Table(tmp_path).vacuum(mode=mode, retain="0s", force_retention=True)
    assert report.files_removed == 1
    assert not (tmp_path / "data_1.parquet").exists()
    assert pq.read_table(tmp_path / "data_0.parquet") == rows
    assert report.plan.kept == {REWRITTEN: 1}


def test_a_file_that_a_commit_removed_is_no_moved_live_file(tmp_path: Path) -> None:
    """In a converted directory, several directories have files of the same name."""
    for number in range(2):
        folder = tmp_path / f"day={number}"
        folder.mkdir()
        for part in range(2):
            pq.write_table(pa.table({"id": [number]}), folder / f"data_{part}.parquet")
    convert(str(tmp_path))
    Table(tmp_path).optimize(where="day = 1")
    (tmp_path / "day=0/data_0.parquet").unlink()
    with pytest.warns(TableWarning, match="1 live file does not exist"):
        report = Table(tmp_path).vacuum(
            mode="full", retain="0s", force_retention=True, dry_run=True
        )
    assert report.plan.files.num_rows == 2
