"""The newest commits were lost, but other files of the log still name their version."""

from collections.abc import Callable
from typing import Any

import pytest

from deltactl import Table
from deltactl.engine.local import LocalEngine
from deltactl.errors import LogGapError, UnsupportedFeatureError
from deltactl.log.hint import HINT_NAME
from deltactl.operations.history.run import commit_files, version_at
from deltactl.operations.maintain.observe import observe_table
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.run_context import RunContext
from tests.support.forwarding import Call, ForwardingStore
from tests.support.stores import CountingStore, MemoryStore, fresh_store
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path

Command = Callable[[Table], object]

COMMANDS: dict[str, Command] = {
    "optimize": lambda table: table.optimize(),
    "vacuum": lambda table: table.vacuum(),
    "vacuum --dry-run": lambda table: table.vacuum(dry_run=True),
    "vacuum --purge-quarantine": lambda table: table.purge_quarantine(),
    "checkpoint": lambda table: table.checkpoint(),
    "checkpoint --cleanup-only": lambda table: table.checkpoint(cleanup_only=True),
    "checkpoint --repair": lambda table: table.repair_checkpoints(),
    "clone": lambda table: table.clone(fresh_store().uri, deep=True),
    "maintain": lambda table: observe_table(
        "t",
        table._log_for(dry_run=True),
        MaintainPolicy(),
        RunContext(warn=pytest.fail, engine=LocalEngine()),
    ),
    "restore": lambda table: table.restore(version=0),
    "alter": lambda table: table.alter(unset=("delta.appendOnly",)),
    "check --fix stats": lambda table: table.fix(kind="stats"),
    "generate-manifest": lambda table: table.generate_manifest(),
}

VIEWS: dict[str, Command] = {
    "history": lambda table: table.history(),
    "--restorable": lambda table: table.restorable(),
    "--blame": lambda table: table.blame("id=1"),
    "--diff": lambda table: table.diff(0),
    "--at": lambda table: version_at(table._log_for(dry_run=True), 2**45),
    "--version --files": lambda table: commit_files(table._log_for(dry_run=True), 1),
    "detail": lambda table: table.detail(),
    "detail of a version": lambda table: table.detail(0),
}


@pytest.fixture
def store() -> MemoryStore:
    """Version 3, with a checkpoint and its hint."""
    made = fresh_store()
    builder = TableBuilder(made, [Column("id")])
    for number in range(3):
        builder.append([{"id": number}])
    builder.checkpoint()
    builder.hint(3)
    return made


CHECKSUM = f"{LOG}/{3:020}.crc"
COMPACTED = f"{LOG}/{1:020}.{3:020}.compacted.json"
LEFT = [HINT_NAME, CHECKSUM, COMPACTED]


def lose_newest(store: MemoryStore, left: str = HINT_NAME) -> None:
    """Delete the commits 2 and 3, and the checkpoint; only one file still names version 3."""
    checkpoints = [info.name for info in store.list_from(LOG) if ".checkpoint" in info.name]
    store.delete_many([commit_path(2), commit_path(3), *checkpoints])
    if left != HINT_NAME:
        store.delete_many([HINT_NAME])
        store.put(left, b"{}")


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_writes_refuses(store: MemoryStore, command: str, left: str) -> None:
    lose_newest(store, left)
    before = store.contents()
    with pytest.raises(LogGapError, match="newest commit is 1.* version 3: commits 2 to 3") as lost:
        COMMANDS[command](Table("x", store=store, warn=pytest.fail))
    assert "--fix last-checkpoint" in str(lost.value.hint)
    assert store.contents() == before


@pytest.mark.parametrize("left", [CHECKSUM, COMPACTED])
def test_a_listing_from_a_checkpoint_shows_lost_commits(left: str) -> None:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")])
    builder.append([{"id": 1}])
    builder.checkpoint()
    builder.hint(1)
    store.put(left, b"{}")
    with pytest.raises(LogGapError, match="commits 2 to 3 are missing"):
        Table("x", store=store, warn=pytest.fail).optimize()


