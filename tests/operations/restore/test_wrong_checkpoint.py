"""``restore`` beside a checkpoint that is wrong, and complete commits."""

from typing import Any

import pytest

from deltactl.errors import SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.table import Table
from tests.support.checkpoints import fail
from tests.support.damage import edit_commit
from tests.support.restores import ids, latest, memory_table, restore
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path


def build() -> TableBuilder:
    """Version 9, with row N in each version N from 1 on; the checkpoint of 7 is that of 3."""
    builder = memory_table(Column("id"), Column("p", "string"), partition_by=["p"])
    for number in range(1, 10):
        builder.append([{"id": number, "p": "ab"[number % 2]}])
    builder.checkpoint(3)
    old, new = (f"{LOG}/{version:020d}.checkpoint.parquet" for version in (3, 7))
    builder.store.put(new, builder.store.read(old))
    builder.store.delete_many([old])
    builder.hint(7)
    assert ids(builder.store) == [1, 2, 3, 8, 9]
    return builder


@pytest.mark.parametrize(
    "options", [{}, {"dry_run": True}, {"where": "p = 'a'"}], ids=["all", "dry run", "partition"]
)
@pytest.mark.parametrize("target", [1, 3, 6])
def test_it_is_repaired_first(target: int, options: dict[str, Any]) -> None:
    """A repair after the restore would bring back rows, or take them away."""
    store = build().store
    with pytest.raises(SafetyError, match="3 files instead of 7") as caught:
        restore(store, target, **options)
    assert "checkpoint TABLE --repair" in str(caught.value.hint)
    assert latest(store) == 9
    assert Table("x", store=store).repair_checkpoints().all_repaired
    restore(store, target)
    assert ids(store) == list(range(1, target + 1))
    assert Table("x", store=store).repair_checkpoints().findings == ()


@pytest.mark.parametrize("target", [7, 8])
def test_a_version_after_it_is_restored(target: int) -> None:
    """Both versions have the same error: a repair corrects it in both."""
    store = build().store
    restore(store, target)
    assert ids(store) == [1, 2, 3, *([8] if target == 8 else [])]
    Table("x", store=store).repair_checkpoints()
    assert ids(store) == list(range(1, target + 1))


@pytest.mark.parametrize("is_missing", [True, False])
def test_nothing_is_compared_without_a_commit_between(is_missing: bool) -> None:
    store = build().store
    if is_missing:
        store.delete_many([commit_path(5)])
    else:
        store.put(commit_path(5), b"\0" * 100)
    restore(store, 4)
    assert ids(store) == [1, 2, 3, 4]


def test_a_commit_may_be_wrong_instead() -> None:
    """The checkpoint is right, and readers use it: the commit lost its add."""
    builder = memory_table()
    for number in range(1, 7):
        builder.append([{"id": number}])
    builder.checkpoint(5)
    builder.hint(5)
    edit_commit(builder, 4, lambda it: None if "add" in it else it)
    warnings: list[str] = []
    restore(builder.store, 3, warnings)
    assert ids(builder.store) == [1, 2, 3]
    name = f"{LOG}/{5:020d}.checkpoint.parquet"
    assert f"{name} disagrees with the commits since version 3: 5 files instead of 4" in str(
        warnings
    )
    assert DeltaLog(builder.store, fail).snapshot().num_files == 3
