"""A commit after the checkpoint was overwritten by one before it, which no command reads."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from deltactl import maintain
from deltactl.errors import SafetyError
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.clone.test_run import clone
from tests.operations.clone.test_sync import sync
from tests.support.checkpoints import memory_of
from tests.support.damage import edit_action, edit_commit
from tests.support.stores import CountingStore, MemoryStore, fresh_store
from tests.support.table_builder import START_MS, Action, Column, TableBuilder, commit_path

COLUMNS = [Column("id"), Column("p", "string")]
SAME = "{}.json may be damaged: it has the same bytes as _delta_log/{:020}.json"


def fill(store: Store) -> TableBuilder:
    """Version 8, with a checkpoint of 5. Each commit but 0 appends a file."""
    builder = TableBuilder(store, COLUMNS)
    for number in range(5):
        builder.append([{"id": number, "p": "a"}])
    builder.checkpoint(5)
    builder.hint(5)
    for number in range(3):
        builder.append([{"id": number, "p": "a"}])
    if isinstance(store, MemoryStore):
        for version in range(9):
            store.set_modified(commit_path(version), START_MS + 1000 * (version + 1))
    return builder


def copy_commit(builder: TableBuilder, version: int, older: int) -> None:
    builder.store.put(commit_path(version), builder.store.read(commit_path(older)))


@pytest.fixture
def builder() -> TableBuilder:
    return fill(fresh_store())


RUNS: list[Callable[[Table], Any]] = [
    lambda table: table.optimize(),
    lambda table: table.checkpoint(),
    lambda table: table.checkpoint(cleanup=True),
    lambda table: table.alter(drop_feature="deletionVectors"),
]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("version", "older"), [(6, 2), (6, 5), (7, 2), (8, 5)])
def test_commands_that_keep_the_damage_are_refused(
    builder: TableBuilder, run: Callable[[Table], Any], version: int, older: int
) -> None:
    copy_commit(builder, version, older)
    before = memory_of(builder).contents()
    with pytest.raises(SafetyError, match=SAME.format(version, older)):
        run(Table("x", store=builder.store))
    assert memory_of(builder).contents() == before


def without_time(action: Action) -> Action:
    if "commitInfo" not in action:
        return action
    return {"commitInfo": {k: v for k, v in action["commitInfo"].items() if k != "timestamp"}}


def test_commits_without_a_time_are_compared(builder: TableBuilder) -> None:
    edit_commit(builder, 2, without_time)
    copy_commit(builder, 7, 2)
    with pytest.raises(SafetyError, match=SAME.format(7, 2)):
        Table("x", store=builder.store).optimize()


def test_a_sync_is_refused_and_a_new_clone_warns(builder: TableBuilder) -> None:
    target, new, said = fresh_store(), fresh_store(), list[str]()
    clone(builder.store, target, version=6)
    copy_commit(builder, 7, 2)
    with pytest.raises(SafetyError, match=SAME.format(7, 2)):
        sync(builder.store, target)
    clone(builder.store, new, warnings=said)
    assert [SAME.format(7, 2) in text for text in said] == [True]


def test_maintain_writes_nothing(tmp_path: Path) -> None:
    builder, said = fill(LocalStore(str(tmp_path))), list[str]()
    copy_commit(builder, 7, 2)
    policy = MaintainPolicy(actions=["optimize", "checkpoint"], skip_hot=timedelta())
    [table] = maintain([str(tmp_path)], policy, warn=said.append).tables
    assert {error.code for error in table.facts.problems.values()} == {"SAFETY"}
    assert not table.outcomes
    assert any(SAME.format(7, 2) in text for text in said)


@pytest.mark.parametrize("has_copy", [False, True])
def test_older_commits_are_read_only_if_a_time_goes_back(
    builder: TableBuilder, has_copy: bool
) -> None:
    """The commits 1 to 8 have the same size."""
    if has_copy:
        copy_commit(builder, 7, 2)
    counting = CountingStore(builder.store)
    table = Table("x", store=counting)
    if has_copy:
        with pytest.raises(SafetyError):
            table.optimize(dry_run=True)
    else:
        table.optimize(dry_run=True)
    listings = counting.names["list_from"]
    assert len(listings) == 1 + has_copy
    assert bool(counting.touched(commit_path(2))) == has_copy
    assert not counting.touched(commit_path(0))


@pytest.mark.parametrize("has_copy", [False, True])
def test_commits_without_a_commit_info_have_the_time_of_their_files(
    builder: TableBuilder, has_copy: bool
) -> None:
    """Some writers write no commitInfo, and commits of one size."""
    for version in range(1, 9):
        edit_commit(builder, version, lambda it: None if "commitInfo" in it else it)
        edit_action(builder, version, "add", modificationTime=START_MS + 10_000 * version)
        memory_of(builder).set_modified(commit_path(version), START_MS + 10_000 * version + 50)
    if has_copy:
        copy_commit(builder, 7, 2)
    counting = CountingStore(builder.store)
    table = Table("x", store=counting)
    if has_copy:
        with pytest.raises(SafetyError, match=SAME.format(7, 2)):
            table.optimize(dry_run=True)
    else:
        table.optimize(dry_run=True)
    assert len(counting.names["list_from"]) == 1 + has_copy
    assert bool(counting.touched(commit_path(2))) == has_copy


def test_older_commits_are_not_read_for_a_commit_without_file_actions(
    builder: TableBuilder,
) -> None:
    """No file can be lost or repeated by such a copy."""
    for version in (2, 7):
        txn = f'{{"txn":{{"appId":"app","version":{version}}}}}\n'
        builder.store.put(commit_path(version), txn.encode())
    counting = CountingStore(builder.store)
    Table("x", store=counting).optimize(dry_run=True)
    assert len(counting.names["list_from"]) == 1
    assert not counting.touched(commit_path(2))


def test_older_commits_are_not_read_if_a_clock_goes_back_after_the_checkpoint(
    builder: TableBuilder,
) -> None:
    """A copy has a time of before the checkpoint."""
    store = memory_of(builder)
    edit_action(builder, 7, "commitInfo", timestamp=START_MS + 9500)
    edit_action(builder, 8, "commitInfo", timestamp=START_MS + 9400)
    assert len(store.read(commit_path(8))) == len(store.read(commit_path(2)))
    counting = CountingStore(store)
    Table("x", store=counting).optimize(dry_run=True)
    assert len(counting.names["list_from"]) == 1
    assert not counting.touched(commit_path(2))