@pytest.mark.parametrize("left", LEFT)
def test_a_reader_warns_and_check_has_a_finding(store: MemoryStore, left: str) -> None:
    lose_newest(store, left)
    warnings: list[str] = []
    table = Table("x", store=store, warn=warnings.append)
    assert table.snapshot().version == 1
    assert table.optimize(dry_run=True).plan.version == 1
    assert table.detail().version == 1
    assert table.history().num_rows == 2
    assert ["commits 2 to 3 are missing" in text for text in warnings] == [True] * 4
    (finding,) = table.check().findings.to_pylist()
    assert (finding["code"], finding["version"]) == ("LOG_GAP", 2)
    assert f"check {store.uri} --fix last-checkpoint" in finding["repair"]
    # The other files are written after a commit, so they prove that it existed.
    assert ("If there never were such commits" in finding["repair"]) == (left == HINT_NAME)


@pytest.mark.parametrize("commits", [0, 2])
def test_a_checkpoint_that_a_writer_makes_during_a_check_is_no_finding(commits: int) -> None:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")])
    builder.append([{"id": 1}])

    class Overtaken(ForwardingStore):
        def read(self, name: str) -> bytes:
            if name == HINT_NAME and HINT_NAME not in store.contents():
                for _ in range(commits):
                    builder.append([{"id": 2}])
                builder.checkpoint()
                builder.hint(builder.version)
            return super().read(name)

    assert Table("x", store=Overtaken(store)).check().findings.to_pylist() == []


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("command", ["optimize", "vacuum"])
def test_after_the_fix_the_table_goes_on(store: MemoryStore, command: str, left: str) -> None:
    lose_newest(store, left)
    table = Table("x", store=store, warn=pytest.fail)
    table.fix(kind="last-checkpoint")
    assert left not in store.contents()
    COMMANDS[command](table)
    assert table.check().findings.num_rows == 0


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_warns_once_for_one_read(view: str) -> None:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")], partition_by=["id"])
    builder.append([{"id": 1}])
    builder.hint(3)
    counted, warnings = CountingStore(store), list[str]()
    VIEWS[view](Table("x", store=counted, warn=warnings.append))
    assert ["commits 2 to 3 are missing" in text for text in warnings] == [True]
    assert counted.names["read"].count(HINT_NAME) == 1
    store.delete_many([HINT_NAME])
    counted = CountingStore(store)
    VIEWS[view](Table("x", store=counted, warn=pytest.fail))
    assert HINT_NAME not in counted.names.get("read", []), "the listing shows that there is none"


class Late(CountingStore):
    """The first listing of the log is older than the newest commit and its checkpoint."""

    def _intercept(self, call: Call) -> Any:
        found = super()._intercept(call)
        is_first = call.method == "list_from" and self.calls["list_from"] == 1
        hidden = {commit_path(3), commit_path(3).replace("json", "checkpoint.parquet")}
        return (i for i in found if i.name not in hidden) if is_first else found


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("command", ["check", "optimize", "vacuum"])
def test_a_commit_written_after_the_listing_is_not_lost(
    store: MemoryStore, command: str, left: str
) -> None:
    if left != HINT_NAME:
        store.delete_many([HINT_NAME])
        store.put(left, b"{}")
    table = Table("x", store=Late(store), warn=pytest.fail)
    if command == "check":
        assert "LOG_GAP" not in table.check().findings["code"].to_pylist()
    else:
        COMMANDS[command](table)


def test_a_commit_that_a_coordinator_knows_is_not_lost() -> None:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")], features=["coordinatedCommits-preview"])
    builder.append([{"id": 1}])
    store.put(CHECKSUM, b"{}")
    table = Table("x", store=store, warn=pytest.fail)
    assert table.snapshot().version == 1
    assert table.check().is_sound
    with pytest.raises(UnsupportedFeatureError, match="coordinatedCommits"):
        table.optimize()


@pytest.mark.parametrize(("hint", "reads"), [(1, 1), (3, 1), (None, 0)])
def test_a_hint_of_an_existing_version_costs_one_read(
    store: MemoryStore, hint: int | None, reads: int
) -> None:
    counted = CountingStore(store)
    store.delete_many([HINT_NAME])
    if hint is not None:
        store.put(HINT_NAME, b'{"version":%d,"size":1}' % hint)
    Table("x", store=counted, warn=pytest.fail).vacuum(dry_run=True)
    listings = counted.names["list_from"].count(LOG)
    assert (counted.names["read"].count(HINT_NAME), listings) == (reads, 1)
