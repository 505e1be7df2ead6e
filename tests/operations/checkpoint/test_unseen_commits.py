"""A later commit was written from a wrong checkpoint: a repair would double rows."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.errors import SafetyError
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs
from tests.support.damage import check, codes
from tests.support.table_builder import LOG, commit_path

NAME = f"{LOG}/{4:020d}.checkpoint.parquet"


def append(root: Path, *ids: int) -> None:
    write_deltalake(root, pa.table({"id": ids}), mode="append")


def ids(root: Path) -> list[int]:
    return sorted(row["id"] for row in rows_with_delta_rs(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The delete of row 0, version 3, was empty, and optimize kept the row: then it came back."""
    root = tmp_path / "t"
    append(root, 0, 1)
    append(root, 2)
    append(root, 3)
    DeltaTable(root).delete("id = 0")
    commit = (root / commit_path(3)).read_bytes()
    append(root, 4)
    (root / commit_path(3)).write_bytes(b"")
    DeltaTable(root).create_checkpoint()
    assert Table(root).optimize().versions == (5,)
    append(root, 6)
    (root / commit_path(3)).write_bytes(commit)
    assert ids(root) == [0, 1, 2, 3, 4, 6]
    return root


@pytest.mark.parametrize("thorough", [False, True])
def test_it_stays(root: Path, thorough: bool) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(SafetyError, match="4.checkpoint.parquet was not repaired") as caught:
        Table(root).repair_checkpoints()
    assert "but _delta_log/00000000000000000005.json was written from it" in str(caught.value)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    report = check(LocalStore(str(root)), checkpoints=thorough)
    assert codes(report) == ["CHECKPOINT_DOUBTFUL", "REMOVE_REPEATED"]
    assert "move this commit out of the table" in report.findings["repair"][0].as_py()


def test_the_commit_is_moved_away_and_its_changes_are_made_again(root: Path) -> None:
    (root / commit_path(3)).unlink()
    DeltaTable(root).delete("id = 0")
    assert ids(root) == [1, 2, 3, 4, 6]
    assert codes(check(LocalStore(str(root)), checkpoints=True)) == ["HISTORY_GAP"]


def test_the_checkpoint_is_moved_away_and_the_later_commits_are_undone(root: Path) -> None:
    (root / NAME).unlink()
    assert Table(root).repair_checkpoints().all_repaired
    assert ids(root) == [0, 1, 1, 2, 3, 4, 6]
    Table(root).restore(version=4)
    append(root, 6)
    assert ids(root) == [1, 2, 3, 4, 6]


def test_files_that_a_later_commit_added_show_nothing(root: Path) -> None:
    """A commit that removes files of its own time was not written from the checkpoint."""
    for version in (5, 6):
        (root / commit_path(version)).unlink()
    append(root, 5)
    DeltaTable(root).delete("id = 5")
    assert Table(root).repair_checkpoints().all_repaired
    assert ids(root) == [1, 2, 3, 4]
