"""A commit was written without one that a wrong checkpoint lacks: a repair would double rows."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from deltactl.errors import SafetyError
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs
from tests.support.damage import check, codes, edit_parquet
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path

NAME = f"{LOG}/{4:020d}.checkpoint.parquet"


def append(root: Path, *ids: int) -> None:
    write_deltalake(root, pa.table({"id": ids}), mode="append")


def ids(root: Path) -> list[int]:
    return sorted(row["id"] for row in rows_with_delta_rs(root))


@contextmanager
def emptied(commit: Path) -> Iterator[None]:
    """Let a commit be empty, as after a full disk, until it comes back from a backup."""
    data = commit.read_bytes()
    commit.write_bytes(b"")
    yield
    commit.write_bytes(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The delete of row 0, version 3, was empty, and optimize kept the row: then it came back."""
    root = tmp_path / "t"
    append(root, 0, 1)
    append(root, 2)
    append(root, 3)
    DeltaTable(root).delete("id = 0")
    append(root, 4)
    with emptied(root / commit_path(3)):
        DeltaTable(root).create_checkpoint()
        assert Table(root).optimize().versions == (5,)
        append(root, 6)
    assert ids(root) == [0, 1, 2, 3, 4, 6]
    return root


@pytest.mark.parametrize("thorough", [False, True])
def test_it_stays(root: Path, thorough: bool) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(SafetyError, match="4.checkpoint.parquet was not repaired") as caught:
        Table(root).repair_checkpoints()
    assert "00000000000000000005.json removes" in str(caught.value)
    assert "its writer did not see this commit" in str(caught.value)
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


def delete_again(root: Path) -> None:
    DeltaTable(root).delete("id = 0")


def compact(root: Path) -> None:
    DeltaTable(root).optimize.compact()


def replace_all(root: Path) -> None:
    write_deltalake(root, pa.table({"id": [1, 2, 3, 4]}), mode="overwrite")


