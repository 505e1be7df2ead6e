"""A clock that is ahead deletes nothing: neither history, nor files, nor tombstones."""

import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from deltactl.errors import SafetyError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.run import clone_table
from deltactl.operations.clone_notes import CloneNote, write_note
from deltactl.operations.maintain.observe import observe_table
from deltactl.operations.maintain.options import MaintainOptions
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.maintain.run import maintain_tables
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import ask_store, trusted_now
from deltactl.operations.vacuum import kept_files
from deltactl.operations.vacuum.candidates import WAITING
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import open_store
from deltactl.storage.store import FileInfo
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.run import run_on
from tests.support.stores import CountingStore, MemoryStore, fresh_store, opened_as
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path

HOUR = 3_600_000
DAY = 24 * HOUR
AHEAD = 40 * DAY


class WrongDisk(ForwardingStore):
    """A disk of a machine whose clock is ahead: it dates what it writes by this clock."""

    def __init__(self, root: Path) -> None:
        super().__init__(LocalStore(str(root)))
        self.root, self.ahead_ms = root, AHEAD

    def put(self, name: str, data: bytes) -> None:
        super().put(name, data)
        self._date(name)

    def put_if_absent(self, name: str, data: bytes) -> None:
        super().put_if_absent(name, data)
        self._date(name)

    def _date(self, name: str) -> None:
        os.utime(self.root / name, ((time.time() * 1000 + self.ahead_ms) / 1000,) * 2)


