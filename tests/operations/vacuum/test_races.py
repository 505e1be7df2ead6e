"""Other writers at work between the plan and the deletes."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.errors import (
    AccessDeniedError,
    ConflictError,
    DeltactlError,
    NotATableError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.operations.vacuum import removal as vacuum_run
from deltactl.operations.vacuum.journal import list_runs
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.vacuum.test_local import age
from tests.support.forwarding import Call, ForwardingStore, InterceptingStore
from tests.support.restores import bodies
from tests.support.stores import opened_as
from tests.support.table_builder import LOG, TableBuilder, commit_path
from tests.support.vacuum_scenes import DAY, NOW, Scene


class Meanwhile(InterceptingStore):
    """Runs a foreign writer once: right before the n-th call of a method, or after it (moved)."""

    def __init__(
        self, inner: Store, method: str, foreign: Callable[[], object], at: int = 1
    ) -> None:
        super().__init__(inner)
        self._method, self._foreign, self._left = method, foreign, at

    def _intercept(self, call: Call) -> Any:
        self._reach(call.method)
        found = call.do()
        if call.method == "move_many":
            self._reach("moved")
        return found

    def _reach(self, point: str) -> None:
        if point == self._method:
            self._left -= 1
            if self._left == 0:
                self._foreign()


def removed_long_ago(count: int = 3) -> tuple[Scene, list[str], list[dict[str, Any]]]:
    """A live file, and some that were removed long ago, with the adds they had."""
    scene = Scene("deletionVectors")
    keep, *gone = scene.append(60, *"abcdefghij"[: count + 1])
    adds = [scene.builder.find(path) for path in gone]
    scene.remove(40, *gone)
    return scene, gone, adds


def commit_now(scene: Scene, *actions: dict[str, Any]) -> None:
    """Another writer's commit, at the next version there is."""
    version = len(scene.builder.commits)
    while commit_path(version) in scene.store.contents():
        version += 1
    twin = TableBuilder.__new__(TableBuilder)
    twin.__dict__ |= scene.builder.__dict__
    twin.commits = [[]] * version
    twin._now_ms = NOW
    twin.commit(*actions, operation="RESTORE")
    scene.store.set_modified(commit_path(version), NOW)


@pytest.mark.parametrize("method", ["put", "put_if_absent"])
def test_a_restored_file_leaves_the_plan(method: str) -> None:
    scene, gone, adds = removed_long_ago()
    version = scene.builder.version
    store = Meanwhile(scene.dated(), method, lambda: commit_now(scene, {"add": adds[0]}))
    report = scene.vacuum(store)
    assert report.versions == (version + 2, version + 3), "START was put again, if it was late"
    assert report.came_back == (gone[0],)
    assert report.files_removed == 2
    assert gone[0] in scene.names()
    assert f"{LOG}/_last_vacuum_info" not in scene.store.contents()


def test_a_file_that_comes_back_under_another_spelling_stays() -> None:
    """Where the file system folds case, the listing has one spelling, and the log may have both."""
    scene, gone, adds = removed_long_ago()
    other = {**adds[0], "path": gone[0].upper()}
    report = scene.vacuum(
        Meanwhile(scene.dated(), "put", lambda: commit_now(scene, {"add": other}))
    )
    assert report.came_back == (gone[0],)
    assert report.files_removed == 2
    assert gone[0] in scene.names()


def test_restored_and_removed_again_stays_too() -> None:
    """The versions in between need the file, and their tombstone is young."""
    scene, gone, adds = removed_long_ago()
    remove = {"path": gone[0], "deletionTimestamp": NOW, "dataChange": True}

    def back_and_forth() -> None:
        commit_now(scene, {"add": adds[0]})
        commit_now(scene, {"remove": remove})

    report = scene.vacuum(Meanwhile(scene.dated(), "put", back_and_forth))
    assert report.came_back == (gone[0],)
    assert gone[0] in scene.names()


def test_a_restored_deletion_vector_stays() -> None:
    scene = Scene("deletionVectors")
    (path,) = scene.append(60)
    scene.delete_rows(50, path, 0)
    add = scene.builder.find(path)
    (vector,) = {name for name in scene.names() if name.endswith(".bin")}
    scene.remove(40, path)
    scene.append(39, "b")
    report = scene.vacuum(Meanwhile(scene.dated(), "put", lambda: commit_now(scene, {"add": add})))
    assert set(report.came_back) == {path, vector}
    assert {path, vector} <= scene.names()


