"""The journal, the quarantine, and the way back."""

import errno
import io
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import (
    AccessDeniedError,
    CommitDamagedError,
    CommitOutcomeUnknownError,
    ConflictError,
    DeltactlError,
    SafetyError,
    StorageError,
    TransientStorageError,
    UnsupportedFeatureError,
    UsageError,
    ignore_warning,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info
from deltactl.operations.maintain.observe import observe_table
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.run_context import RunContext
from deltactl.operations.trusted_time import ask_store
from deltactl.operations.vacuum.journal import (
    RunRecord,
    list_quarantine,
    list_runs,
    quarantine_name,
    write_files,
    write_journal,
    write_record,
)
from deltactl.operations.vacuum.past_vacuums import describe_vacuums, find_past_vacuums
from deltactl.operations.vacuum.purge import NeededRun, PurgeReport, purge_quarantine
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.operations.vacuum.undo import read_undone, undo_vacuum
from deltactl.storage.errors import NO_VERSION
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from tests.support.clock import FixedClock
from tests.support.forwarding import Call, ForwardingStore, InterceptingStore
from tests.support.stores import CountingStore, FaultyStore
from tests.support.table_builder import Column, TableBuilder, commit_path
from tests.support.vacuum_scenes import DAY, NOW, Scene

RUN = "20240101T000000Z-0a"
REASON = "brought back by an undo inside the retention"


def scene_with_work() -> tuple[Scene, set[str]]:
    scene = Scene()
    keep, *gone = scene.append(60, *"abc")
    scene.remove(40, *gone)
    scene.plant(30, "p=a/orphan.parquet")
    return scene, {*gone, "p=a/orphan.parquet"}


def own_files(scene: Scene) -> set[str]:
    return {name for name in scene.store.contents() if name.startswith("_deltactl/")}


def test_the_journal_is_written_before_the_first_delete() -> None:
    scene, gone = scene_with_work()
    faulty = FaultyStore(scene.dated())
    report = scene.vacuum(faulty)
    methods = [method for method, _ in faulty.calls]
    names = [name for method, name in faulty.calls if method == "put"]
    assert names[0] == f"_deltactl/vacuum/{report.run_id}/plan.parquet"
    assert methods.index("put") < methods.index("put_if_absent") < methods.index("delete_many")
    plan = pq.read_table(pa.BufferReader(scene.store.read(names[0])))
    assert set(plan["path"].to_pylist()) == gone
    assert set(plan["reason"].to_pylist()) == {"tombstone", "orphan"}
    record = json.loads(scene.store.read(f"_deltactl/vacuum/{report.run_id}/run.json"))
    assert (record["status"], record["files"], record["files_removed"]) == ("completed", 3, 3)
    assert record["quarantined_until_ms"] is None
    assert str(report.run_id).startswith("2026")


def test_a_run_that_found_its_files_removed_is_not_the_last() -> None:
    """Two vacuums at once plan the same files, and one of them moves all."""
    scene, gone = scene_with_work()
    report = scene.vacuum(quarantine=True)
    folder, other = f"_deltactl/vacuum/{report.run_id}", "29991231T000000Z-00000000"
    (record,) = list_runs(scene.store)
    scene.store.put(
        f"_deltactl/vacuum/{other}/plan.parquet", scene.store.read(f"{folder}/plan.parquet")
    )
    write_record(scene.store, replace(record, run_id=other, files_removed=0))
    (past,) = find_past_vacuums(scene.store, sorted(gone), {}, pytest.fail)
    assert (past.run_id, past.num_files) == (report.run_id, len(gone))
    assert set(undo_vacuum(scene.store, "last").restored) == gone


def test_quarantined_files_come_back_as_they_were() -> None:
    scene, gone = scene_with_work()
    before = {name: scene.store.read(name) for name in gone}
    report = scene.vacuum(quarantine=True)
    assert report.quarantined_until_ms == NOW + 7 * DAY
    assert gone.isdisjoint(scene.names())
    assert read_last_vacuum_info(scene.store) is not None
    assert scene.plan() == {}, "what lies in quarantine is hidden"
    shown = undo_vacuum(scene.store, "last", dry_run=True)
    assert gone.isdisjoint(scene.names())
    undone = undo_vacuum(scene.store, str(report.run_id))
    assert set(undone.restored) == set(shown.restored) == gone
    assert undone.impossible == {}
    assert {name: scene.store.read(name) for name in gone} == before
    assert read_last_vacuum_info(scene.store) is None, "lite has to see them again"
    assert scene.plan() == {}, "their retention begins again"
    assert list_runs(scene.store)[-1].status == "undone"


def test_a_run_of_another_table_at_the_address_is_not_undone() -> None:
    scene, gone = scene_with_work()
    report = scene.vacuum(quarantine=True)
    (record,) = list_runs(scene.store)
    write_record(scene.store, replace(record, table_id="that-of-a-dropped-table"))
    before = scene.store.contents()
    for dry_run in (True, False):
        with pytest.raises(SafetyError, match="a vacuum of another table .id that-of-a-dropped-"):
            undo_vacuum(scene.store, "last", dry_run=dry_run)
    assert scene.store.contents() == before
    # An earlier version, before a REPLACE TABLE, has the id of the run.
    write_record(scene.store, record)
    replaced = scene.builder.metadata_action(id="that-of-the-replacement")
    newest = DeltaLog(scene.store, ignore_warning).latest_version
    scene.store.put(commit_path(newest + 1), json.dumps(replaced).encode() + b"\n")
    assert set(undo_vacuum(scene.store, str(report.run_id)).restored) == gone


def test_a_run_of_a_table_whose_log_is_damaged_is_undone() -> None:
    scene, gone = scene_with_work()
    scene.vacuum(quarantine=True)
    scene.store.put(commit_path(scene.builder.version), b"{broken")
    assert set(undo_vacuum(scene.store, "last").restored) == gone


def undo_later(scene: Scene) -> None:
    """Undo a vacuum 20 days after it; the files have their old times, as in an object version."""
    scene.vacuum(quarantine=True)
    scene.clock = FixedClock(NOW + 20 * DAY)
    for name in undo_vacuum(scene.dated(), "last").restored:
        scene.store.set_modified(name, NOW - 8 * DAY)


@pytest.mark.parametrize("mode", ["auto", "full", "lite"])
def test_what_an_undo_brought_back_stays_for_the_retention(mode: str) -> None:
    scene, gone = scene_with_work()
    if mode == "lite":
        gone = {name for name in gone if "orphan" not in name}
    undo_later(scene)
    scene.clock = FixedClock(NOW + 27 * DAY - 1)
    counted = CountingStore(scene.dated())
    report = scene.vacuum(counted, mode=mode)
    assert (report.files_removed, report.plan.kept[REASON]) == (0, len(gone))
    assert report.plan.vacuumed_version is None, "a lite run must find them again"
    assert gone <= scene.names()
    assert counted.names["list_from"].count("_deltactl/leases") == 1
    scene.clock = FixedClock(NOW + 27 * DAY + 1)
    counted = CountingStore(scene.dated())
    assert scene.vacuum(counted, mode=mode).files_removed == len(gone)
    assert not any("undone" in name for name in counted.names["read"])


def test_a_vacuum_refuses_if_it_cannot_know_what_an_undo_brought_back() -> None:
    scene, gone = scene_with_work()
    report = scene.vacuum(quarantine=True)
    undo_vacuum(scene.dated(), "last")
    marker = f"_deltactl/leases/undone.{report.run_id}.parquet"
    scene.store.put(marker, scene.store.read(marker)[:9])
    with pytest.raises(SafetyError, match="which files an undo of a vacuum brought back") as lost:
        scene.vacuum()
    assert gone <= scene.names()
    assert "delete this file, then rerun" in str(lost.value.hint)


def test_vacuums_know_of_an_undo_before_its_first_file_is_back() -> None:
    scene, gone = scene_with_work()
    scene.vacuum(quarantine=True)
    faulty = FaultyStore(scene.dated())
    undo_vacuum(faulty, "last")
    changes = [call for call in faulty.calls if call[0] in ("put", "move_many")]
    assert changes[0][1].startswith("_deltactl/leases/undone.")
    assert "move_many" in {method for method, _ in changes}


@pytest.mark.parametrize(("days", "files"), [(26, 0), (28, 2)])
def test_maintain_plans_to_remove_it_after_the_retention(days: int, files: int) -> None:
    scene, _ = scene_with_work()
    undo_later(scene)
    scene.clock = FixedClock(NOW + days * DAY)
    policy = MaintainPolicy(actions=["vacuum"])
    found = observe_table("t", DeltaLog(scene.store, pytest.fail), policy, scene.context())
    assert found.facts.reclaimable_files == files


def test_undo_never_replaces_a_file_and_says_what_cannot_come_back() -> None:
    scene, gone = scene_with_work()
    report = scene.vacuum(quarantine=True)
    scene.store.put("p=a/orphan.parquet", b"new")
    lost = sorted(gone)[-1]
    scene.store.delete_many([f"_deltactl/quarantine/{report.run_id}/{lost}"])
    undone = undo_vacuum(scene.store, "last")
    assert set(undone.restored) == gone - {"p=a/orphan.parquet", lost}
    assert undone.impossible == {
        "p=a/orphan.parquet": "another file has its name now",
        lost: f"not in quarantine, and {NO_VERSION}",
    }
    assert scene.store.read("p=a/orphan.parquet") == b"new"


def test_a_file_with_another_size_comes_back_but_is_an_error() -> None:
    scene, gone = scene_with_work()
    report = scene.vacuum(quarantine=True)
    name, run_id = min(gone), str(report.run_id)
    kept = quarantine_name(run_id, name)
    size = len(scene.store.read(kept))
    scene.store.put(kept, b"cut")
    for dry_run in (True, False, True, False):  # also if it is in place
        undone = undo_vacuum(scene.store, run_id, dry_run=dry_run)
        assert undone.impossible == {name: f"it has 3 bytes, and had {size:,} before the vacuum"}
        assert name not in undone.restored
        assert len(undone.restored) + undone.num_in_place == len(gone) - 1
    assert scene.store.read(name) == b"cut"
    assert list_quarantine(scene.store, run_id) == []


def test_an_older_version_with_another_size_is_an_error() -> None:
    class Versioned(ForwardingStore):
        @property
        def versions(self) -> Any:
            return self

        def undelete_many(
            self, names: Sequence[str], *, dry_run: bool = False
        ) -> dict[str, StorageError]:
            for name in () if dry_run else names:
                self.put(name, b"cut" if name == worst else before[name])
            return {}

    scene, gone = scene_with_work()
    before, worst = {name: scene.store.read(name) for name in gone}, min(gone)
    scene.vacuum()
    undone = undo_vacuum(Versioned(scene.store), "last")
    assert (set(undone.restored), set(undone.errors)) == (gone - {worst}, {worst})


def two_on_disk(folder: Path) -> tuple[LocalStore, str, list[str]]:
    """A run that moved two files to its quarantine."""
    store, run_id = LocalStore(str(folder)), RUN
    names = ["p=a/x.parquet", "p=b/y.parquet"]
    files = pa.table({"path": names})
    record = RunRecord(run_id, "a-table", 1, "full", 0, 0, 0, 2, 2, quarantined_until_ms=1)
    write_journal(store, record, files)
    for name in names:
        store.put(quarantine_name(run_id, name), b"old")
    return store, run_id, names


def test_a_file_that_cannot_be_compared_stops_no_other(tmp_path: Path) -> None:
    class Unreadable(ForwardingStore):
        def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
            raise AccessDeniedError(f"cannot read {name!r}: Permission denied")

    store, run_id, names = two_on_disk(tmp_path)
    store.put(names[0], b"new")
    undone = undo_vacuum(Unreadable(store), run_id)
    assert undone.restored == (names[1],)
    assert undone.impossible == {names[0]: f"cannot read {names[0]!r}: Permission denied"}
    assert isinstance(undone.errors[names[0]], AccessDeniedError)


def test_a_file_with_both_names_after_a_killed_move_is_in_place(tmp_path: Path) -> None:
    store, run_id, names = two_on_disk(tmp_path)
    (tmp_path / "p=a").mkdir()
    (tmp_path / names[0]).hardlink_to(tmp_path / quarantine_name(run_id, names[0]))
    for dry_run in (True, False):
        undone = undo_vacuum(store, "last", dry_run=dry_run)
        assert (undone.restored, undone.impossible) == ((names[1],), {})
        assert undone.num_in_place == 1
    assert [store.read(name) for name in names] == [b"old"] * 2
    assert list_quarantine(store, run_id) == []


def test_an_other_file_with_the_facts_of_the_quarantined_one_stays(tmp_path: Path) -> None:
    store, run_id, names = two_on_disk(tmp_path)
    store.put(names[0], b"new")
    for name in (names[0], quarantine_name(run_id, names[0])):
        os.utime(tmp_path / name, (1, 1))
    undone = undo_vacuum(store, "last")
    assert undone.restored == (names[1],)
    assert undone.impossible == {names[0]: "another file has its name now"}
    assert store.read(names[0]) == b"new"
    assert list_quarantine(store, run_id) == [names[0]]


def test_a_copy_of_the_quarantined_file_is_in_place() -> None:
    scene, gone = scene_with_work()
    report = scene.vacuum(quarantine=True)
    name = min(gone)
    scene.store.put(name, scene.store.read(quarantine_name(str(report.run_id), name)))
    for dry_run in (True, False):
        undone = undo_vacuum(scene.store, "last", dry_run=dry_run)
        assert (set(undone.restored), undone.impossible) == (gone - {name}, {})
        assert undone.num_in_place == 1
    assert list_quarantine(scene.store, str(report.run_id)) == [name]


def test_copies_with_the_facts_of_the_quarantined_files_are_in_place(tmp_path: Path) -> None:
    """As of `cp -p`. Vacuums keep them for the retention, as the files that the undo restores."""
    store, run_id, names = two_on_disk(tmp_path)
    for name in names:
        store.put(name, b"old")
        for place in (name, quarantine_name(run_id, name)):
            os.utime(tmp_path / place, (1, 1))
    for dry_run in (True, False):
        undone = undo_vacuum(store, run_id, dry_run=dry_run)
        assert (undone.restored, undone.impossible, undone.num_in_place) == ((), {}, 2)
    assert list_quarantine(store, run_id) == names
    (kept,) = read_undone(store, [*store.list_from("_deltactl/leases")], 0)
    assert kept.to_pylist() == names


@pytest.mark.parametrize("linked", ["p=a", "p=a/x.parquet"])
def test_an_undo_keeps_files_to_which_a_link_at_their_place_leads(
    linked: str, tmp_path: Path
) -> None:
    store, run_id, names = two_on_disk(tmp_path)
    (tmp_path / linked).parent.mkdir(exist_ok=True)
    (tmp_path / linked).symlink_to(tmp_path / quarantine_name(run_id, linked))
    for dry_run in (True, False):
        undone = undo_vacuum(store, run_id, dry_run=dry_run)
        assert (undone.restored, undone.num_in_place) == ((names[1],), 0)
        assert undone.impossible == {
            names[0]: "its name leads, through a link, into the quarantine"
        }
    assert list_quarantine(store, run_id) == [names[0]]
    (tmp_path / linked).unlink()
    assert undo_vacuum(store, run_id).restored == (names[0],)
    assert store.read(names[0]) == b"old"


def test_files_that_cannot_leave_the_quarantine_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def refuse(path: str) -> None:
        if "quarantine" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path)

    store, run_id, names = two_on_disk(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        undone = undo_vacuum(store, run_id)
        assert (undone.restored, undone.impossible) == ((*names,), {})
        undone = undo_vacuum(store, run_id)
        assert (undone.num_in_place, undone.impossible) == (2, {})
    assert list_quarantine(store, run_id) == names
    assert undo_vacuum(store, run_id).impossible == {}
    assert list_quarantine(store, run_id) == []


@pytest.mark.parametrize("run", ["", "nope", RUN, "../../x", "last"])
def test_runs_that_are_not_there(run: str) -> None:
    scene = Scene()
    scene.append(60)
    with pytest.raises(DeltactlError, match="vacuum") as caught:
        undo_vacuum(scene.store, run)
    assert caught.value.hint is not None


def two_quarantines() -> tuple[Scene, str, str]:
    """A vacuum that stopped early and its rerun; each moved one file to quarantine."""
    scene, runs = Scene(), []
    for number in range(2):
        scene.plant(30, f"p=a/{number}.parquet")
        scene.clock = FixedClock(NOW + number * DAY)
        runs.append(str(scene.vacuum(quarantine=True).run_id))
    return scene, runs[0], runs[1]


def test_the_last_run_is_the_newest_with_files_to_restore() -> None:
    scene, first, second = two_quarantines()
    undone = undo_vacuum(scene.store, "last")
    assert (undone.run_id, undone.quarantined) == (second, {first: 1})
    planned = undo_vacuum(scene.store, "last", dry_run=True)
    assert (planned.run_id, planned.quarantined) == (first, {})
    assert undo_vacuum(scene.store, "last").restored == ("p=a/0.parquet",)
    again = undo_vacuum(scene.store, "last")
    assert (again.run_id, again.restored, again.num_in_place) == (second, (), 1)


def test_an_older_run_without_files_to_restore_is_not_the_last() -> None:
    scene, first, second = two_quarantines()
    undone = undo_vacuum(scene.store, "last")
    assert (undone.run_id, undone.quarantined) == (second, {first: 1})
    scene.store.delete_many([quarantine_name(first, "p=a/0.parquet")])
    again = undo_vacuum(scene.store, "last")
    assert (again.run_id, again.impossible, again.quarantined) == (second, {}, {})


def test_an_older_run_with_a_damaged_journal_is_not_the_last() -> None:
    scene, first, second = two_quarantines()
    assert undo_vacuum(scene.store, "last").run_id == second
    scene.store.delete_many([quarantine_name(first, "p=a/0.parquet")])
    scene.store.put(f"_deltactl/vacuum/{first}/plan.parquet", b"no Parquet")
    again = undo_vacuum(scene.store, "last")
    assert (again.run_id, again.restored, again.num_in_place) == (second, (), 1)


@pytest.mark.parametrize("name", ["quarantine/{}/", "vacuum/{}/plan.parquet", "vacuum/{}/run.json"])
def test_a_run_is_not_skipped_because_the_store_fails(name: str) -> None:
    scene, first, _ = two_quarantines()
    undo_vacuum(scene.store, "last")
    path = f"_deltactl/{name.format(first)}"

    class Failing(InterceptingStore):
        def _intercept(self, call: Call) -> Any:
            if path in call.names and call.method in ("read", "walk"):
                raise TransientStorageError("503")
            return call.do()

    with pytest.raises(TransientStorageError):
        undo_vacuum(Failing(scene.store), "last", dry_run=True)


def test_a_newest_run_that_cannot_be_undone_is_the_last() -> None:
    scene, first, second = two_quarantines()
    scene.store.delete_many([quarantine_name(second, "p=a/1.parquet")])
    undone = undo_vacuum(scene.store, "last")
    assert (undone.run_id, list(undone.impossible)) == (second, ["p=a/1.parquet"])
    assert undone.quarantined == {first: 1}


def test_a_wrong_run_lists_the_newest_runs_that_removed_files() -> None:
    scene, record = Scene(), RunRecord("", "", 0, "full", 0, 0, 0, 2, 9, "completed")
    ids = [f"202401{day:02}T000000Z-0a" for day in range(1, 13)]
    for number, run_id in enumerate(ids):
        write_record(scene.store, replace(record, run_id=run_id, started_ms=number))
    write_record(scene.store, replace(record, run_id="20250101T000000Z-0b", files_removed=0))
    with pytest.raises(UsageError) as caught:
        undo_vacuum(scene.store, "nope")
    assert caught.value.hint is not None
    assert re.findall(r"\S+-0.", caught.value.hint) == ids[:1:-1]
    assert caught.value.hint.endswith("(2 files, completed) and 2 older in _deltactl/vacuum.")


def at(now_ms: int, told: list[str] | None = None) -> RunContext:
    warn = pytest.fail if told is None else told.append
    return RunContext(warn=warn, clock=FixedClock(now_ms))


def purge(store: Store, now_ms: int, told: list[str] | None = None, **options: bool) -> PurgeReport:
    return purge_quarantine(DeltaLog(store, ignore_warning), at(now_ms, told), **options)


def quarantined_on_disk(folder: Path, until_ms: int) -> tuple[TableBuilder, str, str]:
    """A table of one file, and the record of a run with it; also the names in both places."""
    builder = TableBuilder(folder, [Column("id")])
    (path,) = builder.append([{"id": 1}])
    record = RunRecord(RUN, "a-table", 1, "full", 0, 0, 0, 1, 7, quarantined_until_ms=until_ms)
    write_record(builder.store, record)
    return builder, path, quarantine_name(RUN, path)


def test_a_quarantine_on_disk_needs_a_commit_that_proves_the_time(tmp_path: Path) -> None:
    now_ms = int(time.time() * 1000)
    builder, _, name = quarantined_on_disk(tmp_path, now_ms + 3 * DAY)
    builder.store.put(name, b"old")
    told: list[str] = []
    assert purge(builder.store, now_ms + 40 * DAY, told).files == 0
    assert len(told) == 1
    assert purge(builder.store, now_ms + 40 * DAY, force_retention=True).files == 1


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_purge_keeps_needed_files_to_which_a_link_at_their_place_leads(
    is_linked: bool, tmp_path: Path
) -> None:
    builder, path, name = quarantined_on_disk(tmp_path, 1)
    kept = tmp_path / name
    kept.parent.mkdir(parents=True)
    if is_linked:
        (tmp_path / path).rename(kept)
        (tmp_path / path).symlink_to(kept)
    else:
        kept.write_bytes(b"old")
    report = purge(builder.store, int(time.time() * 1000), force_retention=True)
    needed = (NeededRun(RUN, (path,), builder.version),) if is_linked else ()
    assert (report.needed, kept.exists()) == (needed, is_linked)


def test_quarantine_goes_when_its_time_is_over_and_not_before() -> None:
    scene, gone = scene_with_work()
    report = scene.vacuum(quarantine=True, quarantine_for_ms=3 * DAY)
    early = purge(scene.store, NOW + 2 * DAY)
    assert (early.files, early.waiting) == (0, ((report.run_id, NOW + 3 * DAY),))
    assert purge(scene.store, NOW + 4 * DAY, dry_run=True).files == 3
    told: list[str] = []
    assert purge(scene.store, NOW + 4 * DAY, told).files == 0, "early by the store's clock"
    assert "rerun with force_retention=True" in told[0]
    scene.store.advance(4 * DAY)
    purged = purge(scene.store, NOW + 4 * DAY)
    assert (purged.files, purged.bytes, purged.runs) == (3, report.bytes_removed, (report.run_id,))
    assert not any("quarantine" in name for name in own_files(scene))
    assert list_runs(scene.store)[-1].status == "purged"
    again = purge(scene.store, NOW + 4 * DAY)
    assert (again.runs, again.waiting) == ((), ())


def scene_with_two_quarantines() -> tuple[Scene, list[dict[str, Any]], list[str]]:
    """Return a scene, 20 days later, the adds of the first run's files, and the ids of the runs."""
    scene, runs = Scene(), []
    _, *gone = scene.append(60, *"abc")
    adds = [scene.builder.find(path) for path in gone]
    scene.remove(40, *gone)
    for name in ("", "p=b/orphan.parquet"):
        scene.plant(30, *filter(None, [name]))
        runs.append(str(scene.vacuum(quarantine=True).run_id))
        scene.builder.note([])
        scene.builder.note([])
    scene.store.advance(20 * DAY)
    return scene, adds, runs


@pytest.mark.parametrize("removed_again", [False, True])
def test_a_purge_keeps_a_run_whose_files_another_engine_made_live_again(
    removed_again: bool,
) -> None:
    """It restored an old version without a look at the files."""
    scene, adds, (first, second) = scene_with_two_quarantines()
    back, lost = [add["path"] for add in adds]
    for add in adds:
        scene.restore_file(-19, add)
    if removed_again:
        scene.remove(-19.5, back, lost)
    scene.store.put(back, scene.store.read(quarantine_name(first, back)))
    for is_dry in (True, False):
        report = purge(scene.store, NOW + 20 * DAY, dry_run=is_dry)
        version = None if removed_again else scene.builder.version
        assert report.needed == (NeededRun(first, (lost,), version),)
        assert (report.runs, report.files) == ((second,), 1)
    assert undo_vacuum(scene.store, first).restored == (lost,)


@pytest.mark.parametrize("spell", [str.upper, lambda name: name.replace("p=", "P=")])
def test_a_purge_keeps_files_that_the_log_spells_otherwise(spell: Callable[[str], str]) -> None:
    """A file system that folds case lists them as they were created."""
    scene, adds, (first, _) = scene_with_two_quarantines()
    for add in adds:
        scene.restore_file(-19, {**add, "path": spell(add["path"])})
    report = purge(scene.store, NOW + 20 * DAY)
    assert [(it.run_id, it.version) for it in report.needed] == [(first, scene.builder.version)]
    assert set(report.needed[0].paths) == {add["path"] for add in adds}


def test_a_purge_reads_new_commits_before_each_run() -> None:
    scene, (add, _), (first, second) = scene_with_two_quarantines()
    orphan = "p=b/orphan.parquet"

    class Restoring(ForwardingStore):
        def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
            if any(orphan not in name for name in names):
                scene.restore_file(-19, {**add, "path": orphan})
            return super().delete_many(names)

    report = purge(Restoring(scene.store), NOW + 20 * DAY, force_retention=True)
    assert report.runs == (first,)
    assert report.needed == (NeededRun(second, (orphan,), scene.builder.version),)


class Deleting(InterceptingStore):
    """Do something once: before the deletion of a file, or after it."""

    def __init__(self, inner: Store, path: str, act: Callable[[], object], *, after: bool) -> None:
        super().__init__(inner)
        self._path, self._act, self._after = path, act, after

    def _intercept(self, call: Call) -> Any:
        is_it = call.method == "delete_many" and any(self._path in name for name in call.names)
        if is_it and not self._after:
            self._act()
        found = call.do()
        if is_it and self._after:
            self._act()
        return found


@pytest.mark.parametrize("change", ["retention", "protocol"])
def test_a_purge_obeys_what_changes_between_two_runs(change: str) -> None:
    scene = Scene()
    paths = scene.append(60, *"abc")
    scene.remove(40, *paths[1:])
    scene.vacuum(quarantine=True)
    (record,) = list_runs(scene.store)
    runs = [record.run_id, "29991231T000000Z-00000000"]
    write_record(scene.store, replace(record, run_id=runs[1]))
    first, second = (quarantine_name(run, paths[2]) for run in runs)
    scene.store.move_many([(first, second)])
    scene.builder.note([])
    scene.builder.note([])
    scene.store.advance(20 * DAY)
    properties = {"delta.deletedFileRetentionDuration": "interval 365 days"}

    def act() -> None:
        action = scene.builder.metadata_action(properties=properties)
        if change == "protocol":
            action = scene.builder.protocol_action(["ofTheFuture"])
        scene.ago(-19, lambda: scene.builder.commit(action))

    store = Deleting(scene.store, paths[1], act, after=True)
    if change == "protocol":
        with pytest.raises(UnsupportedFeatureError, match="ofTheFuture"):
            purge(store, NOW + 20 * DAY, force_retention=True)
    else:
        report = purge(store, NOW + 20 * DAY, force_retention=True)
        assert report.runs == (runs[0],)
        assert report.needed == (NeededRun(runs[1], (paths[2],), None),)
        assert report.lost == (), "no commit added it again"
    assert quarantine_name(runs[1], paths[2]) in scene.store.contents()


def test_a_purge_deletes_nothing_of_a_table_that_replaced_this_one() -> None:
    """Its newest commit has another size since the journal of the second run was read."""
    scene, _, (_, second) = scene_with_two_quarantines()
    newest = commit_path(scene.builder.version)

    class Replacing(InterceptingStore):
        def _intercept(self, call: Call) -> Any:
            found = call.do()
            if call.method.startswith("read") and any(second in name for name in call.names):
                scene.store.put(newest, scene.store.read(newest) + b"\n")
                replaced.update(scene.store.contents())
            return found

    replaced: dict[str, bytes] = {}
    with pytest.raises(ConflictError, match="was created again"):
        purge(Replacing(scene.store), NOW + 20 * DAY, force_retention=True)
    assert replaced
    assert scene.store.contents() == replaced


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_a_purge_reports_files_that_were_restored_during_their_deletion(
    number: int, after: bool
) -> None:
    scene, (add, other), (first, second) = scene_with_two_quarantines()
    orphan = "p=b/orphan.parquet"
    path = [add["path"], orphan][number]

    def restore() -> None:
        scene.restore_file(-19, {**add, "path": path})
        scene.restore_file(-19, {**add, "path": "p=b/elsewhere.parquet"})

    store = CountingStore(Deleting(scene.store, path, restore, after=after))
    report = purge(store, NOW + 20 * DAY, force_retention=True)
    assert (report.runs, report.files) == ((first, second), 3)
    assert report.lost == (path,)
    assert report.to_dict()["lost"] == [path]
    listings = store.names["list_from"].count("_delta_log")
    assert listings == 5, "the beginning, the plan, each run, and the end"


def test_time_in_quarantine_counts_from_the_time_of_the_store() -> None:
    scene, _ = scene_with_work()
    # The clock of this machine is behind.
    scene.store.advance(NOW + 40 * DAY - ask_store(scene.store))
    options = VacuumOptions(mode="full", quarantine=True, quarantine_for_ms=3 * DAY)
    log = DeltaLog(scene.store, pytest.fail)
    until = vacuum_table(log, options, at(NOW)).quarantined_until_ms
    assert until is not None and 0 <= until - (NOW + 43 * DAY) < 60_000
    assert list_runs(scene.store)[-1].quarantined_until_ms == until


def spoil_plan(scene: Scene, run_id: str) -> None:
    plan = f"_deltactl/vacuum/{run_id}/plan.parquet"
    scene.store.put(plan, scene.store.read(plan)[:-9])


def spoil_state(scene: Scene, run_id: str) -> None:
    scene.store.put(f"_deltactl/vacuum/{run_id}/run.json", b'{"run_id"')


def set_plan(scene: Scene, run_id: str, **columns: list[Any]) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    scene.store.put(f"_deltactl/vacuum/{run_id}/plan.parquet", sink.getvalue())


PLANS = [
    spoil_plan,
    partial(set_plan, x=["a"]),
    partial(set_plan, path=[1]),
    partial(set_plan, path=["a", None]),
]


def set_text_as_end(scene: Scene, run_id: str) -> None:
    name = f"_deltactl/vacuum/{run_id}/run.json"
    state = json.loads(scene.store.read(name)) | {"quarantined_until_ms": "soon"}
    scene.store.put(name, json.dumps(state).encode())


def empty_state(scene: Scene, run_id: str) -> None:
    scene.store.put(f"_deltactl/vacuum/{run_id}/run.json", b"")


def delete_journal(scene: Scene, run_id: str) -> None:
    folder = f"_deltactl/vacuum/{run_id}"
    scene.store.delete_many([f"{folder}/run.json", f"{folder}/plan.parquet"])


@pytest.mark.parametrize("spoil", [*PLANS, spoil_state, set_text_as_end, empty_state])
def test_a_damaged_journal_of_deleted_files_is_reported(
    spoil: Callable[[Scene, str], None],
) -> None:
    scene, gone = scene_with_work()
    run_id = str(scene.vacuum().run_id)
    spoil(scene, run_id)
    with pytest.raises(DeltactlError, match="journal of run .* cannot be read") as it:
        undo_vacuum(scene.store, run_id)
    assert f"_deltactl/vacuum/{run_id}/" in it.value.message
    assert ("the file is empty" in it.value.message) is (spoil is empty_state)
    assert str(it.value.hint).startswith("Restore the file from a backup")
    assert gone.isdisjoint(scene.names())


@pytest.mark.parametrize("spoil", [*PLANS, spoil_state, set_text_as_end, delete_journal])
@pytest.mark.parametrize("is_last", [False, True])
def test_quarantined_files_come_back_without_a_journal(
    spoil: Callable[[Scene, str], None], is_last: bool
) -> None:
    scene, gone = scene_with_work()
    run_id = str(scene.vacuum(quarantine=True).run_id)
    spoil(scene, run_id)
    (past,) = find_past_vacuums(scene.store, sorted(gone), {}, pytest.fail)
    assert set(past.restorable.to_pylist()) == gone
    assert run_id in describe_vacuums([past])
    assert set(undo_vacuum(scene.store, "last" if is_last else run_id).restored) == gone
    assert gone <= scene.names()
    assert not any("quarantine" in name for name in own_files(scene))


@pytest.mark.parametrize("name", ["backup", "20990101T000000Z-0a"])
def test_directories_that_no_run_filled_are_not_the_last_run(tmp_path: Path, name: str) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    table_id = DeltaLog(builder.store, ignore_warning).snapshot().metadata.id
    record = RunRecord(RUN, table_id, 1, "full", 0, 0, 0, 1, 3)
    write_record(builder.store, record)
    files = pa.table({"path": ["x"]})
    write_files(builder.store, f"_deltactl/vacuum/{record.run_id}/plan.parquet", files)
    builder.store.put(quarantine_name(record.run_id, "x"), b"old")
    (tmp_path / "_deltactl/quarantine" / name).mkdir()
    if name == "backup":
        builder.store.put(quarantine_name(name, "x"), b"old")
    assert undo_vacuum(builder.store, "last").restored == ("x",)


def test_a_damaged_journal_does_not_hide_other_runs() -> None:
    scene, gone = scene_with_work()
    first = str(scene.vacuum(quarantine=True).run_id)
    scene.plant(30, "p=b/orphan.parquet")
    second = str(scene.vacuum().run_id)
    spoil_plan(scene, second)
    told: list[str] = []
    found = find_past_vacuums(scene.store, sorted(gone), {}, told.append)
    assert [it.run_id for it in found] == [first]
    assert [second in text for text in told] == [True]


@pytest.mark.parametrize("spoil", [spoil_state, set_text_as_end, delete_journal])
def test_a_purge_keeps_a_run_without_a_journal_and_says_so(
    spoil: Callable[[Scene, str], None],
) -> None:
    scene, _, (first, second) = scene_with_two_quarantines()
    spoil(scene, first)
    told: list[str] = []
    assert purge(scene.store, NOW + 20 * DAY, told).runs == (second,)
    (text,) = told
    assert f"files in quarantine of run {first} are kept" in text
    assert f"--undo {first}`" in text


class NoStart(ForwardingStore):
    """Fails to commit."""

    def __init__(self, inner: Store, error: DeltactlError) -> None:
        super().__init__(inner)
        self._error = error

    def put_if_absent(self, name: str, data: bytes) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (AccessDeniedError("denied"), False),
        (CommitOutcomeUnknownError("unknown"), True),
        (CommitDamagedError("lost"), True),
    ],
)
def test_a_run_that_did_not_begin_is_not_the_last(error: DeltactlError, is_kept: bool) -> None:
    scene, gone = scene_with_work()
    scene.vacuum(quarantine=True)
    (record,) = list_runs(scene.store)
    scene.plant(30, "p=b/orphan.parquet")
    scene.clock = FixedClock(NOW + DAY)
    with pytest.raises(type(error)):
        scene.vacuum(NoStart(scene.dated(), error), mode="full")
    assert len(list_runs(scene.store)) == 1 + is_kept
    assert undo_vacuum(scene.store, "last").run_id == record.run_id
    assert gone <= scene.names()


def test_a_run_that_died_after_its_first_file_is_the_last() -> None:
    scene, _ = scene_with_work()
    scene.vacuum(quarantine=True)
    scene.plant(30, "p=b/orphan.parquet", "p=b/other.parquet")
    scene.clock = FixedClock(NOW + DAY)
    second = scene.vacuum(quarantine=True, mode="full").run_id
    record = list_runs(scene.store)[-1]
    write_record(scene.store, replace(record, status="started", files_removed=None))
    assert undo_vacuum(scene.store, "last", dry_run=True).run_id == second
    other = "p=b/other.parquet"
    scene.store.move_many([(quarantine_name(str(second), other), other)])
    assert undo_vacuum(scene.store, "last").restored == ("p=b/orphan.parquet",)
