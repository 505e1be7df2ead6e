"""A log compaction file differs from its commits: no version is rebuilt from it."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deltactl import Table
from deltactl.errors import ignore_warning
from deltactl.storage.store import Store
from tests.support.stores import fresh_store
from tests.support.table_builder import LOG, Action, Column, TableBuilder, multiset

Commits = list[list[Action]]

LAST = 7
NAME = f"{LOG}/{2:020d}.{6:020d}.compacted.json"

# From commits 0 to 7 to those of a history of which the compaction file has 2 to 6.
HISTORIES: dict[str, Callable[[Commits], Sequence[list[Action]]]] = {
    "an add is missing": lambda commits: [*commits[:6], [], commits[7]],
    "a remove is missing": lambda commits: [*commits[:5], [], *commits[6:]],
    "other commits": lambda commits: [*commits[:2], [_remove(commits[1])], *commits[2:]],
}
COMMANDS: dict[str, tuple[Callable[[Table], object], int]] = {
    "restore": (lambda table: table.restore(version=1), 1),
    "checkpoint": (lambda table: table.checkpoint(), LAST),
    "optimize": (lambda table: table.optimize(), LAST),
    "vacuum": (lambda table: table.vacuum(retain="0s", force_retention=True), LAST),
}


def _remove(commit: list[Action]) -> Action:
    (path,) = (action["add"]["path"] for action in commit if "add" in action)
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1}}


@pytest.fixture
def builder(tmp_path: Path) -> TableBuilder:
    """Each commit adds a file with a row, but commit 5 removes the file of commit 3."""
    made = TableBuilder(tmp_path, [Column("id")])
    paths = [path for number in range(1, 5) for path in made.append([{"id": number}])]
    made.remove(paths[2])
    for number in (6, LAST):
        made.append([{"id": number}])
    return made


def write_wrong(builder: TableBuilder, history: str) -> None:
    other = copy.copy(builder)
    other.commits = [*HISTORIES[history](builder.commits)]
    other.compact(2, 6)


def rows_without(store: Store) -> object:
    """The rows for readers that use only commits and checkpoints."""
    store.delete_many([NAME])
    return multiset(Table("x", store=store, warn=pytest.fail).scan().read_all().to_pylist())


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("version", [6, LAST])
def test_a_scan_reads_the_commits(builder: TableBuilder, history: str, version: int) -> None:
    write_wrong(builder, history)
    table = Table("x", store=builder.store, warn=pytest.fail)
    assert multiset(table.scan(version).read_all().to_pylist()) == multiset(builder.rows(version))


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_keeps_the_rows(builder: TableBuilder, history: str, command: str) -> None:
    write_wrong(builder, history)
    run, version = COMMANDS[command]
    run(Table("x", store=builder.store, warn=ignore_warning))
    assert rows_without(builder.store) == multiset(builder.rows(version))


@pytest.mark.parametrize("history", HISTORIES)
def test_a_restore_returns_the_rows(builder: TableBuilder, history: str) -> None:
    write_wrong(builder, history)
    builder.remove(*(path for path, _ in builder.state.files))
    Table("x", store=builder.store, warn=pytest.fail).restore(version=LAST)
    assert rows_without(builder.store) == multiset(builder.rows(LAST))


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("sync", [False, True])
def test_a_clone_has_the_rows(builder: TableBuilder, history: str, sync: bool) -> None:
    store = fresh_store()
    source, target = Table("x", store=builder.store), Table("y", store=store)
    if sync:
        source.clone(target, deep=True, sync=True)
    write_wrong(builder, history)
    builder.append([{"id": 8}])
    source.clone(target, deep=True, sync=sync)
    assert rows_without(store) == multiset(builder.rows())