def test_each_batch_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum_run, "BATCH_FILES", 1)
    monkeypatch.setattr(vacuum_run, "_BATCHES_PER_ROUND", 1)
    scene, gone, adds = removed_long_ago(6)
    store = Meanwhile(
        scene.dated(), "delete_many", lambda: commit_now(scene, {"add": adds[5]}), at=3
    )
    report = scene.vacuum(store)
    assert report.files_removed == 5
    assert report.came_back == (gone[5],)
    assert gone[5] in scene.names()


def test_each_batch_stays_in_quarantine_for_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum_run, "BATCH_FILES", 1)
    monkeypatch.setattr(vacuum_run, "_BATCHES_PER_ROUND", 1)
    scene, gone, _ = removed_long_ago(3)
    left: list[int] = []

    class Slow(ForwardingStore):
        def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
            [record] = list_runs(scene.store)
            assert record.quarantined_until_ms is not None
            left.append(record.quarantined_until_ms - scene.clock.now_ms())
            scene.clock.advance(5 * DAY)
            return super().move_many(pairs)

    report = scene.vacuum(Slow(scene.dated()), quarantine=True)
    assert report.files_removed == len(gone)
    assert left == [7 * DAY] * 3
    assert report.quarantined_until_ms == scene.clock.now_ms() + 7 * DAY
    assert list_runs(scene.store)[0].quarantined_until_ms == report.quarantined_until_ms


def _beyond_us(scene: Scene) -> None:
    commit_now(scene, TableBuilder.protocol_action(["notYetInvented"]))


def _managed(scene: Scene) -> None:
    commit_now(scene, TableBuilder.protocol_action(["inCommitTimestamp", "catalogManaged"]))


def _kept_longer(scene: Scene) -> None:
    longer = {"delta.deletedFileRetentionDuration": "interval 90 days"}
    commit_now(scene, scene.builder.metadata_action(properties=longer))


@pytest.mark.parametrize("then", [None, _kept_longer, _beyond_us])
@pytest.mark.parametrize("quarantine", [False, True])
def test_what_comes_back_too_late_is_reported_or_moved_back(
    quarantine: bool, then: Callable[[Scene], None] | None
) -> None:
    """Also if the next commit stops the run."""
    scene, gone, adds = removed_long_ago()

    def use_again() -> None:
        commit_now(scene, {"add": adds[1]})
        if then is not None:
            then(scene)

    store = Meanwhile(scene.dated(), "moved" if quarantine else "delete_many", use_again)
    report = scene.vacuum(store, quarantine=quarantine)
    back = (gone[1],)
    assert (report.lost, report.came_back) == (((), back) if quarantine else (back, ()))
    assert (gone[1] in scene.names()) == quarantine
    assert report.files_removed == (2 if quarantine else 3)
    assert bool(report.failures) == (then is not None)


def test_a_file_that_is_back_is_not_lost_if_its_copy_stays_in_quarantine() -> None:
    scene, gone, adds = removed_long_ago()

    class Stuck(Meanwhile):
        def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
            if "quarantine" not in pairs[0][0]:
                return super().move_many(pairs)
            scene.store.put_many((new, scene.store.read(old)) for old, new in pairs)
            return {old: AccessDeniedError("the copy stays") for old, _ in pairs}

    store = Stuck(scene.dated(), "moved", lambda: commit_now(scene, {"add": adds[1]}))
    report = scene.vacuum(store, quarantine=True)
    assert (report.lost, report.came_back) == ((), (gone[1],))


@pytest.mark.parametrize("quarantine", [True, False])
def test_what_a_failed_task_removed_is_restored_or_reported_too(quarantine: bool) -> None:
    """As when a worker dies behind the removal: nobody confirmed it, and yet the file is gone."""
    scene, gone, adds = removed_long_ago()

    class Dying(InterceptingStore):
        def _intercept(self, call: Call) -> Any:
            found = call.do()
            if call.method in ("move_many", "delete_many") and call.names[0] in gone:
                commit_now(scene, {"add": adds[1]})
                raise MemoryError
            return found

    report = scene.vacuum(Dying(scene.dated()), quarantine=quarantine)
    assert len(report.failures) == 3
    assert report.lost == (() if quarantine else (gone[1],))
    assert (gone[1] in scene.names()) == quarantine


