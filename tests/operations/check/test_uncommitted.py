"""Files of a checkpoint that no commit adds, because other commits replaced their commits."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs
from tests.support.damage import check
from tests.support.table_builder import LOG, commit_path


def append(root: Path, *ids: int) -> None:
    write_deltalake(root, pa.table({"id": ids}), mode="append")


def ids(root: Path) -> list[int]:
    return sorted(row["id"] for row in rows_with_delta_rs(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two writers committed versions 1 to 3. The first one wrote a checkpoint."""
    root, other = tmp_path / "t", tmp_path / "other"
    append(root, 0)
    shutil.copytree(root, other)
    for number in (1, 2, 3):
        append(root, number)
        append(other, 10 + number)
    DeltaTable(root).create_checkpoint()
    for file in other.glob("*.parquet"):
        shutil.copy(file, root)
    for version in (1, 2, 3):
        shutil.copy(other / commit_path(version), root / commit_path(version))
    assert ids(root) == [0, 1, 2, 3]
    return root


def test_all_are_named(root: Path) -> None:
    store = Table(root).snapshot().store
    found = check(store, checkpoints=True).findings.to_pylist()
    assert [it["code"] for it in found] == ["CHECKPOINT_DOUBTFUL", *["FILE_UNCOMMITTED"] * 3]
    assert "which exists, and which no commit adds (and 2 more such files)" in found[0]["problem"]
    saved = [pq.read_table(root / it["file"])["id"].to_pylist() for it in found[1:]]
    assert sorted(saved) == [[1], [2], [3]]


def test_rows_that_a_later_commit_added_again_are_not_to_be_saved(root: Path) -> None:
    """What the finding and its explanation say leads to the rows of both writers."""
    DeltaTable(root).delete("id = 1")
    optimized = Table(root).optimize(min_input_files=2)
    assert optimized.versions == (5,)
    append(root, 6)
    found = check(Table(root).snapshot().store, checkpoints=True).findings.to_pylist()
    assert not [it for it in found if it["code"] == "FILE_UNCOMMITTED"]
    (root / LOG / f"{3:020d}.checkpoint.parquet").unlink()
    (root / LOG / "_last_checkpoint").unlink()
    assert ids(root) == [0, 2, 3, 6, 11, 12, 13]


def test_only_some_were_read_by_later_commits(root: Path) -> None:
    DeltaTable(root).delete("id = 1")
    found = check(Table(root).snapshot().store, checkpoints=True).findings.to_pylist()
    files = [it["file"] for it in found if it["code"] == "FILE_UNCOMMITTED"]
    saved = [pq.read_table(root / name) for name in files]
    assert sorted(it["id"].to_pylist() for it in saved) == [[2], [3]]
    (root / LOG / f"{3:020d}.checkpoint.parquet").rename(root.parent / "moved")
    Table(root).repair_checkpoints()
    write_deltalake(root, pa.concat_tables(saved), mode="append")
    assert ids(root) == [0, 2, 3, 11, 12, 13]
