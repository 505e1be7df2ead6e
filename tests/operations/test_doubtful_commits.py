"""A commit may have lost actions: what a run writes must not make this loss final."""

from collections.abc import Callable
from typing import Any

import pytest

from deltactl.errors import SafetyError
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.check.test_fix_stats import fix
from tests.operations.checkpoint.test_doubtful_commits import (
    LOST,
    confirm_checkpoint,
    doubtful,
    fill,
)
from tests.operations.clone.test_run import clone
from tests.operations.clone.test_sync import sync
from tests.support.checkpoints import memory_of, new_table
from tests.support.damage import edit_commit
from tests.support.stores import fresh_store
from tests.support.table_builder import TableBuilder, commit_path

METRICS = {"numRemovedFiles": "1", "numAddedFiles": "1"}


@pytest.mark.parametrize(
    "run",
    [
        lambda table: table.optimize(),
        lambda table: table.optimize(dry_run=True),
        lambda table: table.optimize(cluster_by=["id"]),
        lambda table: table.alter(drop_feature="deletionVectors"),
    ],
)
def test_files_are_not_rewritten(run: Callable[[Table], Any]) -> None:
    builder = doubtful()
    before = memory_of(builder).contents()
    with pytest.raises(SafetyError, match=LOST) as caught:
        run(Table("x", store=builder.store))
    assert "whether to restore the commit from a backup" in str(caught.value.hint)
    assert memory_of(builder).contents() == before


def test_rows_are_right_after_the_commit_is_restored() -> None:
    builder = fill(new_table(), operationMetrics=METRICS)
    name = "_delta_log/00000000000000000004.json"
    commit = builder.store.read(name)
    edit_commit(builder, 4, lambda it: None if "remove" in it else it)
    with pytest.raises(SafetyError, match=LOST):
        Table("x", store=builder.store).optimize()
    builder.store.put(name, commit)
    table = Table("x", store=builder.store)
    assert table.optimize().files_added == 1
    assert sorted(table.scan().read_all()["id"].to_pylist()) == [0, 1, 5, 30]


def test_a_person_may_say_that_the_commit_is_right() -> None:
    builder = doubtful()
    confirm_checkpoint(builder, answer=True)
    assert Table("x", store=builder.store).optimize().files_added == 1


def test_statistics_are_not_fixed() -> None:
    with pytest.raises(SafetyError, match=LOST):
        fix(doubtful().store)


def synced() -> tuple[TableBuilder, Store]:
    """Return a table with a doubtful commit after the version that its clone has."""
    builder, target = fill(new_table(), operationMetrics=METRICS), fresh_store()
    clone(builder.store, target, version=3)
    edit_commit(builder, 4, lambda it: None if "remove" in it else it)
    return builder, target


def test_a_sync_does_not_take_the_damage_into_the_clone() -> None:
    builder, target = synced()
    with pytest.raises(SafetyError, match=LOST):
        sync(builder.store, target)
    assert Table("x", store=target).snapshot().version == 0
    said = list[str]()
    sync(builder.store, target, full=True, warnings=said)
    assert any(LOST in text for text in said)


def test_the_first_run_of_a_sync_warns() -> None:
    builder, _ = synced()
    target, said = fresh_store(), list[str]()
    sync(builder.store, target, warnings=said)
    assert Table("x", store=target).snapshot().version == 0
    assert any(LOST in text for text in said)


def test_the_hint_names_the_clone_if_the_commit_is_one_of_the_clone() -> None:
    builder, target = fill(new_table()), fresh_store()
    clone(builder.store, target)
    Table("x", store=target).optimize()
    name = commit_path(1)
    lines = target.read(name).splitlines(keepends=True)
    target.put(name, b"".join(line for line in lines if not line.startswith(b'{"remove"')))
    with pytest.raises(SafetyError, match="1.json may be damaged") as caught:
        sync(builder.store, target)
    assert f"deltactl check {target.uri}" in str(caught.value.hint)
    assert target.uri != builder.store.uri


@pytest.mark.parametrize(
    "run",
    [
        lambda table: table.restore(version=3),
        lambda table: table.alter(properties={"a": "b"}),
    ],
)
def test_what_keeps_the_files_warns(run: Callable[[Table], Any]) -> None:
    builder, said = doubtful(), list[str]()
    run(Table("x", store=builder.store, warn=said.append))
    assert [LOST in text for text in said] == [True]


def test_a_vacuum_without_files_to_remove_warns() -> None:
    builder = doubtful()
    warnings: list[str] = []
    report = Table("x", store=builder.store, warn=warnings.append).vacuum()
    assert report.plan.is_empty
    assert any("a vacuum that has files to remove would be refused" in it for it in warnings)