def test_a_file_written_again_meanwhile_stays() -> None:
    scene, gone, _ = removed_long_ago()

    def rewrite() -> None:
        scene.store.put(gone[0], b"new content")
        scene.store.set_modified(gone[0], NOW)

    report = scene.vacuum(Meanwhile(scene.dated(), "put", rewrite))
    assert report.changed == (gone[0],)
    assert scene.store.read(gone[0]) == b"new content"


def test_files_gone_meanwhile_are_not_counted() -> None:
    scene, gone, _ = removed_long_ago()
    report = scene.vacuum(
        Meanwhile(scene.dated(), "put", lambda: scene.store.delete_many(gone[:2]))
    )
    assert (report.files_removed, report.vanished) == (1, 2)


def _deleted(scene: Scene) -> None:
    scene.store.delete_many([name for name in scene.store.contents() if name.startswith(LOG)])


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (_beyond_us, UnsupportedFeatureError, "notYetInvented"),
        (_managed, UnsupportedFeatureError, "without its catalog"),
        (_kept_longer, ConflictError, "retention"),
        (_deleted, NotATableError, "the table was deleted during the run"),
    ],
)
def test_a_change_of_the_table_meanwhile_stops_the_run(
    change: Callable[[Scene], None], error: type[DeltactlError], says: str
) -> None:
    scene, gone, _ = removed_long_ago()
    with pytest.raises(error, match=says):
        scene.vacuum(Meanwhile(scene.dated(), "put", lambda: change(scene)))
    assert set(gone) <= scene.names()


@pytest.mark.parametrize(
    ("quarantine", "is_readable"), [(False, True), (False, False), (True, True)]
)
def test_files_of_a_table_that_replaces_this_one_are_reported_or_moved_back(
    quarantine: bool, is_readable: bool
) -> None:
    """As a restore from a backup: files that this vacuum removes are live again."""
    scene, gone, _ = removed_long_ago()

    def restore_backup() -> None:
        later = range(2, scene.builder.version + 2)  # the last one is VACUUM START
        scene.store.delete_many([commit_path(version) for version in later])
        if not is_readable:
            scene.store.put(commit_path(0), b"{")

    if quarantine:
        with pytest.raises(ConflictError, match="the table was replaced during the run"):
            scene.vacuum(Meanwhile(scene.dated(), "moved", restore_backup), quarantine=True)
        assert set(gone) <= scene.names()
        return
    report = scene.vacuum(Meanwhile(scene.dated(), "delete_many", restore_backup))
    assert report.was_replaced
    assert report.stopped is not None
    assert report.lost == (tuple(sorted(gone)) if is_readable else ())
    assert ("may belong to it" in report.stopped.message) != is_readable
    assert report.stopped.exit_code == (4 if is_readable else 1)


def test_a_table_that_is_deleted_meanwhile_was_not_replaced() -> None:
    scene, _, _ = removed_long_ago()
    report = scene.vacuum(Meanwhile(scene.dated(), "delete_many", lambda: _deleted(scene)))
    assert not report.was_replaced
    assert isinstance(report.stopped, NotATableError)
    assert "may belong to it" not in report.stopped.message


