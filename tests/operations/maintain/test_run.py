"""What maintain does to tables: order, limits, hot partitions, failures, resuming, leases."""

import json
import os
import pickle
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import deltactl
from deltactl.engine.base import Engine, Progress
from deltactl.engine.local import LocalEngine
from deltactl.errors import (
    AccessDeniedError,
    ConflictError,
    LeaseHeldError,
    StorageError,
    UsageError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.clone_notes import CloneNote, mark_running, write_note
from deltactl.operations.leases import Holder, hold_lease, read_last_run
from deltactl.operations.maintain.options import Budget, MaintainOptions
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.maintain.report import MaintainReport, TableReport
from deltactl.operations.maintain.run import Maintenance, maintain_tables
from deltactl.operations.run_context import RunContext
from deltactl.operations.scan import scan_snapshot
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import open_store
from deltactl.units import DAY_MS
from tests.interop.judges import READERS, try_count
from tests.operations.optimize.layout.test_run import reopened
from tests.support.clock import FixedClock
from tests.support.metered_store import MeteredStore, StorageUsage
from tests.support.stores import MemoryStore
from tests.support.table_builder import START_MS, Column, TableBuilder, commit_path, multiset

HOUR_MS = 3_600_000
COLUMNS = (Column("id"), Column("part", "string"))
NOW_MS = START_MS + 30 * DAY_MS
QUICK = MaintainPolicy(skip_hot=timedelta(hours=1))


def build(
    root: Path,
    commits: int = 12,
    parts: str = "ab",
    properties: dict[str, str] | None = None,
    **options: Any,
) -> TableBuilder:
    """A table with a file in each partition for each commit."""
    builder = TableBuilder(root, COLUMNS, partition_by=["part"], properties=properties, **options)
    for number in range(commits):
        builder.append(*([{"id": number, "part": part}] for part in parts))
    return builder


def age(root: Path, before_ms: int = NOW_MS - 20 * DAY_MS) -> None:
    """Give all files a time, a second apart, in the order of their names."""
    for number, path in enumerate(sorted(root.rglob("*"), key=lambda it: it.name)):
        if path.is_file():
            os.utime(path, (before_ms / 1000 + number, before_ms / 1000 + number))


def run(
    *roots: Path,
    policy: MaintainPolicy | Callable[[str], MaintainPolicy] = QUICK,
    clock: FixedClock | None = None,
    dry_run: bool = False,
    engine: Engine | None = None,
    **options: Any,
) -> MaintainReport:
    context = RunContext(
        engine=engine or LocalEngine(), warn=lambda _: None, clock=clock or FixedClock(NOW_MS)
    )
    policy_of = policy if callable(policy) else lambda _: policy
    return maintain_tables(
        [str(root) for root in roots],
        policy_of,
        MaintainOptions(**options),
        context,
        dry_run=dry_run,
    )


def run_now(root: Path, policy: MaintainPolicy = QUICK, **options: Any) -> MaintainReport:
    """Run by the clock of this machine, with ids of its own."""
    context = RunContext(warn=lambda _: None)
    return maintain_tables([str(root)], lambda _: policy, MaintainOptions(**options), context)


def test_a_cleanup_that_was_turned_off_since_the_plan_is_left(tmp_path: Path) -> None:
    """All tables are planned first, so hours may lie between the plan and the deletion."""
    builder = build(tmp_path, commits=30)
    builder.checkpoint(20)
    age(tmp_path, NOW_MS - 60 * DAY_MS)
    newest = tmp_path / "_delta_log" / f"{builder.commit():020d}.json"
    os.utime(newest, (NOW_MS / 1000, NOW_MS / 1000))
    context = RunContext(warn=pytest.fail, clock=FixedClock(NOW_MS), engine=LocalEngine())
    run = Maintenance(MaintainOptions(), context.clock)
    log = DeltaLog(builder.store, pytest.fail)
    run.observe("t", log.read_only(), replace(QUICK, actions=["log-cleanup"]), context)
    run.decide(["t"])
    assert [action.name for action in run.decision.chosen] == ["log-cleanup"]
    builder.commit(builder.metadata_action(properties={"delta.enableExpiredLogCleanup": "false"}))
    report = run.act("t", log, context)
    assert [outcome.was_done for outcome in report.outcomes] == [True]
    assert log.unread().commit_files.keys() >= set(range(30))


def only(report: MaintainReport) -> TableReport:
    assert report.errors.keys() <= {report.tables[0].facts.table}, report.errors
    [table] = report.tables
    return table


def rows_of(root: Path) -> list[dict[str, Any]]:
    snapshot = DeltaLog(LocalStore(str(root)), lambda _: None).snapshot()
    found: list[dict[str, Any]] = scan_snapshot(snapshot).read_all().to_pylist()
    return found


def operations_of(root: Path) -> list[str]:
    found = []
    for path in sorted((root / "_delta_log").glob("*.json")):
        for line in path.read_text().splitlines():
            info = json.loads(line).get("commitInfo")
            if info:
                found.append(info["operation"])
    return found


@pytest.mark.usefixtures("trusted_clock")
def test_everything_that_is_due_in_the_safe_order(tmp_path: Path) -> None:
    properties = {"delta.logRetentionDuration": "interval 2 days"}
    builder = build(tmp_path, commits=30, properties=properties)
    gone = next(iter(builder.state.files))[0]
    builder.remove(gone)
    for number in range(11):
        builder.append([{"id": 100 + number, "part": "a"}])
        if not number:
            builder.checkpoint()
    age(tmp_path)
    table = only(run(tmp_path, policy=QUICK))
    assert [o.name for o in table.outcomes] == ["vacuum", "optimize", "checkpoint", "log-cleanup"]
    assert not (tmp_path / gone).exists()  # the commit that removed it is cleaned up
    assert all(action.state == "done" for action in table.actions)
    by_name = {outcome.name: outcome for outcome in table.outcomes}
    # The commits of optimize and vacuum are followed by a checkpoint and a log cleanup themselves.
    assert by_name["log-cleanup"].was_done
    assert not list((tmp_path / "_delta_log").glob("00000000000000000020.json"))
    for name in ("optimize", "vacuum"):
        predicted, measured = by_name[name].predicted, by_name[name].measured
        assert measured is not None
        assert measured.files_removed == predicted.files_removed > 0
        if name == "vacuum":
            assert measured.bytes_freed == predicted.bytes_freed
    assert multiset(rows_of(tmp_path)) == multiset(builder.rows())
    assert not only(run(tmp_path, policy=QUICK)).is_due


def test_a_dry_run_and_a_check_change_nothing(tmp_path: Path) -> None:
    build(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    table = only(run(tmp_path, dry_run=True))
    assert table.is_due
    assert {action.state for action in table.actions} == {"planned"}
    assert all(action.reason for action in table.actions)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_seconds_of_a_table_include_the_reading_of_its_log(tmp_path: Path) -> None:
    build(tmp_path)
    report = only(run_now(tmp_path, only=frozenset({"log-cleanup"})))
    assert not report.outcomes
    assert report.seconds > 0


def test_files_of_a_clock_that_was_ahead_do_not_stop_optimize(tmp_path: Path) -> None:
    """The clock of one writer was a year ahead; without optimize, this does not matter."""
    builder = build(tmp_path)
    builder.append([{"id": 99, "part": "b"}], modified_ms=NOW_MS + 365 * DAY_MS)
    said: list[str] = []
    context = RunContext(warn=said.append, clock=FixedClock(NOW_MS), engine=LocalEngine())

    def run_with(policy: MaintainPolicy) -> TableReport:
        return only(maintain_tables([str(tmp_path)], lambda _: policy, MaintainOptions(), context))

    run_with(replace(QUICK, actions=["checkpoint"]))
    assert said == []
    [outcome] = run_with(replace(QUICK, actions=["optimize"])).outcomes
    assert sorted(str(action.partition) for action in outcome.actions) == ["part=a", "part=b"]
    [warning] = said
    assert warning.startswith(f"{tmp_path}: the log dates 1 file in the future, up to ")


def test_a_partition_that_is_being_written_to_is_left(tmp_path: Path) -> None:
    builder = build(tmp_path)
    builder.append([{"id": 99, "part": "b"}], modified_ms=NOW_MS - HOUR_MS + 1)
    table = only(run(tmp_path))
    [outcome] = [o for o in table.outcomes if o.name == "optimize"]
    assert [action.partition for action in outcome.actions] == ["part=a"]
    [left] = table.left
    assert left.partition == "part=b"
    assert left.why_left == "recently written: newest file 59 min ago, skip-hot 1h"
    files = DeltaLog(LocalStore(str(tmp_path)), print).snapshot().files["path"].to_pylist()
    assert sum(path.startswith("part=b") for path in files) == 13
    # What optimize writes does not make a partition hot; after the hour the rest is done.
    later = only(run(tmp_path, clock=FixedClock(NOW_MS + HOUR_MS)))
    assert [a.partition for a in later.actions if a.name == "optimize"] == ["part=b"]
    assert multiset(rows_of(tmp_path)) == multiset(builder.rows())


def test_the_reason_says_what_a_rewrite_changes(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")], features=["deletionVectors"])
    [path] = builder.append([{"id": 1}, {"id": 2}])
    builder.delete_rows(path, [0])
    reasons = [only(run(tmp_path, dry_run=True)).actions[0].reason]
    for number in range(5):
        builder.append([{"id": number}])
    reasons.append(only(run(tmp_path, dry_run=True)).actions[0].reason)
    assert reasons[0].startswith("1 file with deleted rows (")
    assert reasons[1].startswith("6 small files become 1, 1 file with deleted rows (")


def test_a_partition_is_chosen_by_any_spelling_of_its_name(tmp_path: Path) -> None:
    values = ["a/b", "a%b", "ä =", None, ""]
    builder = TableBuilder(tmp_path, COLUMNS, partition_by=["part"])
    for number in range(3):
        builder.append(*([{"id": number, "part": value}] for value in values))
    table = only(run(tmp_path))
    assert not table.left
    assert not only(run(tmp_path)).is_due
    assert len(rows_of(tmp_path)) == 15


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timestamp", "2024-01-01 12:00:00.123456"),
        ("timestamp", "2024-01-01 12:00:00"),
        ("timestamp_ntz", "2024-01-01T12:00:00.500"),
        ("double", "1"),
        ("double", "-0"),
        ("integer", "05"),
        ("boolean", "True"),
        ("date", "2024-1-1"),
        ("decimal(9,2)", "1.5"),
    ],
)
def test_a_partition_is_optimized_whatever_form_its_value_has(
    tmp_path: Path, kind: str, text: str
) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("p", kind)], partition_by=["p"])
    for value in (text, None):
        adds = [builder.write_file([{"id": n, "p": None}]) for n in range(3)]
        for add in adds:
            add["add"]["partitionValues"] = {"p": value}
        builder.commit(*adds)
    assert {action.state for action in only(run(tmp_path)).actions} == {"done"}
    assert not only(run(tmp_path)).is_due
    live = DeltaLog(LocalStore(str(tmp_path)), print).snapshot().files
    assert live.num_rows == 2


