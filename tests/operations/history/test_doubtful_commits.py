"""A commit may have lost actions: each view that its actions would change says so."""

import pytest

from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.read import Selection
from deltactl.operations.history.blame import blame_partition
from deltactl.operations.history.diff import diff_versions
from deltactl.operations.history.restorable import find_restorable
from deltactl.operations.history.run import HistoryOptions, commit_files, load_history
from deltactl.operations.manifest.run import ManifestOptions, generate_manifests
from tests.support.checkpoints import new_table
from tests.support.damage import edit_commit
from tests.support.run import run_on
from tests.support.table_builder import Column, TableBuilder, commit_path

DELETE = 3
PROBLEM = "it has 0 of the 1 remove action that its operationMetrics count"


@pytest.fixture
def builder() -> TableBuilder:
    """Version 5: version 3 deletes the only file of ``p=b``, and then lost its actions."""
    builder = new_table(Column("id"), Column("p", "string"), partition_by=["p"])
    builder.append([{"id": 1, "p": "a"}])
    [path] = builder.append([{"id": 2, "p": "b"}])
    removed, metrics = builder.remove_action(path), {"numRemovedFiles": "1"}
    builder.commit(removed, operation="DELETE", operationMetrics=metrics)
    for number in (4, 5):
        builder.append([{"id": number, "p": "a"}])
    edit_commit(builder, DELETE, lambda it: None if "remove" in it else it)
    return builder


class Warned(list[str]):
    """The warnings of the log that it opens."""

    def log(self, builder: TableBuilder) -> DeltaLog:
        return DeltaLog(builder.store, self.append)

    def check(self, builder: TableBuilder) -> None:
        name = f"_delta_log/{DELETE:020}.json"
        hint = f"Run `deltactl check {builder.store.uri}` for details"
        assert self == [f"{name} may be damaged: {PROBLEM}. {hint}"]


@pytest.mark.parametrize("asked", ["p=b", "p > 'a'"])
def test_blame_shows_the_commit(builder: TableBuilder, asked: str) -> None:
    warned = Warned()
    report = blame_partition(warned.log(builder), asked, Selection())
    assert [(row["version"], row["problem"]) for row in report.rows] == [
        (DELETE, f"the commit may be damaged: {PROBLEM}"),
        (2, None),
    ]
    warned.check(builder)
    later = Warned()
    assert not blame_partition(later.log(builder), asked, Selection(first_version=4)).rows
    assert later == []


def test_a_difference_of_versions_that_are_rebuilt_from_the_commit(builder: TableBuilder) -> None:
    warned = Warned()
    diff_versions(warned.log(builder), 2, 4)
    warned.check(builder)
    before = Warned()
    diff_versions(before.log(builder), 1, 2)
    assert before == []


def test_one_version(builder: TableBuilder) -> None:
    for version in (1, DELETE):
        files, counts = Warned(), Warned()
        commit_files(files.log(builder), version)
        options = HistoryOptions(first_version=version, last_version=version, changes=True)
        load_history(counts.log(builder), options)
        assert files == counts
    files.check(builder)


@pytest.mark.parametrize("checkpoint", [None, DELETE, 4])
def test_what_versions_lack_is_unknown_up_to_the_next_checkpoint(
    builder: TableBuilder, checkpoint: int | None
) -> None:
    if checkpoint is not None:
        builder.checkpoint(checkpoint)
    end = 6 if checkpoint is None else checkpoint
    warned = Warned()
    states = find_restorable(warned.log(builder))
    assert states.keys() == {0, 1, 2, 3, 4, 5} - {*range(DELETE, end)}
    assert {state.state for state in states.values()} == {"readable"}
    if checkpoint == DELETE:
        assert warned == []
    else:
        warned.check(builder)


@pytest.mark.parametrize("checkpoint", [None, 0, 4])
def test_swapped_commits(checkpoint: int | None) -> None:
    """Version 2 removes the file that version 3 adds: the two commits were exchanged."""
    builder = new_table(Column("id"), Column("p", "string"), partition_by=["p"])
    builder.append([{"id": 1, "p": "a"}])
    [path] = builder.append([{"id": 2, "p": "b"}])
    builder.remove(path)
    builder.append([{"id": 4, "p": "a"}])
    store = builder.store
    if checkpoint is not None:
        builder.checkpoint(checkpoint)
    later, earlier = store.read(commit_path(2)), store.read(commit_path(3))
    store.put(commit_path(2), earlier)
    store.put(commit_path(3), later)
    problem = "2.json may be damaged: it removes 1 file that no earlier commit adds"

    restorable, blame, diff = Warned(), Warned(), Warned()
    states = find_restorable(restorable.log(builder))
    assert states.keys() == ({0, 1, 4} if checkpoint == 4 else {0, 1})
    rows = blame_partition(blame.log(builder), "p=b", Selection()).rows
    assert [row["version"] for row in rows if row["problem"]] == [2]
    for said in (restorable, blame):
        assert [problem in text for text in said] == [True]
    diff_versions(diff.log(builder), 1, 3)
    # After a checkpoint, the commits before it are not read.
    assert [problem in text for text in diff] == ([] if checkpoint == 0 else [True])
    diff_versions(Warned().log(builder), 0, 1)
    assert not blame_partition(Warned().log(builder), "p=b", Selection(first_version=4)).rows


def test_manifests_warn(builder: TableBuilder) -> None:
    warned = Warned()
    run_on(builder.store, generate_manifests, ManifestOptions(check=True), warn=warned.append)
    warned.check(builder)
    builder.checkpoint()
    run_on(builder.store, generate_manifests, ManifestOptions(check=True), warn=refuse)


def refuse(message: str) -> None:
    raise AssertionError(message)