@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize("file", ["plan.parquet", commit_path(2)])
def test_a_table_that_is_moved_while_a_run_writes_its_journal_or_a_commit(
    file: str, is_back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system then says only that a file does not exist."""
    root = tmp_path / "t"

    def write() -> None:
        for number in range(2):
            write_deltalake(root, pa.table({"id": [number]}), mode="overwrite")

    def moving(call: Callable[..., None]) -> Callable[..., None]:
        def run(source: str, target: str, **options: bool) -> None:
            if target.endswith(file) and not (tmp_path / "old").exists():
                root.rename(tmp_path / "old")
                if is_back:
                    write()
            call(source, target, **options)

        return run

    write()
    age(root)
    monkeypatch.setattr(os, "link", moving(os.link))
    monkeypatch.setattr(os, "replace", moving(os.replace))
    says = "created again during the run" if is_back else "moved or deleted during the run"
    with pytest.raises(DeltactlError, match=says) as raised:
        Table(str(root)).vacuum(retain=timedelta(0), force_retention=True)
    assert raised.value.hint is not None


@pytest.mark.usefixtures("trusted_clock")
def test_delta_rs_restores_back_and_forth_between_plan_and_deletes(tmp_path: Path) -> None:
    """No file that any version inside the retention names may go."""
    path = str(tmp_path / "t")
    for number in range(6):
        write_deltalake(path, pa.table({"id": [number]}), mode="overwrite")
    old_ms = int(time.time() * 1000) - 60 * DAY
    for commit in Path(path, LOG).glob("*.json"):
        stamped = re.sub(r'("deletionTimestamp":)\d+', rf"\g<1>{old_ms}", commit.read_text())
        commit.write_text(stamped)
    age(Path(path))
    restored: list[str] = []

    def restore() -> None:
        for version in (0, 3, 1, 5, 2):
            DeltaTable(path).restore(version)
            restored.extend(DeltaTable(path).file_uris())

    store = Meanwhile(LocalStore(path), "put_if_absent", restore)
    with opened_as(store):
        report = Table(store.uri, store=store).vacuum()
    assert report.files_removed == 1, "only version 4 was not restored"
    assert len(report.came_back) >= 4
    for uri in restored:
        assert Path(uri).exists()
    assert DeltaTable(path).to_pyarrow_table()["id"].to_pylist() == [2]


@pytest.mark.parametrize(("at", "status"), [(2, "FAILED"), (5, "COMPLETED")])
def test_an_interrupt_between_batches_keeps_what_is_done(
    monkeypatch: pytest.MonkeyPatch, at: int, status: str
) -> None:
    monkeypatch.setattr(vacuum_run, "BATCH_FILES", 1)
    monkeypatch.setattr(vacuum_run, "_BATCHES_PER_ROUND", 1)
    scene, gone, _ = removed_long_ago(5)
    cancel = threading.Event()
    context = replace(scene.context(), cancel=cancel)
    monkeypatch.setattr(scene, "context", lambda: context)
    report = scene.vacuum(Meanwhile(scene.dated(), "delete_many", cancel.set, at=at))
    assert (report.interrupted, report.files_removed) == (at < len(gone), at)
    assert len(set(gone) & scene.names()) == len(gone) - at
    (end,) = bodies(scene.store, report.versions[-1], "commitInfo")
    assert end["operationParameters"] == {"status": status}


_WRITER = """
import sys
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

path, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    write_deltalake(path, pa.table({"id": [number], "p": [str(number % 3)]}), mode="append")
    if number % 4 == 3:
        DeltaTable(path).delete(f"id = {number - 1}")
"""


def write_meanwhile(path: Path, count: int) -> None:
    """Another process appends and deletes while vacuums run one after the other."""
    write_deltalake(str(path), pa.table({"id": [-1], "p": ["0"]}), partition_by=["p"])
    writer = subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(count)])
    runs = 0
    while writer.poll() is None:
        orphan = path / "p=0" / f"orphan{runs}.parquet"
        orphan.parent.mkdir(exist_ok=True)
        orphan.write_bytes(b"x")
        old = time.time() - 60 * 86400
        os.utime(orphan, (old, old))
        report = Table(str(path)).vacuum()
        assert not report.failures
        assert not report.lost
        runs += 1
        time.sleep(0.05)
    assert writer.returncode == 0
    assert runs > 1
    rows = sorted(DeltaTable(str(path)).to_pyarrow_table()["id"].to_pylist())
    assert rows == [-1, *(n for n in range(count) if n % 4 != 2 or n + 1 >= count)]
    for version in range(DeltaTable(str(path)).version() + 1):
        for uri in DeltaTable(str(path), version=version).file_uris()[:1]:
            assert Path(uri).exists()


def test_another_process_appends_and_deletes_meanwhile(tmp_path: Path) -> None:
    write_meanwhile(tmp_path / "t", 24)


@pytest.mark.slow
def test_another_process_appends_and_deletes_two_hundred_times(tmp_path: Path) -> None:
    write_meanwhile(tmp_path / "t", 200)
