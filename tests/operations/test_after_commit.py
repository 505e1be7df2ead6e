"""Commits of ours are followed by a checkpoint when the table's interval says so."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import AccessDeniedError, StorageError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.listing import list_log
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.after_commit import run_after_commit
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.run import restore_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.storage.store import FileInfo, Replacement, Store
from tests.support.checkpoints import DAY_MS, NOW_MS, log_names, memory_of, new_table
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.run import run_on
from tests.support.stores import Fault, FaultyStore
from tests.support.table_builder import (
    LOG,
    START_MS,
    Column,
    TableBuilder,
    commit_path,
    encode_lines,
)


def table(num_commits: int, **properties: str) -> TableBuilder:
    """So many commits with a small file each; the next one, an optimize, is that version."""
    options = {f"delta.{name}": value for name, value in properties.items()}
    builder = new_table(properties=options)
    for number in range(1, num_commits):
        builder.append([{"id": number, "p": None}])
    return builder


def optimize(store: Store, said: list[str] | None = None) -> OptimizeReport:
    warn = pytest.fail if said is None else said.append
    engine, clock = LocalEngine(workers=1), FixedClock(NOW_MS)
    return run_on(store, optimize_table, OptimizeOptions(), warn=warn, engine=engine, clock=clock)


def checkpoint_versions(store: Store) -> list[int]:
    return [checkpoint.version for checkpoint in list_log(store).checkpoints]


def test_a_vacuum_at_the_interval_is_checkpointed() -> None:
    """Its commits are a START and an END."""
    builder = table(2, checkpointInterval="4")
    (path,) = builder.append([{"id": 9, "p": None}])
    long_ago = START_MS - 60 * DAY_MS
    remove = builder.remove_action(path)
    remove["remove"]["deletionTimestamp"] = long_ago
    builder.commit(remove)
    for name in memory_of(builder).contents():
        memory_of(builder).set_modified(name, long_ago)
    confirmed = partial(vacuum_table, confirm=lambda plan: True)
    clock = FixedClock(START_MS)
    report = run_on(builder.store, confirmed, VacuumOptions(), warn=pytest.fail, clock=clock)
    assert report.versions
    assert report.versions[-1] >= 4
    assert checkpoint_versions(builder.store) == [report.versions[-1]]
    assert DeltaLog(builder.store, pytest.fail).snapshot().num_files == 1


@pytest.mark.parametrize(("commits", "interval"), [(3, "4"), (5, "10"), (9, "x")])
def test_a_commit_between_intervals_writes_no_checkpoint(commits: int, interval: str) -> None:
    builder = table(commits, checkpointInterval=interval)
    said: list[str] = []
    optimize(builder.store, said)
    assert checkpoint_versions(builder.store) == []
    assert [text.partition(":")[0] for text in said] == (
        ["the table property delta.checkpointInterval is ignored"] if interval == "x" else []
    )


def test_a_checkpoint_that_was_missed_is_caught_up_with() -> None:
    builder = table(13)
    optimize(builder.store)
    assert checkpoint_versions(builder.store) == [13]


def test_what_is_dry_or_empty_is_not_followed() -> None:
    builder = table(2, checkpointInterval="1")
    optimize(builder.store)
    assert checkpoint_versions(builder.store) == []


@pytest.mark.parametrize(("flag", "kept"), [("true", False), ("false", True)])
def test_cleanup_follows_the_property(flag: str, kept: bool) -> None:
    builder = table(6, checkpointInterval="6", enableExpiredLogCleanup=flag)
    builder.checkpoint(3)
    _aged(builder)
    optimize(builder.store)
    assert checkpoint_versions(builder.store) == [3, 6]
    oldest = min(log_names(builder.store))
    assert oldest == (f"{0:020d}.json" if kept else f"{3:020d}.checkpoint.parquet")


def test_a_failure_is_a_warning_and_the_commit_stands() -> None:
    builder = table(4, checkpointInterval="4")
    calls = FaultyStore(builder.store)
    optimize(calls)
    follow = next(
        at for at, (method, name) in enumerate(calls.calls, 1)
        if method == "open_replacement" and "checkpoint" in name
    )  # fmt: skip
    builder = table(4, checkpointInterval="4")
    said: list[str] = []
    faulty = FaultyStore(builder.store, Fault(follow, "error"))
    report = optimize(faulty, said)
    assert report.versions == (4,)
    assert "version 4 is committed" in said[0]
    assert checkpoint_versions(builder.store) == []
    assert DeltaLog(builder.store, pytest.fail).snapshot().version == 4


def test_a_hint_that_cannot_be_replaced_is_named() -> None:
    class Protected(ForwardingStore):
        def put(self, name: str, data: bytes) -> None:
            if name == f"{LOG}/_last_checkpoint":
                raise AccessDeniedError(f"cannot write {name!r}")
            super().put(name, data)

    builder, said = table(4, checkpointInterval="4"), list[str]()
    assert optimize(Protected(builder.store), said).versions == (4,)
    assert checkpoint_versions(builder.store) == [4]
    assert said == [
        f"version 4 is committed, but its checkpoint failed: cannot write '{LOG}/_last_checkpoint'"
    ]


class _KeepsLog(ForwardingStore):
    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        return {name: StorageError("denied") for name in names}


def test_a_refused_cleanup_is_one_warning() -> None:
    builder = table(6, checkpointInterval="6")
    builder.checkpoint(3)
    _aged(builder)
    said: list[str] = []
    assert optimize(_KeepsLog(builder.store), said).versions == (6,)
    (warning,) = said
    names = f"{LOG}/{0:020d}.json"
    assert warning == f"3 expired log files could not be deleted, such as {names}: denied"


def test_protection_stops_the_cleanup_and_not_the_checkpoint() -> None:
    builder = table(2)
    builder.change_metadata(
        protocol=TableBuilder.protocol_action(["checkpointProtection"]),
        properties={
            "delta.checkpointInterval": "5",
            "delta.requireCheckpointProtectionBeforeVersion": "100",
        },
    )
    unknown: dict[str, Any] = TableBuilder.protocol_action(["checkpointProtection", "notYet"])
    builder.commit(unknown)
    builder.commit(TableBuilder.protocol_action(["checkpointProtection"]))
    builder.append([{"id": 8, "p": None}])
    builder.checkpoint(1)
    builder.checkpoint(4)
    before = DeltaLog(builder.store, pytest.fail).snapshot()
    _aged(builder)
    said: list[str] = []
    found = run_after_commit(
        DeltaLog(before.store, ignore_warning),
        before,
        CommitBase.of(before),
        RunContext(
            warn=said.append, engine=LocalEngine(), clock=FixedClock(NOW_MS), storage_options={}
        ),
    )
    assert found == 5
    assert any("was not cleaned up" in text for text in said)
    assert f"{LOG}/{0:020d}.json" in memory_of(builder).contents()


def _aged(builder: TableBuilder) -> None:
    for version in range(builder.version + 1):
        memory_of(builder).set_modified(commit_path(version), NOW_MS - (90 - version) * DAY_MS)


class _Altered(ForwardingStore):
    """Another writer changes properties at a call: the name of what the product does then."""

    def __init__(self, builder: TableBuilder, call: str, **properties: str) -> None:
        super().__init__(builder.store)
        self._builder, self._call = builder, call
        self._properties = {f"delta.{name}": value for name, value in properties.items()}

    def _alter(self, call: str) -> None:
        if call == self._call:
            self._call = ""
            version = (list_log(self._inner).latest_version or 0) + 1
            action = self._builder.metadata_action(properties=self._properties)
            self._inner.put_if_absent(commit_path(version), encode_lines([action]))

    def put_if_absent(self, name: str, data: bytes) -> None:
        self._alter("commit")
        super().put_if_absent(name, data)

    def open_replacement(self, name: str) -> Replacement:
        self._alter("checkpoint")
        return super().open_replacement(name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileInfo]:
        if directory == f"{LOG}/_staged_commits":  # the end of the first plan of a cleanup
            self._alter("cleanup")
        return super().list_from(directory, start)


@pytest.mark.parametrize("when", ["commit", "checkpoint", "cleanup"])
@pytest.mark.parametrize(
    "properties",
    [{"enableExpiredLogCleanup": "false"}, {"logRetentionDuration": "interval 365 days"}],
)
def test_a_writer_beside_us_turns_off_the_cleanup(when: str, properties: dict[str, str]) -> None:
    builder = table(6, checkpointInterval="6")
    builder.checkpoint(3)
    _aged(builder)
    store = _Altered(builder, when, checkpointInterval="6", **properties)
    optimize(store)
    assert len(checkpoint_versions(store)) == 2
    assert min(log_names(store)) == f"{0:020d}.json"


def test_a_writer_beside_us_changes_the_interval() -> None:
    builder = table(4, checkpointInterval="100")
    store = _Altered(builder, "commit", checkpointInterval="5")
    assert optimize(store).versions == (5,)
    assert checkpoint_versions(store) == [5]


def test_a_restore_is_not_followed_by_a_cleanup() -> None:
    """If it was the wrong version, the next restore may need another old one."""
    builder = table(6, checkpointInterval="6")
    builder.checkpoint(3)
    _aged(builder)
    run_on(builder.store, restore_table, RestoreOptions(version=2), clock=FixedClock(NOW_MS))
    assert checkpoint_versions(builder.store) == [3, 6]
    assert min(log_names(builder.store)) == f"{0:020d}.json"


@pytest.mark.parametrize(("kind", "written"), [("long", [4]), ("integer", [])])
def test_a_restore_to_another_type_is_checkpointed(kind: str, written: list[int]) -> None:
    """Readers would parse the later partition value with the earlier type."""
    builder = new_table(Column("id"), Column("p", "integer"), partition_by=["p"])
    builder.append([{"id": 1, "p": 1}])
    builder.change_metadata(columns=[Column("id"), Column("p", kind)])
    builder.append([{"id": 2, "p": 3_000_000_000 if kind == "long" else 2}])
    run_on(builder.store, restore_table, RestoreOptions(version=1), clock=FixedClock(NOW_MS))
    assert checkpoint_versions(builder.store) == written
