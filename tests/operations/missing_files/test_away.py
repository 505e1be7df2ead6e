"""A shallow clone whose source is away: a restore must not omit all rows."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltactl.errors import SafetyError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.options import Depth
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.run import clone_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.support.damage import check
from tests.support.restores import bodies, ids, latest, restore
from tests.support.table_builder import Column, TableBuilder, commit_path


@pytest.fixture
def clone(tmp_path: Path) -> LocalStore:
    """Version 1 of a shallow clone of two files, below two directories of partitions."""
    columns = [Column("p", "string"), Column("id")]
    source = TableBuilder(tmp_path / "source", columns, partition_by=["p"])
    source.append([{"p": "a", "id": 1}], [{"p": "b", "id": 2}])
    target = LocalStore(str(tmp_path / "clone"))
    context = RunContext(warn=lambda _: None, sleep=lambda _: None)
    logs = [DeltaLog(store, ignore_warning) for store in (source.store, target)]
    clone_table(logs[0], logs[1], CloneOptions(deep=False), context)
    [metadata] = bodies(target, 0, "metaData")
    changed = {"metaData": metadata | {"configuration": {"a": "b"}}}
    target.put_if_absent(commit_path(1), json.dumps(changed).encode())
    return target


@pytest.mark.parametrize("ignore_missing", [False, True])
def test_a_source_that_was_moved(clone: LocalStore, tmp_path: Path, ignore_missing: bool) -> None:
    (tmp_path / "source").rename(tmp_path / "moved")
    (tmp_path / "source").mkdir()  # as the place of a mount
    with pytest.raises(SafetyError, match=r"uses 2 files of another table .*/source/p=a/") as found:
        restore(clone, 0, ignore_missing=ignore_missing)
    assert "the old address leads to the other table" in (found.value.hint or "")
    assert "ignore_missing" not in (found.value.hint or "")
    assert latest(clone) == 1
    findings = check(clone, depth=Depth.EXISTS).findings
    assert findings["code"].to_pylist() == ["FILE_MISSING"] * 2
    assert all("lead to the table again" in text for text in findings["repair"].to_pylist())
    (tmp_path / "source").rmdir()
    (tmp_path / "source").symlink_to(tmp_path / "moved")
    restore(clone, 0, ignore_missing=ignore_missing)
    assert (latest(clone), ids(clone)) == (2, [1, 2])


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_another_table_at_the_address_of_the_source(
    clone: LocalStore, tmp_path: Path, is_cleaned: bool
) -> None:
    (tmp_path / "source").rename(tmp_path / "moved")
    columns = [Column("p", "string"), Column("id")]
    other = TableBuilder(tmp_path / "source", columns, partition_by=["p"])
    other.append([{"p": "c", "id": 7}], [{"p": "d", "id": 8}])
    if is_cleaned:  # then the names may have been in its commits
        other.checkpoint()
        other.forget_commits(1)
    repairs = set(check(clone).findings["repair"].to_pylist())
    is_away = any("no table is at this address, or another one" in it for it in repairs)
    assert is_away == (not is_cleaned)
    with pytest.raises(SafetyError) as caught:
        restore(clone, 0, ignore_missing=True)
    what = f"no commit of the table that is now at {other.store.uri} has them"
    assert (what in caught.value.message) == (not is_cleaned)


@pytest.mark.parametrize("has_other", [False, True])
def test_the_rows_of_a_source_that_was_deleted_are_given_up_by_their_number(
    clone: LocalStore, tmp_path: Path, has_other: bool
) -> None:
    columns = [Column("p", "string"), Column("id")]
    write_deltalake(tmp_path / "clone", pa.table({"p": ["a"], "id": [3]}), mode="append")
    (tmp_path / "source").rename(tmp_path / "moved")
    if has_other:
        TableBuilder(tmp_path / "source", columns).append([{"p": "c", "id": 7}])
    table = Table(tmp_path / "clone")
    for number, hint in ((None, "rerun with expect_files=2"), (3, "rerun with expect_files=2")):
        with pytest.raises(SafetyError, match="uses 2 files of another table") as caught:
            table.fix(kind="missing-files", expect_files=number)
        assert hint in str(caught.value.hint)
    with pytest.raises(SafetyError, match="uses 2 files of another table") as caught:
        table.restore(version=2, ignore_missing=True)
    assert "rerun with expect_files=2" in str(caught.value.hint)
    assert latest(clone) == 2
    with pytest.raises(SafetyError, match="uses 2 files of another table") as caught:
        table.restore(version=2)
    assert "rerun with ignore_missing=True and expect_files=2" in str(caught.value.hint)
    table.fix(kind="missing-files", expect_files=2)
    assert (latest(clone), ids(clone)) == (3, [3])
    table.restore(version=2, ignore_missing=True, expect_files=2)
    assert ids(clone) == [3]


def test_a_clone_that_has_no_file_of_its_own_is_lost_with_its_source(
    clone: LocalStore, tmp_path: Path
) -> None:
    """No number of files is offered, because it would be refused."""
    (tmp_path / "source").rename(tmp_path / "moved")
    table = Table(tmp_path / "clone")
    for number in (None, 2):
        with pytest.raises(SafetyError, match="uses 2 files of another table") as caught:
            table.fix(kind="missing-files", expect_files=number)
        assert "nothing of this table is left. Create it again" in str(caught.value.hint)
        with pytest.raises(SafetyError, match="uses 2 files of another table") as caught:
            table.restore(version=0, ignore_missing=True, expect_files=number)
        assert "restore another version" in str(caught.value.hint)


def test_an_own_file_is_given_up_beside_those_of_a_source_that_is_away(
    clone: LocalStore, tmp_path: Path
) -> None:
    table = Table(tmp_path / "clone")
    for number in (3, 4):
        write_deltalake(tmp_path / "clone", pa.table({"p": ["a"], "id": [number]}), mode="append")
    lost, _ = sorted((tmp_path / "clone" / "p=a").iterdir(), key=lambda path: path.stat().st_mtime)
    lost.unlink()
    (tmp_path / "source").rename(tmp_path / "moved")
    with pytest.raises(SafetyError, match="uses 2 files") as caught:
        table.fix(kind="missing-files", expect_files=1)
    assert "to go on without 3 missing files, rerun with" in str(caught.value.hint)
    table.fix(kind="missing-files", texts=[f"p=a/{lost.name}"], expect_files=1)
    (tmp_path / "moved").rename(tmp_path / "source")
    assert ids(clone) == [1, 2, 4]


def test_a_source_that_lost_all_files_of_a_partition(clone: LocalStore, tmp_path: Path) -> None:
    for path in (tmp_path / "source" / "p=a").iterdir():
        path.unlink()
    restore(clone, 0, ignore_missing=True, expect_files=1)
    assert ids(clone) == [2]


def test_a_directory_without_a_log_that_lost_a_file(clone: LocalStore, tmp_path: Path) -> None:
    for path in (tmp_path / "source" / "_delta_log").iterdir():
        path.unlink()
    [path] = (tmp_path / "source" / "p=a").iterdir()
    path.rename(path.with_name("another.parquet"))
    restore(clone, 0, ignore_missing=True, expect_files=1)
    assert ids(clone) == [2]