@pytest.mark.parametrize("change", [delete_again, compact, replace_all])
def test_the_other_commit_is_before_the_checkpoint(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    append(tmp_path, 0, 1)
    append(tmp_path, 2)
    DeltaTable(tmp_path).delete("id = 0")
    append(tmp_path, 3)
    with emptied(tmp_path / commit_path(2)):
        change(tmp_path)
        DeltaTable(tmp_path).create_checkpoint()
        append(tmp_path, 5)
    before = ids(tmp_path)
    for _ in range(2):
        with pytest.raises(SafetyError, match="its writer did not see this commit"):
            Table(tmp_path).repair_checkpoints()
        assert ids(tmp_path) == before
        DeltaTable(tmp_path).create_checkpoint()  # from the wrong one, which was left


@pytest.mark.parametrize("condition", [None, "p = 'a'", "p = 'b'"])
@pytest.mark.parametrize("has_base", [False, True])
def test_an_overwrite_did_not_see_a_lost_append(
    tmp_path: Path, has_base: bool, condition: str | None
) -> None:
    """It removed nothing that the lost commit had removed."""
    rows = pa.table({"id": [0, 1], "p": ["a", "b"]})
    write_deltalake(tmp_path, rows, partition_by=["p"])
    if has_base:
        DeltaTable(tmp_path).create_checkpoint()
    write_deltalake(tmp_path, pa.table({"id": [2], "p": ["a"]}), mode="append")
    write_deltalake(tmp_path, pa.table({"id": [3], "p": ["b"]}), mode="append")
    again = pa.table({"id": [0, 2], "p": ["a", "a"]})
    if condition == "p = 'b'":
        again = pa.table({"id": [1], "p": ["b"]})
    with emptied(tmp_path / commit_path(1)):
        DeltaTable(tmp_path).create_checkpoint()
        write_deltalake(tmp_path, again, mode="overwrite", predicate=condition)
    before = ids(tmp_path)
    with pytest.raises(
        SafetyError, match="3.json replaces, changes or repeats rows, but leaves files of .*1.json"
    ):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == before


@pytest.mark.parametrize(
    "info",
    [
        None,
        {"operation": "STREAMING UPDATE", "operationParameters": {"outputMode": "Complete"}},
        {"operation": ["x"], "operationParameters": 1},
        {"operation": "TRUNCATE"},
    ],
)
def test_an_overwrite_by_a_writer_that_does_not_call_it_so(
    tmp_path: Path, info: dict[str, Any] | None
) -> None:
    for number in range(3):
        append(tmp_path, number)
    with emptied(tmp_path / commit_path(1)):
        DeltaTable(tmp_path).create_checkpoint()
        write_deltalake(tmp_path, pa.table({"id": [0, 1, 2]}), mode="overwrite")
    path = tmp_path / commit_path(3)
    lines = [line for line in path.read_text().splitlines() if "commitInfo" not in line]
    if info is not None:
        lines.append(json.dumps({"commitInfo": info}))
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(
        SafetyError, match="3.json replaces, changes or repeats rows, but leaves files of"
    ):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == [0, 1, 2]


def test_a_delete_of_all_rows_did_not_see_a_lost_append(tmp_path: Path) -> None:
    for number in range(3):
        append(tmp_path, number)
    with emptied(tmp_path / commit_path(1)):
        DeltaTable(tmp_path).create_checkpoint()
        DeltaTable(tmp_path).delete()
    with pytest.raises(
        SafetyError, match="3.json replaces, changes or repeats rows, but leaves files of .*1.json"
    ):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == []


def test_two_commits_were_empty(tmp_path: Path) -> None:
    """The later one removed the file that the first had added."""
    append(tmp_path, 0, 1, 2)
    for number in (0, 1):
        DeltaTable(tmp_path).delete(f"id = {number}")
    append(tmp_path, 5)
    with emptied(tmp_path / commit_path(1)), emptied(tmp_path / commit_path(2)):
        DeltaTable(tmp_path).create_checkpoint()
        DeltaTable(tmp_path).delete("id in (0, 1)")
    with pytest.raises(SafetyError, match="4.json removes .* again"):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == [2, 5]


def test_a_file_of_a_sound_table_is_lost_by_a_checkpoint(tmp_path: Path) -> None:
    """The overwrite before the restore did not leave it; the compaction did not touch it."""
    builder = TableBuilder(tmp_path, [Column("id"), Column("p")], partition_by=["p"])
    builder.append([{"id": 0, "p": 1}], [{"id": 1, "p": 2}])
    builder.append([{"id": 2, "p": 1}])
    DeltaTable(tmp_path).optimize.compact()
    write_deltalake(tmp_path, pa.table({"id": [9], "p": [1]}), mode="overwrite")
    Table(tmp_path).restore(version=3)
    Table(tmp_path).checkpoint()
    name = f"{LOG}/{5:020d}.checkpoint.parquet"
    edit_parquet(
        builder.store,
        name,
        lambda rows: [it for it in rows if not (it["add"] and "p=2" in it["add"]["path"])],
    )
    assert ids(tmp_path) == [0, 2]
    assert Table(tmp_path).repair_checkpoints().all_repaired
    assert ids(tmp_path) == [0, 1, 2]


def test_an_unreadable_checkpoint_after_it_is_replaced(root: Path) -> None:
    name = root / f"{LOG}/{6:020d}.checkpoint.parquet"
    DeltaTable(root).create_checkpoint()
    name.write_bytes(name.read_bytes()[:700])
    with pytest.raises(SafetyError, match="4.checkpoint.parquet was not repaired"):
        Table(root).repair_checkpoints()
    assert ids(root) == [0, 1, 2, 3, 4, 6]


@pytest.mark.parametrize("change", [delete_again, replace_all])
def test_a_repair_that_brings_no_file_back(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    """The checkpoint has a deleted file, which was removed again since."""
    append(tmp_path, 0)
    append(tmp_path, 2)
    DeltaTable(tmp_path).delete("id = 0")
    append(tmp_path, 4)
    with emptied(tmp_path / commit_path(2)):
        DeltaTable(tmp_path).create_checkpoint()
        change(tmp_path)
    before = ids(tmp_path)
    assert Table(tmp_path).repair_checkpoints().all_repaired
    assert ids(tmp_path) == before


def delete(root: Path) -> None:
    DeltaTable(root).delete("id = 5")


def upsert(root: Path) -> None:
    """Insert row 3 again, which the checkpoint lacks, and remove none."""
    rows = pa.table({"id": [3, 7]})
    merge = DeltaTable(root).merge(rows, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_not_matched_insert_all().execute()


def restore(root: Path) -> None:
    DeltaTable(root).restore(1)


def replace_one(root: Path) -> None:
    write_deltalake(root, pa.table({"id": [3]}), mode="overwrite", predicate="id = 3")


@pytest.mark.parametrize("change", [delete, upsert, restore, replace_one])
def test_a_writer_read_the_wrong_checkpoint(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    """So did the writer of the next checkpoint."""
    for number in (0, 2, 3, 4, 5):
        append(tmp_path, number)
    with emptied(tmp_path / commit_path(2)):
        DeltaTable(tmp_path).create_checkpoint()
        change(tmp_path)
        append(tmp_path, 8)
        DeltaTable(tmp_path).create_checkpoint()
    before = ids(tmp_path)
    with pytest.raises(
        SafetyError, match="5.json replaces, changes or repeats rows, but leaves .*2.json"
    ):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == before
    found = check(LocalStore(str(tmp_path)), checkpoints=True).findings["code"].to_pylist()
    assert found.count("CHECKPOINT_DOUBTFUL") == 2


@pytest.mark.parametrize("then", ["", "append", "compact"])
def test_the_writer_of_the_checkpoint_did_not_see_it(tmp_path: Path, then: str) -> None:
    """It merged rows, and wrote the checkpoint of its commit, or of a later one."""
    for number in (0, 3, 4):
        append(tmp_path, number)
    with emptied(tmp_path / commit_path(1)):
        upsert(tmp_path)
        if then == "append":
            append(tmp_path, 9)
        elif then:
            DeltaTable(tmp_path).optimize.compact()
        DeltaTable(tmp_path).create_checkpoint()
    before = ids(tmp_path)
    with pytest.raises(SafetyError, match="3.json replaces, changes or repeats rows"):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == before


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_batch_was_written_again(tmp_path: Path, is_seen: bool) -> None:
    """The job asked for the version of its transaction, and got the one before.

    ``is_seen``: the checkpoint was written after the repeated batch.
    """

    def write(batch: int) -> None:
        txn = CommitProperties(app_transactions=[Transaction("job", batch)])
        rows = pa.table({"id": [batch]})
        write_deltalake(tmp_path, rows, mode="append", commit_properties=txn)

    for batch in (0, 1):
        write(batch)
    append(tmp_path, 9)
    with emptied(tmp_path / commit_path(1)):
        if is_seen:
            write(1)
        DeltaTable(tmp_path).create_checkpoint()
        if not is_seen:
            write(1)
    assert ids(tmp_path) == [0, 1, 9]
    with pytest.raises(SafetyError, match="3.json replaces, changes or repeats rows"):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == [0, 1, 9]


def test_later_commits_that_keep_rows(tmp_path: Path) -> None:
    """An append, a compaction, and a removal of entries of missing files."""
    for number in range(4):
        append(tmp_path, number)
    (lost,) = DeltaTable(tmp_path, version=0).file_uris()
    with emptied(tmp_path / commit_path(2)):
        DeltaTable(tmp_path).create_checkpoint()
        append(tmp_path, 5)
        Path(lost).unlink()
        Table(tmp_path).fix(kind="missing-files", expect_files=1)
        DeltaTable(tmp_path).optimize.compact()
        append(tmp_path, 6)
    assert Table(tmp_path).repair_checkpoints().all_repaired
    assert ids(tmp_path) == [1, 2, 3, 5, 6]


def test_a_file_that_was_added_again_hides_no_other(tmp_path: Path) -> None:
    """A restore of a partition, then a delete there, and a rewrite of the other partition."""
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    write_deltalake(tmp_path, rows, partition_by=["p"])
    DeltaTable(tmp_path).update({"id": "id + 10"})
    Table(tmp_path).restore(version=0, where="p = 'a'")
    write_deltalake(tmp_path, pa.table({"id": [9], "p": ["a"]}), mode="append")
    with emptied(tmp_path / commit_path(1)):
        DeltaTable(tmp_path).create_checkpoint()
        DeltaTable(tmp_path).delete("id = 1")
        DeltaTable(tmp_path).update({"id": "id + 20"}, predicate="id = 2")
    before = ids(tmp_path)
    with pytest.raises(SafetyError, match="5.json removes 'p=b/.*' again, which .*1.json had"):
        Table(tmp_path).repair_checkpoints()
    assert ids(tmp_path) == before


def test_an_optimize_did_not_see_a_deletion_vector(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")], features=["deletionVectors"])
    (path,) = builder.append([{"id": 0}, {"id": 1}])
    builder.delete_rows(path, [0])
    builder.append([{"id": 2}])
    with emptied(tmp_path / commit_path(2)):
        DeltaTable(tmp_path).create_checkpoint()
        assert Table(tmp_path).optimize().versions == (4,)
    (row,) = check(builder.store).findings.to_pylist()
    assert row["code"] == "CHECKPOINT_DOUBTFUL"
    assert "4.json removes" in row["problem"]