class Machine:
    """A table on a disk, and a clock that is ahead of the true time, which files were dated by."""

    def __init__(self, folder: Path, **properties: str) -> None:
        self.root = folder / "t"
        self.disk = WrongDisk(self.root)
        now_ms = int(time.time() * 1000)
        self.clock = FixedClock(now_ms + AHEAD)
        options = {f"delta.{name}": value for name, value in properties.items()}
        self.builder = TableBuilder(self.root, [Column("id")], properties=options)
        self.builder._now_ms = now_ms
        self.said: list[str] = []

    def context(self, run_id: str | None = "a run") -> RunContext:
        return RunContext(
            warn=self.said.append, clock=self.clock, run_id=run_id, sleep=lambda seconds: None
        )

    def append(self, count: int) -> list[str]:
        paths = []
        for number in range(count):
            paths += self.builder.append([{"id": number}])
        return paths

    def age(self, version: int, days: float) -> None:
        when = time.time() - days * DAY / 1000
        os.utime(self.root / commit_path(version), (when, when))

    @contextmanager
    def running(self) -> Iterator[WrongDisk]:
        with opened_as(self.disk):
            yield self.disk

    def optimize(self, run_id: str) -> tuple[int, ...]:
        with self.running() as disk:
            return optimize_table(
                DeltaLog(disk, ignore_warning), OptimizeOptions(), self.context(run_id)
            ).versions

    def commits(self) -> list[int]:
        return sorted(int(path.stem) for path in (self.root / LOG).glob("*.json"))

    def tombstones(self) -> set[str]:
        path = max((self.root / LOG).glob("*.checkpoint.parquet"))
        removes = pq.read_table(path, columns=["remove"])["remove"].to_pylist()
        return {remove["path"] for remove in removes if remove}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Ten commits of the last twenty days; a checkpoint after each of ours."""
    machine = Machine(tmp_path, checkpointInterval="1")
    machine.append(9)
    machine.builder.checkpoint(8)
    for version in range(10):
        machine.age(version, 20 - 2 * version)
    return machine


def test_an_optimize_keeps_the_history_and_the_tombstones(machine: Machine) -> None:
    paths = [path for path, _ in machine.builder.state.files]
    assert machine.optimize("one") == (10,)
    assert machine.commits() == list(range(11))
    assert machine.tombstones() == set(paths)
    store = LocalStore(str(machine.root))
    assert DeltaLog(store, pytest.fail).snapshot(3).num_files == 3


def test_delta_rs_keeps_files_that_were_removed_just_now(machine: Machine) -> None:
    from deltalake import DeltaTable

    removed = {path for path, _ in machine.builder.state.files}
    machine.optimize("one")
    (machine.root / commit_path(10)).unlink()  # only the checkpoint has the tombstones
    deleted = DeltaTable(str(machine.root)).vacuum(dry_run=False, full=True)
    assert not deleted
    assert removed <= {path.name for path in machine.root.iterdir()}


Command = Callable[[Machine, WrongDisk], object]
COMMANDS: dict[str, Command] = {
    "optimize": lambda it, disk: optimize_table(
        DeltaLog(disk, ignore_warning), OptimizeOptions(), it.context("two")
    ),
    "checkpoint --cleanup": lambda it, disk: checkpoint_table(
        DeltaLog(disk, ignore_warning), CheckpointOptions(cleanup=True), it.context("two")
    ),
    "checkpoint --cleanup-only": lambda it, disk: checkpoint_table(
        DeltaLog(disk, ignore_warning), CheckpointOptions(cleanup_only=True), it.context("two")
    ),
    "vacuum": lambda it, disk: vacuum_table(
        DeltaLog(disk, ignore_warning), VacuumOptions(), it.context("two")
    ),
    "full vacuum": lambda it, disk: vacuum_table(
        DeltaLog(disk, ignore_warning), VacuumOptions(mode="full"), it.context("two")
    ),
    "maintain": lambda it, disk: maintain_tables(
        [disk.uri], lambda _: MaintainPolicy(), MaintainOptions(lease=False), it.context(None)
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_after_ours_in_the_same_script_deletes_nothing_either(
    machine: Machine, name: str
) -> None:
    """Our own commit has the date of the wrong clock: it proves nothing."""
    machine.optimize("one")
    before = {path for path in machine.root.rglob("*") if "_deltactl" not in path.parts}
    machine.clock.advance(HOUR // 2)
    with machine.running() as disk:
        COMMANDS[name](machine, disk)
    assert before <= set(machine.root.rglob("*"))


def test_the_history_goes_if_commits_show_that_time_has_passed(machine: Machine) -> None:
    """The same times, and a commit of another writer half a day ago."""
    machine.append(1)
    machine.age(10, -39.5)
    assert machine.optimize("one") == (11,)
    assert machine.commits()[0] == 8, "the checkpoint from which version 9 is rebuilt"
    assert machine.tombstones() >= {path for path, _ in machine.builder.state.files}


def test_a_run_of_hours_proves_nothing_with_its_own_commits(machine: Machine) -> None:
    machine.optimize("long")
    machine.age(10, -39.8)
    snapshot = DeltaLog(LocalStore(str(machine.root)), pytest.fail).snapshot()
    newest_ms = (machine.root / commit_path(9)).stat().st_mtime_ns // 1_000_000
    log = DeltaLog(snapshot.store, pytest.fail)
    assert trusted_now(log, snapshot, machine.context("long")) == newest_ms + DAY
    own_ms = (machine.root / commit_path(10)).stat().st_mtime_ns // 1_000_000
    assert trusted_now(log, snapshot, machine.context("later")) == own_ms


@pytest.mark.parametrize("asks_store", [False, True])
def test_a_file_server_dates_its_files(machine: Machine, asks_store: bool) -> None:
    """The clock of this machine is ahead by less than a day."""
    machine.age(9, 0.1 if asks_store else 0)
    machine.clock = FixedClock(machine.clock.now_ms() - AHEAD + DAY // 2)
    log = DeltaLog(LocalStore(str(machine.root)), pytest.fail)
    now_ms = trusted_now(log, log.snapshot(), machine.context(), asks_store=asks_store)
    assert abs(now_ms - time.time() * 1000) < DAY // 4


def test_a_cleanup_by_hand_asks(machine: Machine) -> None:
    asked: list[str] = []

    def refuse(question: str) -> bool:
        asked.append(question)
        return False

    options = CheckpointOptions(cleanup=True)
    before = sorted(machine.root.rglob("*"))
    with machine.running() as disk, pytest.raises(SafetyError, match="not confirmed"):
        checkpoint_table(DeltaLog(disk, ignore_warning), options, machine.context(), confirm=refuse)
    assert sorted(machine.root.rglob("*")) == before
    assert asked[0].startswith("This machine's clock says ")
    assert asked[0].endswith("Delete 10 log files?")
    with machine.running() as disk:
        checkpoint_table(
            DeltaLog(disk, ignore_warning),
            options,
            machine.context(),
            confirm=lambda question: True,
        )
    assert machine.commits() == [9]


def test_a_cleanup_by_hand_does_not_ask_if_the_clock_changes_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.append(3)
    machine.builder.checkpoint(2)
    for version in range(3):
        machine.age(version, 60 - version)
    with machine.running() as disk:
        checkpoint_table(
            DeltaLog(disk, ignore_warning),
            CheckpointOptions(cleanup_only=True),
            machine.context(),
            confirm=lambda question: pytest.fail(question),
        )
    assert machine.commits() == [2, 3]


def test_a_vacuum_of_a_table_without_new_commits_needs_force(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (path, _) = machine.append(2)
    machine.builder.remove(path)
    clone = DeltaLog(LocalStore(str(tmp_path / "clone")), ignore_warning)
    with machine.running() as disk:
        source = DeltaLog(disk, ignore_warning)
        clone_table(source, clone, CloneOptions(deep=False), machine.context())
    opens = patch.object(kept_files, "open_store", wraps=open_store)
    with machine.running() as disk, opens as opened:
        Path(disk.uri.removeprefix("file://"), "empty").mkdir()
        counting = CountingStore(disk)
        report = vacuum_table(
            DeltaLog(counting, ignore_warning), VacuumOptions(mode="full"), machine.context()
        )
        assert report.files_removed == 0
        assert [counting.calls[it] for it in ("walk_tree", "old_directories")] == [1, 1]
        opened.assert_called_once()  # the log of the clone
        assert report.plan.retention.rule.endswith("add force_retention=True to remove more")
        assert report.to_dict()["kept"] == {WAITING: 1}
        options = VacuumOptions(mode="full", force_retention=True, max_orphan_fraction=1)
        assert (
            vacuum_table(DeltaLog(disk, ignore_warning), options, machine.context()).files_removed
            == 1
        )


KEPT = (
    "1 file is kept: only this machine's clock shows that the retention has passed. If it is "
    "right, run vacuum with force_retention=True"
)


def vacuum_idle(machine: Machine, **options: Any) -> int:
    """Vacuum by a clock that is ahead; return how many files wait."""
    machine.said.clear()
    with machine.running() as disk:
        log = DeltaLog(disk, machine.said.append)
        report = vacuum_table(log, VacuumOptions(**options), machine.context())
    return report.plan.kept.get(WAITING, 0)


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_a_vacuum_warns_of_files_that_wait_for_a_commit(tmp_path: Path, mode: str) -> None:
    machine = Machine(tmp_path)
    path, _ = machine.append(2)
    machine.builder.remove(path)
    for _ in range(2):  # the second `auto` reads only the log
        assert vacuum_idle(machine, mode=mode) == 1
        assert machine.said == [KEPT]
    assert vacuum_idle(machine, mode=mode, keep_last=2) == 0
    assert not machine.said
    (machine.root / path).unlink()
    assert vacuum_idle(machine, mode=mode) == 0
    assert not machine.said


def test_a_live_file_with_a_new_deletion_vector_does_not_wait(tmp_path: Path) -> None:
    machine = Machine(tmp_path, enableDeletionVectors="true")
    (path,) = machine.builder.append([{"id": 1}, {"id": 2}, {"id": 3}])
    machine.builder.delete_rows(path, [0])
    assert vacuum_idle(machine) == 0
    assert not machine.said
    machine.builder.delete_rows(path, [0, 1])
    assert vacuum_idle(machine) == 1, "the first deletion vector"
    assert machine.said == [KEPT]


def test_a_vacuum_warns_only_if_the_next_commit_is_late(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    now_ms = machine.builder._now_ms
    path, _ = machine.append(2)
    os.utime(machine.root / path, ((now_ms - 6 * DAY) / 1000,) * 2)
    machine.builder._now_ms = now_ms - 5 * DAY
    machine.builder.remove(path)
    for version, days in enumerate([8, 7, 6, 5]):
        machine.age(version, days)
    machine.builder._now_ms = now_ms
    machine.append(1)
    for days, said in ((3, []), (8, [KEPT])):
        machine.clock = FixedClock(now_ms + days * DAY)
        assert vacuum_idle(machine) == 1
        assert machine.said == said


def test_a_vacuum_that_removes_files_warns_of_no_others(tmp_path: Path) -> None:
    """Its commits prove the time for the next one."""
    machine = Machine(tmp_path)
    now_ms = machine.builder._now_ms
    old, new, _ = machine.append(3)
    os.utime(machine.root / old, ((now_ms - 30 * DAY) / 1000,) * 2)
    machine.builder._now_ms = now_ms - 20 * DAY
    machine.builder.remove(old)
    for version, days in enumerate([31, 30, 29, 28, 20]):
        machine.age(version, days)
    machine.builder._now_ms = now_ms
    machine.builder.remove(new)
    assert vacuum_idle(machine) == 1
    assert not machine.said
    assert not (machine.root / old).exists()


def test_a_clone_that_cannot_be_read_hides_no_file_that_waits(tmp_path: Path) -> None:
    """A plan from the log alone, without files, does not read the clone."""
    machine = Machine(tmp_path)
    path, _ = machine.append(2)
    machine.builder.remove(path)
    write_note(machine.builder.store, CloneNote(str(tmp_path / "gone"), 1, 0, "an-id"))
    assert vacuum_idle(machine, mode="lite") == 1
    assert machine.said == [KEPT]


def test_maintain_says_what_waits_for_a_commit(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    paths = machine.append(2)
    machine.builder.remove(*paths)
    machine.builder.checkpoint(2)
    for version in range(4):  # else, two may have the same millisecond
        machine.age(version, (4 - version) / 1000)
    for list_files in ("always", "auto"):  # `auto` does not list: no file is past the retention
        machine.said.clear()
        policy = MaintainPolicy(list_files=list_files)
        with machine.running() as disk:
            facts = observe_table(
                "t", DeltaLog(disk, machine.said.append), policy, machine.context()
            ).facts
        is_planned = list_files == "always"
        assert facts.reclaimable_files == (0 if is_planned else None)
        assert facts.waiting_files == 2
        assert machine.said == [KEPT.replace("1 file is", "2 files are")]
    assert (facts.expired_log_files, facts.waiting_log_files) == (0, 2)


def test_maintain_names_no_command_for_commits_that_no_cleanup_deletes(tmp_path: Path) -> None:
    """All have one time, so that of the checkpoint depends on the commits before it."""
    machine = Machine(tmp_path)
    machine.append(3)
    machine.builder.checkpoint(2)
    for version in range(4):
        os.utime(machine.root / commit_path(version), (1e9, 1e9))
    with machine.running() as disk:
        log = DeltaLog(disk, machine.said.append)
        facts = observe_table("t", log, MaintainPolicy(), machine.context()).facts
    assert facts.waiting_log_files == 0


def object_table() -> tuple[TableBuilder, MemoryStore]:
    """Commits of now, by the clock of the store; this machine is ahead of it."""
    store = MemoryStore(f"memory://trusted/{time.monotonic_ns()}")
    builder = TableBuilder(store, [Column("id")], properties={"delta.checkpointInterval": "1"})
    paths = builder.append([{"id": 1}], [{"id": 2}])
    builder._now_ms = store.stat_many([commit_path(1)])[0].modified_ms  # type: ignore[union-attr]
    builder.remove(paths[0])
    builder.checkpoint(1)
    return builder, store


def removes_of(store: MemoryStore, version: int) -> list[Any]:
    data = store.read(f"{LOG}/{version:020d}.checkpoint.parquet")
    found = pq.read_table(io.BytesIO(data), columns=["remove"])["remove"].to_pylist()
    return [remove for remove in found if remove]


@pytest.mark.parametrize(
    "options", [CheckpointOptions(cleanup=True), CheckpointOptions(cleanup_only=True)]
)
def test_the_time_of_an_object_store_decides(options: CheckpointOptions) -> None:
    builder, store = object_table()
    clock = FixedClock(builder._now_ms + AHEAD)
    before = set(store.contents())
    checkpoint_table(
        DeltaLog(store, ignore_warning),
        options,
        RunContext(warn=pytest.fail, clock=clock),
        confirm=lambda question: pytest.fail(question),
    )
    assert before <= set(store.contents())
    if options.cleanup:
        assert len(removes_of(store, 2)) == 1
    store.advance(AHEAD)
    run_on(
        store, checkpoint_table, CheckpointOptions(cleanup_only=True), warn=pytest.fail, clock=clock
    )
    assert commit_path(0) not in store.contents()


def test_the_time_of_an_object_store_costs_no_request_after_a_commit() -> None:
    builder, store = object_table()
    builder.append([{"id": 3}])
    counting = CountingStore(store)
    log = DeltaLog(counting, pytest.fail)
    log.ensure_exists()
    snapshot = log.snapshot()
    [commit] = store.stat_many([commit_path(3)])
    assert commit is not None
    context = RunContext(warn=pytest.fail, clock=FixedClock(commit.modified_ms + 60_000))
    counting.calls.clear()
    assert trusted_now(log, snapshot, context, asks_store=True) == commit.modified_ms
    assert not counting.calls


def test_two_runs_that_ask_the_store_at_once_both_get_an_answer() -> None:
    class BesideAnother(ForwardingStore):
        asked = False

        def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
            if not self.asked:
                self.asked = True
                ask_store(self._inner)
            return super().stat_many(names)

    assert ask_store(BesideAnother(fresh_store())) > 0