def test_a_partition_that_another_program_emptied_is_not_done(tmp_path: Path) -> None:
    builder = build(tmp_path)
    context = RunContext(warn=lambda _: None, clock=FixedClock(NOW_MS))
    log = DeltaLog(LocalStore(str(tmp_path)), context.warn)
    seen = Maintenance(MaintainOptions(), FixedClock(NOW_MS))
    seen.observe("t", log, replace(QUICK, actions=["optimize"]), context)
    seen.decide(["t"])
    builder.remove(*(path for path, _ in builder.state.files if path.startswith("part=b")))
    table = seen.act("t", log, context)
    states = {action.partition: action.state for action in table.actions}
    assert states == {"part=a": "done", "part=b": "failed"}
    assert [(error.exit_code, error.message) for error in table.errors] == [
        (4, "no file is in the partition part=b any more")
    ]


def test_a_limited_partition_replaces_no_file_of_another() -> None:
    """Files of all partitions of a mapped table lie in one directory.

    On an object store nothing fails if an output has the name of an earlier one.
    """
    store = open_store(f"memory://{uuid4().hex}/t", {})
    builder = TableBuilder(store, COLUMNS, partition_by=["part"], mapping="name")
    for number in range(24):
        builder.append(*([{"id": number, "part": part}] for part in "abc"))
    log = DeltaLog(store, pytest.fail)
    before = multiset(scan_snapshot(log.snapshot()).read_all().to_pylist())
    size_bytes = sum(add["size"] for add in builder.state.files.values())
    policy = replace(QUICK, target_bytes=size_bytes // 6, skip_hot=timedelta(0))
    options = MaintainOptions(budget=Budget(bytes=size_bytes // 2), only=frozenset({"optimize"}))
    report = maintain_tables([store.uri], lambda _: policy, options, RunContext(warn=pytest.fail))
    states = {(it.partition, it.is_part) for it in only(report).actions if it.state == "done"}
    assert states == {("part=a", False), ("part=b", True)}
    log.update()
    assert multiset(scan_snapshot(log.snapshot()).read_all().to_pylist()) == before


def test_bins_that_a_writer_makes_larger_are_rewritten(tmp_path: Path) -> None:
    builder = build(tmp_path)
    log = DeltaLog(LocalStore(str(tmp_path)), pytest.fail)
    context = RunContext(engine=LocalEngine(), warn=pytest.fail, clock=FixedClock(NOW_MS))
    seen = Maintenance(MaintainOptions(), FixedClock(NOW_MS))
    seen.observe("t", log, replace(QUICK, actions=["optimize"]), context)
    seen.decide(["t"])
    builder.append([{"id": 99, "part": "a"}])
    table = seen.act("t", log, context)
    assert {action.state for action in table.actions} == {"done"}
    files = DeltaLog(LocalStore(str(tmp_path)), pytest.fail).snapshot().files
    assert Counter(path[5] for path in files["path"].to_pylist()) == {"a": 1, "b": 1}


def test_one_budget_over_all_tables(tmp_path: Path) -> None:
    roots = [tmp_path / f"t{n}" for n in range(4)]
    for root in roots:
        build(root, commits=8)
    whole = run(*roots, dry_run=True, only=frozenset({"optimize"})).predicted.bytes_read
    report = run(*roots, budget=Budget(bytes=whole // 2), only=frozenset({"optimize"}))
    assert 0 < report.measured.bytes_read <= whole // 2
    left = [action for table in report.tables for action in table.left]
    assert left
    assert all("over the budget" in str(action.why_left) for action in left)
    again = run(*roots, budget=Budget(bytes=whole), only=frozenset({"optimize"}))
    assert again.measured.bytes_read + report.measured.bytes_read == whole


def test_a_budget_that_is_too_small_is_said_and_is_no_failure(tmp_path: Path) -> None:
    build(tmp_path)
    report = run(tmp_path, budget=Budget(bytes=10), only=frozenset({"optimize"}))
    assert str(report.note).startswith("no action fits into what is left of the budget of 10 B ")
    table = only(report)
    assert table.is_due
    assert not table.outcomes


class TickingClock(FixedClock):
    """A clock that advances by a second each time somebody asks how long a run takes."""

    def monotonic(self) -> float:
        self.advance(1000)
        return super().monotonic()


def test_only_partitions_that_are_left_count_as_left(tmp_path: Path) -> None:
    seen: set[tuple[bool, bool]] = set()
    for seconds in range(1, 80, 4):
        root = tmp_path / str(seconds)
        build(root, commits=3, parts="abcdef")
        clock = TickingClock(NOW_MS)
        budget = Budget(time=timedelta(seconds=seconds))
        # One bin after the other: the clock moves with each call.
        engine = LocalEngine(1, max_unfinished=1)
        only_optimize = frozenset({"optimize"})
        table = only(run(root, clock=clock, engine=engine, budget=budget, only=only_optimize))
        live = DeltaLog(LocalStore(str(root)), lambda said: None).snapshot().files
        files = Counter(dict(values)["part"] for values in live["partition_values"].to_pylist())
        left = {str(action.partition) for action in table.left}
        assert left == {f"part={part}" for part, count in files.items() if count > 1}
        done = {str(a.partition) for a in table.actions if a.state == "done"}
        assert done == {f"part={part}" for part, count in files.items() if count == 1}
        seen.add((bool(done), bool(left)))
        if not left:
            break
    assert seen == {(False, True), (True, True), (True, False)}


def test_a_run_that_did_all_due_work_is_recorded(tmp_path: Path) -> None:
    build(tmp_path)
    assert only(run(tmp_path, clock=FixedClock(NOW_MS))).outcomes
    last = read_last_run(LocalStore(str(tmp_path)), "maintain")
    assert last is not None
    assert last.started_ms == NOW_MS


def test_a_record_that_another_user_owns_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path)
    read = LocalStore.read

    def refuse(store: LocalStore, name: str) -> bytes:
        if name == "_deltactl/runs/maintain.json":
            raise AccessDeniedError("denied")
        return read(store, name)

    monkeypatch.setattr(LocalStore, "read", refuse)
    assert only(run(tmp_path)).outcomes


def test_a_failure_on_one_table_does_not_stop_the_others(tmp_path: Path) -> None:
    broken, whole, absent = tmp_path / "broken", tmp_path / "whole", tmp_path / "absent"
    build(broken)
    (broken / commit_path(4)).unlink()
    build(whole)
    report = run(broken, whole, absent)
    assert {error.code for error in report.errors.values()} == {"LOG_GAP", "NOT_A_TABLE"}
    [table] = report.tables
    assert table.outcomes


def test_a_table_that_is_deleted_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    roots = [tmp_path / "gone", tmp_path / "there"]
    clock = FixedClock(NOW_MS)
    context = RunContext(warn=print, clock=clock)
    seen = Maintenance(MaintainOptions(), clock)
    for root in roots:
        build(root)
        seen.observe(str(root), DeltaLog(LocalStore(str(root)), context.warn), QUICK, context)
    seen.decide([str(root) for root in roots])
    shutil.rmtree(roots[0])
    with pytest.raises(StorageError, match="deleted during the run"):
        seen.act(str(roots[0]), DeltaLog(LocalStore(str(roots[0])), context.warn), context)
    assert not roots[0].exists()
    assert seen.act(
        str(roots[1]), DeltaLog(LocalStore(str(roots[1])), context.warn), context
    ).outcomes


def _build_expired(root: Path) -> tuple[TableBuilder, list[str]]:
    """Return a table with a removed file, the first one, and expired log files."""
    builder = build(root, properties={"delta.logRetentionDuration": "interval 2 days"})
    live = [path for path, _ in builder.state.files]
    builder.remove(live[0])
    builder.append([{"id": 99, "part": "a"}])
    builder.checkpoint()
    age(root)
    return builder, live


@pytest.mark.usefixtures("trusted_clock")
def test_the_log_is_kept_if_the_vacuum_was_not_finished(tmp_path: Path) -> None:
    """Only the commits name what the vacuum must delete, and a commit of optimize cleans up."""
    builder, live = _build_expired(tmp_path)
    for number in range(8):  # the checkpoint after the commit of optimize is due
        builder.append([{"id": 100 + number, "part": "a"}])
    age(tmp_path)
    clock = FixedClock(NOW_MS)
    with hold_lease(builder.store, "vacuum", Holder.here("o", clock), clock=clock, warn=print):
        table = only(run(tmp_path))
    assert {it.name: it.state for it in table.actions} == {
        "vacuum": "failed",
        "optimize": "done",
        "checkpoint": "done",
        "log-cleanup": "left",
    }
    assert (tmp_path / commit_path(0)).exists()
    assert not only(run(tmp_path)).errors
    assert not (tmp_path / live[0]).exists()


@pytest.mark.usefixtures("trusted_clock")
def test_the_log_is_kept_if_the_vacuum_is_refused(tmp_path: Path) -> None:
    """The removed file may have the rows of the lost one, and only the commits name it."""
    builder, live = _build_expired(tmp_path)
    for number in range(8):
        builder.append([{"id": 100 + number, "part": "a"}])
    age(tmp_path)
    (tmp_path / live[1]).unlink()
    chosen = frozenset({"vacuum", "optimize", "checkpoint", "log-cleanup"})
    table = only(run(tmp_path, only=chosen))
    assert table.facts.problems["vacuum"].code == "SAFETY"
    assert {it.name: it.state for it in table.actions}["log-cleanup"] == "left"
    assert (tmp_path / commit_path(0)).exists()
    assert (tmp_path / live[0]).exists()


@pytest.mark.parametrize("tail", [0, 1])
def test_a_hint_that_could_not_be_replaced_is_replaced_by_the_next_run(
    tmp_path: Path, tail: int
) -> None:
    builder = build(tmp_path, commits=3)
    builder.checkpoint()
    hint = tmp_path / "_delta_log/_last_checkpoint"
    hint.write_bytes(b'{"version":1,"size":1}')
    for _ in range(tail):
        builder.append([{"id": 9, "part": "a"}])
    table = only(run(tmp_path, only=frozenset({"checkpoint"})))
    assert [(it.name, it.was_done, it.error) for it in table.outcomes] == [
        ("checkpoint", False, None)
    ]
    # A checkpoint that the interval does not require is not written.
    assert json.loads(hint.read_bytes())["version"] == builder.version - tail
    assert len(list(tmp_path.glob("_delta_log/*.checkpoint.parquet"))) == 1
    assert not only(run(tmp_path, only=frozenset({"checkpoint"}))).outcomes


@pytest.mark.parametrize("parts_of", [3, 5])
def test_a_hint_with_which_readers_fail_is_replaced(tmp_path: Path, parts_of: int) -> None:
    builder = build(tmp_path, commits=3)
    builder.checkpoint()
    for number in range(2):
        builder.append([{"id": number, "part": "a"}])
    log = tmp_path / "_delta_log"
    if parts_of == 5:  # a writer of several parts was killed
        shutil.copy(
            log / f"{3:020d}.checkpoint.parquet",
            log / f"{5:020d}.checkpoint.0000000001.0000000002.parquet",
        )
    log.joinpath("_last_checkpoint").write_text(f'{{"version":{parts_of},"size":9,"parts":2}}')
    table = only(run(tmp_path, only=frozenset({"checkpoint"})))
    assert [(it.note, it.error) for it in table.outcomes] == [
        ("_last_checkpoint was replaced", None)
    ]
    assert {reader: try_count(reader, tmp_path)[1] for reader in READERS} == dict.fromkeys(
        READERS, ""
    )
    assert not only(run(tmp_path, only=frozenset({"checkpoint"}))).outcomes


def test_a_hint_without_any_checkpoint_is_replaced(tmp_path: Path) -> None:
    builder = build(tmp_path, commits=3)
    hint = tmp_path / "_delta_log/_last_checkpoint"
    hint.write_bytes(b'{"version":2,"size":9,"parts":2}')
    only(run(tmp_path, only=frozenset({"checkpoint"})))
    assert json.loads(hint.read_bytes())["version"] == builder.version
    assert not only(run(tmp_path, only=frozenset({"checkpoint"}))).outcomes


def test_a_hint_that_cannot_be_read_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = build(tmp_path, commits=3)
    builder.checkpoint()
    read = LocalStore.read

    def refuse(store: LocalStore, name: str) -> bytes:
        if name.endswith("_last_checkpoint"):
            raise StorageError("no answer")
        return read(store, name)

    monkeypatch.setattr(LocalStore, "read", refuse)
    assert not only(run(tmp_path, only=frozenset({"checkpoint"}))).outcomes


@pytest.mark.usefixtures("trusted_clock")
def test_a_vacuum_that_stops_after_its_last_file_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, live = _build_expired(tmp_path)
    create = LocalStore.put_if_absent

    def refuse_the_end(store: LocalStore, name: str, data: bytes) -> None:
        if b"VACUUM END" in data:
            raise AccessDeniedError("Permission denied")
        create(store, name, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", refuse_the_end)
    table = only(run(tmp_path, only=frozenset({"vacuum"})))
    assert [error.message for error in table.errors] == ["Permission denied"]
    assert not (tmp_path / live[0]).exists()


@pytest.mark.usefixtures("trusted_clock")
def test_a_vacuum_that_deletes_files_of_a_restored_table_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup, in which the file is live, replaces the table during the vacuum."""
    root, backup = tmp_path / "t", tmp_path / "backup"
    builder = build(root)
    shutil.copytree(root, backup)
    gone = next(iter(builder.state.files))[0]
    builder.remove(gone)
    age(root)
    delete_many = LocalStore.delete_many

    def restore_backup(store: LocalStore, names: Sequence[str]) -> dict[str, StorageError]:
        if gone in names:
            root.rename(tmp_path / "damaged")
            backup.rename(root)
        return delete_many(store, names)

    monkeypatch.setattr(LocalStore, "delete_many", restore_backup)
    [error] = run(root, only=frozenset({"vacuum"})).errors.values()
    assert (error.code, error.exit_code) == ("FILE_MISSING", 1)
    assert error.message.endswith(f"lacks 1 file that this run removed: {gone}")


@pytest.mark.usefixtures("trusted_clock")
def test_nothing_is_deleted_after_a_failure(tmp_path: Path) -> None:
    _, live = _build_expired(tmp_path)
    (tmp_path / live[-1]).write_bytes(b"no parquet")
    report = run(tmp_path)
    table = only(report)
    assert report.errors == {str(tmp_path): table.errors[0]}
    failed = [action for action in table.actions if action.state == "failed"]
    assert {action.name for action in failed} == {"optimize"}
    [outcome] = [outcome for outcome in table.outcomes if outcome.name == "optimize"]
    assert outcome.versions  # the other partition is committed
    reasons = {action.name: action.why_left for action in table.left}
    assert reasons["log-cleanup"] == "optimize failed, and after a failure maintain deletes nothing"
    assert not (tmp_path / live[0]).exists()  # the vacuum was before
    assert [error.exit_code for error in table.errors] == [1]


@pytest.mark.usefixtures("trusted_clock")
def test_never_below_the_retention_of_the_table(tmp_path: Path) -> None:
    builder = build(tmp_path)
    gone = next(iter(builder.state.files))[0]
    builder.remove(gone)
    age(tmp_path, NOW_MS - 3 * DAY_MS)
    builder.append(*([{"id": number, "part": "a"}] for number in range(9)))
    report = run(tmp_path, policy=replace(QUICK, retain=timedelta(days=1)))
    assert [error.code for error in report.errors.values()] == ["SAFETY"]
    assert DeltaLog(builder.store, print).snapshot().version == builder.version  # nothing was done
    assert only(run(tmp_path)).outcomes
    assert (tmp_path / gone).exists()
    age(tmp_path, NOW_MS - 9 * DAY_MS)
    run(tmp_path, policy=replace(QUICK, retain=timedelta(days=20)))
    assert (tmp_path / gone).exists()
    run(tmp_path)
    assert not (tmp_path / gone).exists()


@pytest.mark.usefixtures("trusted_clock")
@pytest.mark.parametrize("retain", [None, timedelta(days=20)])
def test_an_invalid_retention_stops_the_vacuum_only(
    tmp_path: Path, retain: timedelta | None
) -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 1 month"}
    builder = build(tmp_path, properties=properties)
    gone = next(iter(builder.state.files))[0]
    builder.remove(gone)
    builder.append(*([{"id": number, "part": "a"}] for number in range(9)))
    age(tmp_path)
    table = only(run(tmp_path, policy=replace(QUICK, retain=retain)))
    assert "optimize" in {outcome.name for outcome in table.outcomes}
    assert "is invalid" in table.facts.problems["vacuum"].message
    assert (tmp_path / gone).exists()


@pytest.mark.usefixtures("trusted_clock")
def test_a_clone_that_may_be_running_stops_the_vacuum_only(tmp_path: Path) -> None:
    builder = build(tmp_path)
    builder.append(*([{"id": number, "part": "a"}] for number in range(9)))
    age(tmp_path)
    note = CloneNote((tmp_path / "clone").as_uri(), 0, NOW_MS)
    write_note(builder.store, note)
    mark_running(builder.store, note)
    os.utime(tmp_path / note.mark, (NOW_MS / 1000, NOW_MS / 1000))
    table = only(run(tmp_path))
    assert "optimize" in {outcome.name for outcome in table.outcomes}
    assert isinstance(table.facts.problems["vacuum"], ConflictError)


def test_rows_are_placed_only_by_a_policy(tmp_path: Path) -> None:
    statistics = json.dumps({"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 1}})
    builder = TableBuilder(tmp_path, COLUMNS[:1])
    for number in range(12):
        builder.append([{"id": number}], stats=statistics)
    only(run(tmp_path))
    assert set(re.findall(r'"clusterBy":"(.*?)"', _parameters(tmp_path))) == {"[]"}
    builder = reopened(builder)
    for number in range(12):
        builder.append([{"id": number}])
    policy = replace(QUICK, cluster_columns="id")
    table = only(run(tmp_path, policy=policy))
    assert table.facts.unclustered_bytes
    assert "not clustered by id" in table.actions[0].reason
    assert len(rows_of(tmp_path)) == 24


def _parameters(root: Path) -> str:
    return "".join(path.read_text() for path in sorted((root / "_delta_log").glob("*.json")))


@pytest.mark.parametrize("schemes", [{}, {"file": "hdfs"}])
def test_manifests_follow_an_optimize(tmp_path: Path, schemes: dict[str, str]) -> None:
    build(tmp_path)
    from deltactl.table import Table

    Table(str(tmp_path)).generate_manifest(schemes=schemes)
    assert not only(run(tmp_path, only=frozenset({"manifest"}))).is_due
    table = only(run(tmp_path, only=frozenset({"optimize", "manifest"})))
    assert [o.name for o in table.outcomes] == ["optimize", "manifest"]
    live = DeltaLog(LocalStore(str(tmp_path)), print).snapshot().files["path"].to_pylist()
    listed = (tmp_path / "_symlink_format_manifest/part=a/manifest").read_text()
    assert any(path in listed for path in live)
    assert listed.startswith(f"{schemes.get('file', 'file')}:/")
    assert not only(run(tmp_path, only=frozenset({"manifest"}))).is_due


def test_two_at_once_do_no_work_twice(tmp_path: Path) -> None:
    builder = build(tmp_path)
    clock = FixedClock(NOW_MS)
    store = LocalStore(str(tmp_path))
    holder = replace(Holder.here("other", clock), pid=os.getpid())
    with hold_lease(store, "maintain", holder, clock=clock, warn=print):
        report = run(tmp_path)
        [error] = report.errors.values()
        assert isinstance(error, LeaseHeldError)
        assert len(operations_of(tmp_path)) == 13
        assert only(run(tmp_path, lease=False)).outcomes
    # One that planned before the other ended finds nothing left to do.
    late = tmp_path / "late"
    build(late)
    context = RunContext(warn=lambda _: None, clock=clock)
    second = Maintenance(MaintainOptions(), clock)
    second.observe(str(late), DeltaLog(LocalStore(str(late)), context.warn), QUICK, context)
    second.decide([str(late)])
    run(late)
    before = operations_of(late)
    table = second.act(str(late), DeltaLog(LocalStore(str(late)), context.warn), context)
    assert "nothing is left to do" in {outcome.note for outcome in table.outcomes}
    assert operations_of(late) == before
    assert multiset(rows_of(tmp_path)) == multiset(builder.rows())


def test_two_without_leases_lose_bins_at_most(tmp_path: Path) -> None:
    builder = build(tmp_path, commits=20)
    reports: list[MaintainReport] = []
    threads = [
        threading.Thread(target=lambda: reports.append(run_now(tmp_path, lease=False)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    codes = {e.exit_code for r in reports for t in r.tables for e in t.errors}
    assert codes <= {4, 5}
    assert multiset(rows_of(tmp_path)) == multiset(builder.rows())
    assert not only(run(tmp_path)).is_due


def test_another_run_of_one_command_is_waited_for(tmp_path: Path) -> None:
    build(tmp_path)
    clock = FixedClock(NOW_MS)
    store = LocalStore(str(tmp_path))
    with hold_lease(store, "optimize", Holder.here("o", clock), clock=clock, warn=print):
        table = only(run(tmp_path))
    states = {action.name: action.state for action in table.actions}
    assert states == {"optimize": "failed", "checkpoint": "done"}
    assert [error.exit_code for error in table.errors] == [4]


def test_a_report_of_tables_has_each_result_and_each_error(tmp_path: Path) -> None:
    build(tmp_path / "one")
    one, gone = tmp_path / "one", tmp_path / "gone"
    found = run(one, gone, dry_run=True).to_dict()
    assert [table["table"] for table in found["tables"]] == [str(one)]
    assert found["errors"][str(gone)]["code"] == "NOT_A_TABLE"
    assert found["note"] is None
    assert found["interrupted"] is False


@pytest.mark.parametrize("root", ["one", "gone"])
def test_a_table_whose_policy_has_no_action_is_not_read(tmp_path: Path, root: str) -> None:
    build(tmp_path / "one")
    found = run(tmp_path / root, policy=MaintainPolicy(actions=[])).to_dict()
    assert (found["tables"], found["errors"]) == ([], {})
    assert found["skipped"] == {str(tmp_path / root): "the policy has no actions"}


def test_a_cancelled_run_says_so(tmp_path: Path) -> None:
    """The second table was not started, and the third has nothing to do."""
    for name in ("one", "two"):
        build(tmp_path / name)
    build(tmp_path / "three", commits=1)
    cancel = threading.Event()
    report = deltactl.maintain(
        [str(tmp_path / name) for name in ("one", "two", "three")],
        QUICK,
        cancel=cancel,
        on_progress=lambda _: cancel.set(),
    )
    assert [table.interrupted for table in report.tables] == [True, True, False]
    assert report.interrupted
    assert report.to_dict()["interrupted"]


@pytest.mark.parametrize(
    "tables", [[], ["/a", "/a"], ["/a", "file:///a/"], ["s3a://b/a", "s3://b/a"]]
)
def test_no_table_and_twice_the_same_are_refused(tables: list[str]) -> None:
    with pytest.raises(UsageError):
        deltactl.maintain(tables)


def test_what_is_asked_of_a_store(tmp_path: Path) -> None:
    """One listing of the log, its files once, few requests besides; all of it for a vacuum once."""
    builder = TableBuilder(MemoryStore("s3://asked/t"), COLUMNS, partition_by=["part"])
    for number in range(40):
        builder.append([{"id": number, "part": "a"}])
    builder.checkpoint()
    builder.append([{"id": 41, "part": "a"}])
    context = RunContext(warn=lambda _: None, clock=FixedClock(NOW_MS))

    def observe() -> StorageUsage:
        store = MeteredStore(builder.store)
        seen = Maintenance(MaintainOptions(), FixedClock(NOW_MS))
        seen.observe("t", DeltaLog(store, context.warn), QUICK, context)
        assert not seen.errors
        assert store.usage.puts == store.usage.deletes == 0
        return store.usage

    first = observe()
    assert first.reads >= 40  # which files did commits remove, before the first vacuum?
    vacuum_table(DeltaLog(builder.store, context.warn), VacuumOptions(), context)
    usage = observe()
    assert usage.lists <= 3, usage
    assert usage.reads <= 8, usage


def test_what_is_kept_of_a_table_does_not_grow_with_its_files() -> None:
    """A fleet is observed in the memory of its largest table: only numbers remain."""
    kept = []
    for number, files in enumerate((100, 2000)):
        builder = TableBuilder(MemoryStore(f"memory://kept-{number}/t"), COLUMNS)
        [written] = builder.append([{"id": 1, "part": "a"}])
        size = len(builder.store.read(written))
        copies = [_another(f"copy-{n:05}.parquet", size) for n in range(files)]
        builder.commit(*copies)
        seen = Maintenance(MaintainOptions(), FixedClock(NOW_MS))
        context = RunContext(warn=lambda _: None, clock=FixedClock(NOW_MS))
        seen.observe("t", DeltaLog(builder.store, context.warn), QUICK, context)
        [observation] = seen.observations.values()
        assert observation.facts.num_files == files + 1
        kept.append(len(pickle.dumps((observation.actions, observation.facts))))
    assert kept[1] < kept[0] + 100


def _another(name: str, size: int) -> dict[str, Any]:
    values = {"path": name, "partitionValues": {}, "size": size, "modificationTime": START_MS}
    return {"add": {**values, "dataChange": True, "stats": '{"numRecords":1}'}}


def test_only_the_partitions_that_failed_are_marked(tmp_path: Path) -> None:
    builder = build(tmp_path, parts="abcd")
    bad = {path.partition("/")[0]: path for path, _ in builder.state.files}
    for part in ("part=b", "part=d"):
        (tmp_path / bad[part]).write_bytes(b"no parquet")
    table = only(run(tmp_path, only=frozenset({"optimize"})))
    states = {action.partition: action.state for action in table.actions}
    assert states == {"part=a": "done", "part=b": "failed", "part=c": "done", "part=d": "failed"}
    for action in table.left:
        assert bad[str(action.partition)] in str(action.why_left)
    assert [error.exit_code for error in table.errors] == [1]
    files = DeltaLog(LocalStore(str(tmp_path)), print).snapshot().files["path"].to_pylist()
    assert Counter(path[5] for path in files) == {"a": 1, "b": 2, "c": 1, "d": 2}


def test_if_all_partitions_fail_each_has_its_own_reason(tmp_path: Path) -> None:
    builder = build(tmp_path)
    for path, _ in builder.state.files:
        (tmp_path / path).write_bytes(b"no parquet")
    table = only(run(tmp_path, only=frozenset({"optimize"})))
    assert {action.state for action in table.actions} == {"failed"}
    for action in table.actions:
        assert f"{action.partition}/" in str(action.why_left)
    [outcome] = table.outcomes
    assert outcome.measured is None
    assert [error.exit_code for error in table.errors] == [1]


def test_an_error_of_the_callback_ends_the_run(tmp_path: Path) -> None:
    class CallerError(Exception):
        pass

    def fail(_: Progress) -> None:
        raise CallerError

    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        build(root)
    before = [operations_of(root) for root in roots]
    context = RunContext(warn=print, clock=FixedClock(NOW_MS), on_progress=fail)
    with pytest.raises(CallerError):
        maintain_tables(list(map(str, roots)), lambda _: QUICK, MaintainOptions(), context)
    assert [operations_of(root) for root in roots] == before
