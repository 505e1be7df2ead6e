"""A commit removes files that nothing before it has: another commit replaced an earlier one."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import Table
from deltactl.errors import SafetyError
from deltactl.log.audit.path_actions import NameActions
from deltactl.log.delta_log import DeltaLog
from tests.support.checkpoints import new_table
from tests.support.damage import check, codes
from tests.support.table_builder import Column, commit_path, encode_lines

PROBLEM = "it removes 1 file that no earlier commit adds"


def replace_optimize(root: Path, *, checkpoint: int | None = None) -> Table:
    """Replace version 3, an OPTIMIZE, by an append. Version 4 rewrites the file of the OPTIMIZE."""
    for number in range(3):
        write_deltalake(root, pa.table({"id": [number, number + 10]}), mode="append")
        if number == checkpoint:
            DeltaTable(root).create_checkpoint()
    DeltaTable(root).optimize.compact()
    DeltaTable(root).delete("id = 0")
    lost = root / commit_path(3)
    kept = (root / commit_path(2)).read_bytes()
    lost.write_bytes(kept.replace(b"part-00000", b"part-00001"))
    (name,) = (it for it in root.iterdir() if it.name in kept.decode())
    name.with_name(name.name.replace("part-00000", "part-00001")).write_bytes(name.read_bytes())
    return Table(root)


@pytest.mark.parametrize(("checkpoint", "has_first"), [(None, True), (1, True), (1, False)])
def test_a_replaced_commit_is_found(
    tmp_path: Path, checkpoint: int | None, has_first: bool
) -> None:
    table = replace_optimize(tmp_path, checkpoint=checkpoint)
    if not has_first:
        (tmp_path / commit_path(0)).unlink()
    (row,) = table.check().findings.to_pylist()
    assert (row["code"], row["version"]) == ("COMMIT_DOUBTFUL", 4)
    assert row["problem"].startswith(PROBLEM)
    assert "compare this commit and the earlier ones with a backup" in row["repair"]


def test_the_replaced_commit_stays_away_after_a_restore(tmp_path: Path) -> None:
    """With its original, the restore would lose rows."""
    replace_optimize(tmp_path)
    table = Table(tmp_path, warn=lambda _: None)
    table.restore(version=2)
    (row,) = table.check().findings.to_pylist()
    assert row["repair"].startswith("keep the commit as it is, also if a backup has the original")
    assert "Version 5 restores version 2, from before this commit" in row["repair"]


@pytest.mark.parametrize("checkpoints", [False, True])
def test_commits_with_which_a_later_checkpoint_agrees_are_kept(
    tmp_path: Path, checkpoints: bool
) -> None:
    table = replace_optimize(tmp_path)
    DeltaTable(tmp_path).create_checkpoint()
    (row,) = table.check(checkpoints=checkpoints).findings.to_pylist()
    assert (row["code"], row["version"]) == ("COMMIT_DOUBTFUL", 4)
    assert row["repair"].startswith("keep the commits as they are")


def test_commands_that_rewrite_are_refused(tmp_path: Path) -> None:
    table = replace_optimize(tmp_path)
    for run in (table.optimize, table.checkpoint):
        with pytest.raises(SafetyError, match=f"4.json may be damaged: {PROBLEM}"):
            run()


def test_a_remove_with_another_path_text_is_no_unknown_file() -> None:
    builder = new_table(Column("id"))
    (path,) = builder.append([{"id": 1}])
    action = builder.remove_action(path)
    action["remove"]["path"] = "%66" + path[1:]
    builder.commit(action)
    assert codes(check(builder.store)) == ["PATH_ENCODING"]


def test_a_remove_of_a_file_that_an_earlier_remove_missed() -> None:
    """Moving a file out of the table, and `check --fix missing-files`, is the repair of a miss."""
    builder = new_table(Column("id"), features=["deletionVectors"])
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    builder.delete_rows(path, [0])
    live = builder.remove_action(path)
    missed = {"remove": {k: v for k, v in live["remove"].items() if k != "deletionVector"}}
    builder.commit(missed, builder.write_file([{"id": 2}]))
    assert codes(check(builder.store)) == ["REMOVE_MISSED"]
    builder.store.put(commit_path(4), encode_lines([live]))
    assert codes(check(builder.store)) == []


def test_the_tombstones_of_dropped_deletion_vectors() -> None:
    """They name files of vectors, which no commit adds."""
    builder = new_table(Column("id"), features=["deletionVectors"])
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    builder.delete_rows(path, [0])
    table = Table("x", store=builder.store)
    table.alter(drop_feature="deletionVectors")
    operations = table.history()["operation"].to_pylist()
    assert "Deletion Vector Tombstones" in operations
    assert "COMMIT_DOUBTFUL" not in codes(check(builder.store))


def test_the_rest_of_a_checkpoint_is_not_read_if_all_files_are_known() -> None:
    builder = new_table(Column("id"))
    (path,) = builder.append([{"id": 1}])
    builder.remove(path)
    log = DeltaLog(builder.store, print)
    added, removed = log.parsed_commits([1]), log.parsed_commits([2])
    names = NameActions(log.uri)
    for commits in removed:
        names.take(commits)

    def base() -> Iterator[pa.Table]:
        for commits in added:
            yield commits.adds
        pytest.fail("the tombstones are not needed")

    assert names.find_unknown_removes(1) == {2: 1}
    assert names.find_unknown_removes(1, base()) == {}
