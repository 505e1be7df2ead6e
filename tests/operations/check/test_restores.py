"""``check``: a RESTORE after which the table has more than the version that it restored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import Table
from tests.support.damage import check, codes, edit_commit
from tests.support.restores import memory_table, restore
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path


def left(**parameters: Any) -> TableBuilder:
    """Version 4 restored version 1, but only removed one of the two later files."""
    builder = memory_table()
    for number in (1, 2, 3):
        (path,) = builder.append([{"id": number}])
    builder.commit(builder.remove_action(path), operation="RESTORE", operationParameters=parameters)
    return builder


def test_files_that_a_restore_left_are_found_until_they_are_gone() -> None:
    builder = left(version=1)
    builder.append([{"id": 4}])
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["version"]) == ("RESTORE_INCOMPLETE", 4)
    assert row["problem"].startswith("it restored version 1, but left 1 later file: ")
    restore(builder.store, 1)
    assert codes(check(builder.store)) == []


def test_a_restore_of_an_unknown_version_or_of_a_part_is_not_compared() -> None:
    for parameters in ({"version": None}, {"version": 1, "predicate": '["p = 1"]'}, {"version": 2}):
        assert codes(check(left(**parameters).store)) == []


def test_a_restore_lacks_files_after_an_original_came_back() -> None:
    """A commit that lost its remove action was undone by a restore."""
    builder = memory_table()
    (path,) = builder.append([{"id": 1}])
    builder.commit(builder.remove_action(path), builder.write_file([{"id": 2}]))
    original = builder.store.read(commit_path(2))
    edit_commit(builder, 2, lambda action: None if "remove" in action else action)
    restore(builder.store, 1)
    assert codes(check(builder.store)) == []
    builder.store.put(commit_path(2), original)
    (row,) = check(builder.store).findings.to_pylist()
    assert (row["code"], row["version"]) == ("RESTORE_INCOMPLETE", 3)
    assert "restored 1 file of version 1, but by the commits, 0 are live" in row["problem"]
    restore(builder.store, 1)
    assert codes(check(builder.store)) == []


@pytest.mark.parametrize("where", [None, "p = 1"])
def test_a_doubtful_commit_that_a_restore_undid_is_kept(where: str | None) -> None:
    builder = TableBuilder(
        fresh_store(), [Column("id"), Column("p", "integer")], partition_by=["p"]
    )
    (path,) = builder.append([{"id": 1, "p": 1}])
    builder.commit(
        builder.remove_action(path),
        builder.write_file([{"id": 2, "p": 1}]),
        operationMetrics={"numRemovedFiles": "1", "numAddedFiles": "1"},
        operation="OPTIMIZE",
    )
    edit_commit(builder, 2, lambda action: None if "remove" in action else action)
    restore(builder.store, 1, where=where)
    (row,) = check(builder.store).findings.to_pylist()
    assert row["code"] == "COMMIT_DOUBTFUL"
    advice = "keep the commit as it is, also if a backup has the original"
    assert row["repair"].startswith(
        "compare the commit with its original in a backup" if where else advice
    )
    part = "a part of " if where else ""
    assert f"Version 3 restores {part}version 1, from before this commit" in row["repair"]


def test_nothing_is_compared_if_a_commit_before_it_is_missing() -> None:
    """The file may have been live before."""
    builder = left(version=1)
    builder.checkpoint(0)
    builder.store.delete_many([commit_path(0)])
    assert codes(check(builder.store)) == []


def with_vectors(builder: TableBuilder) -> None:
    path, other = builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    builder.delete_rows(path, [0])
    builder.remove(path, other)
    builder.append([{"id": 4}])


def with_a_restore_of_a_restore(builder: TableBuilder) -> None:
    with_vectors(builder)
    restore(builder.store, 1)
    restore(builder.store, 4)


def without_a_file(builder: TableBuilder) -> None:
    paths = builder.append(*([{"id": number}] for number in range(30)))
    builder.delete_rows(builder.append([{"id": 30}, {"id": 31}])[0], [0])
    builder.remove(*paths[:20])
    builder.store.delete_many(paths[:1])


@pytest.mark.parametrize("build", [with_vectors, with_a_restore_of_a_restore, without_a_file])
@pytest.mark.parametrize("target", [1, 2])
def test_a_whole_restore_is_no_finding(build: Callable[[TableBuilder], None], target: int) -> None:
    builder = memory_table(features=["deletionVectors"])
    build(builder)
    restore(builder.store, target, ignore_missing=build is without_a_file)
    assert codes(check(builder.store)) == []


def test_other_spellings_of_a_path_are_the_same_file(tmp_path: Path) -> None:
    """delta-rs encodes the paths that it restores."""
    for number in (1, 2):
        rows = pa.table({"id": [number], "p": ["é ü%"]})
        write_deltalake(tmp_path, rows, mode="append", partition_by=["p"])
    DeltaTable(tmp_path).delete()
    DeltaTable(tmp_path).restore(1)
    assert "RESTORE_INCOMPLETE" not in Table(tmp_path).check().findings["code"].to_pylist()
    (said,) = DeltaTable(tmp_path).history(1)
    assert (said["operation"], int(said["operationParameters"]["version"])) == ("RESTORE", 1)
