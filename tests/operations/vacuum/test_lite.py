"""By the log alone: what lite finds, where it refuses, and `_last_vacuum_info` as in Spark."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from deltactl.errors import (
    AccessDeniedError,
    SafetyError,
    StorageError,
    VersionNotFoundError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info, write_last_vacuum_info
from deltactl.operations.maintain.observe import observe_table
from deltactl.operations.maintain.policy import MaintainPolicy
from deltactl.operations.vacuum.candidates import follow_links
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs
from tests.operations.vacuum.test_local import age
from tests.support.forwarding import ForwardingStore
from tests.support.stores import CountingStore
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path
from tests.support.vacuum_scenes import DAY, NOW, Scene

INFO = f"{LOG}/_last_vacuum_info"


def scene_with_work() -> tuple[Scene, str, str]:
    """A live file, one removed long ago, an orphan; the commits reach back to version 0."""
    scene = Scene()
    keep, gone = scene.append(60, "a", "b")
    scene.remove(40, gone)
    scene.plant(30, "orphan.parquet")
    return scene, keep, gone


def last_vacuum_info(scene: Scene) -> Any:
    return json.loads(scene.store.read(INFO))


def test_lite_finds_what_commits_removed_and_lists_nothing() -> None:
    scene, keep, gone = scene_with_work()
    counting = CountingStore(scene.dated())
    report = scene.vacuum(counting, mode="lite")
    assert report.plan.complete_since == 0
    assert counting.names.get("walk", []) == ["_symlink_format_manifest"]
    assert counting.calls["walk_tree"] == 0
    assert scene.names() == {keep, "orphan.parquet"}
    assert last_vacuum_info(scene) == {"latestCommitVersionOutsideOfRetentionWindow": 2}


def test_lite_keeps_other_tables_whole_too() -> None:
    """Another table took over a folder with its files; ours removed them long ago."""
    scene = Scene()
    gone, _ = scene.append(60, "a", "b")
    scene.remove(40, gone)
    scene.plant(50, "p=a/_delta_log/00000000000000000000.json")
    assert scene.plan(mode="full") == scene.plan(mode="lite") == {}
    assert scene.vacuum(mode="lite").plan.vacuumed_version is None


def test_lite_names_a_version_that_exists() -> None:
    scene, _, _ = scene_with_work()
    version = scene.builder.version
    write_last_vacuum_info(scene.store, version)
    plan = scene.vacuum(mode="lite", dry_run=True).plan
    assert (plan.version, plan.complete_since) == (version, version)


def test_lite_goes_on_from_the_record() -> None:
    scene, _, _ = scene_with_work()
    for version in scene.vacuum(mode="lite").versions:
        scene.store.set_modified(commit_path(version), NOW - 30 * DAY)
        scene.builder.note([])
    (later,) = scene.append(20)
    scene.remove(10, later)
    assert scene.plan(mode="lite") == {later: "tombstone"}
    scene.builder.forget_commits(3)
    scene.ago(9, lambda: scene.builder.checkpoint(scene.builder.version))
    assert scene.plan(mode="lite") == {later: "tombstone"}


def test_lite_refuses_where_it_cannot_see_and_names_the_way_out() -> None:
    scene, keep, gone = scene_with_work()
    scene.ago(39, scene.builder.checkpoint)
    scene.builder.forget_commits(2)
    with pytest.raises(SafetyError, match="before version 2") as refused:
        scene.vacuum(mode="lite")
    assert "mode='full'" in str(refused.value.hint)
    write_last_vacuum_info(scene.store, 0)
    with pytest.raises(SafetyError, match="up to version 0"):
        scene.vacuum(mode="lite")
    write_last_vacuum_info(scene.store, 1)
    assert scene.plan(mode="lite") == {gone: "tombstone"}


def test_auto_lists_the_first_time_then_works_by_the_log() -> None:
    scene, keep, gone = scene_with_work()
    first = scene.vacuum(mode="auto")
    assert first.plan.mode == "full"
    assert scene.names() == {keep}
    assert last_vacuum_info(scene) == {"latestCommitVersionOutsideOfRetentionWindow": 2}
    counting = CountingStore(scene.store)
    second = scene.vacuum(counting, mode="auto")
    assert (second.plan.mode, second.plan.is_empty) == ("lite", True)
    assert counting.calls["walk_tree"] == counting.calls["walk"] == 0
    assert counting.names["read"] == [f"{LOG}/_last_checkpoint", INFO] or counting.names[
        "read"
    ] == [INFO]


def test_nothing_expired_since_the_last_run_ends_at_once() -> None:
    scene, keep, gone = scene_with_work()
    scene.vacuum(mode="auto")
    version = scene.vacuum(mode="auto").plan.version
    counting = CountingStore(scene.store)
    assert scene.vacuum(counting, mode="auto").version_after == version
    assert counting.calls["stat_many"] == 1  # whether the table is still there
    assert "put" not in counting.calls


def test_spark_after_a_full_run_of_its_own_makes_auto_list_again() -> None:
    scene, _, _ = scene_with_work()
    scene.vacuum(mode="auto")
    scene.store.put(INFO, b"{}\n")
    assert scene.vacuum(mode="auto", dry_run=True).plan.mode == "full"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"latestCommitVersionOutsideOfRetentionWindow":"x"}']
)
def test_a_record_that_says_nothing_is_none(content: bytes) -> None:
    scene = Scene()
    scene.store.put(INFO, content)
    assert read_last_vacuum_info(scene.store) is None


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_a_version_to_keep_that_does_not_exist_is_an_error(mode: str) -> None:
    """Also if nothing is due: a wrong number must not wait for the first run that removes files."""
    scene = Scene()
    scene.append(60, "a")
    with pytest.raises(VersionNotFoundError, match="99"):
        scene.plan(mode=mode, keep_versions=(0, 99))


def test_a_record_beyond_the_table_is_of_another_one() -> None:
    scene, _, gone = scene_with_work()
    write_last_vacuum_info(scene.store, 99)
    assert scene.plan(mode="lite") == {gone: "tombstone"}
    assert read_last_vacuum_info(scene.store) == 99, "a dry run writes nothing"


@pytest.mark.parametrize("mode", ["auto", "lite"])
def test_a_record_of_a_table_before_a_restore_of_its_log_is_not_found_later(mode: str) -> None:
    scene, _, gone = scene_with_work()
    scene.store.delete_many(["orphan.parquet"])
    scene.store.set_modified(gone, NOW - DAY)
    write_last_vacuum_info(scene.store, scene.builder.version + 1)
    assert scene.vacuum(mode=mode).plan.is_empty
    assert read_last_vacuum_info(scene.store) is None
    scene.append(20)
    scene.append(20)
    scene.store.set_modified(gone, NOW - 40 * DAY)
    scene.vacuum(mode="auto")
    assert gone not in scene.names()


def test_a_run_that_fails_drops_the_record_of_an_earlier_table() -> None:
    scene, _, gone = scene_with_work()
    write_last_vacuum_info(scene.store, 99)
    report = scene.vacuum(Refusing(scene.dated()))
    assert [failure.path for failure in report.failures] == [gone]
    assert read_last_vacuum_info(scene.store) is None


class Refusing(ForwardingStore):
    """Deletes no tombstone."""

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        kept = {name: AccessDeniedError("no") for name in names if name != "orphan.parquet"}
        return kept | super().delete_many([name for name in names if name not in kept])


def test_a_record_that_is_older_than_its_commit_is_of_an_earlier_table() -> None:
    """The log was restored from a backup, and grew to the version of the record."""
    scene, _, gone = scene_with_work()
    latest = scene.builder.version
    write_last_vacuum_info(scene.store, latest)
    assert scene.plan(mode="auto") == {}
    scene.store.set_modified(INFO, NOW - 50 * DAY)  # before the commit
    counting = CountingStore(scene.dated())
    plan = scene.vacuum(counting, mode="auto", dry_run=True).plan
    assert (plan.mode, gone in plan.files["path"].to_pylist()) == ("full", True)
    assert INFO not in counting.names.get("stat_many", [])
    scene.vacuum(mode="auto")
    assert gone not in scene.names()
    assert read_last_vacuum_info(scene.store) == latest


def test_maintain_drops_the_record_of_an_earlier_table() -> None:
    scene, _, gone = scene_with_work()
    scene.store.set_modified(gone, NOW - DAY)
    scene.store.delete_many(["orphan.parquet"])
    write_last_vacuum_info(scene.store, 99)
    policy = MaintainPolicy(actions=["vacuum"])
    for reasons in (["the recorded vacuum is of an earlier table at this address"], []):
        found = observe_table("t", DeltaLog(scene.store, pytest.fail), policy, scene.context())
        assert [action.reason for action in found.actions] == reasons
        scene.vacuum(mode="auto")


@pytest.mark.parametrize(
    "options",
    [{"keep_versions": (1,)}, {"keep_last": 3}, {"max_files": 1}, {"mode": "lite", "max_files": 1}],
    ids=str,
)
def test_the_record_stays_where_a_file_was_left(options: dict[str, Any]) -> None:
    """Else lite would never look at it again."""
    scene = Scene()
    _, one, two = scene.append(60, "a", "b", "c")
    scene.remove(40, one, two)
    scene.vacuum(**options)
    assert INFO not in scene.store.contents()
    scene.vacuum(mode="lite")
    assert {one, two}.isdisjoint(scene.names())


def test_the_record_stays_where_a_file_is_too_young_or_named_elsewhere() -> None:
    scene, keep, gone = scene_with_work()
    scene.store.set_modified(gone, NOW - DAY)
    scene.vacuum(mode="lite")
    assert INFO not in scene.store.contents()
    scene.store.set_modified(gone, NOW - 60 * DAY)
    scene.store.put("_symlink_format_manifest/manifest", f"{scene.store.uri}/{gone}\n".encode())
    scene.vacuum(mode="lite")
    assert INFO not in scene.store.contents()


def test_the_record_stays_where_change_data_is_too_young() -> None:
    scene = Scene()
    scene.append(60)
    scene.plant(1, "_change_data/x.parquet")
    cdc = {"path": "_change_data/x.parquet", "size": 7, "dataChange": False}
    scene.ago(35, lambda: scene.builder.commit({"cdc": {**cdc, "partitionValues": {}}}))
    assert scene.vacuum(mode="lite", dry_run=True).plan.vacuumed_version is None


def test_lite_by_a_table_that_is_younger_than_the_cutoff_does_nothing() -> None:
    scene, _, _ = scene_with_work()
    report = scene.vacuum(mode="lite", retain_ms=500 * DAY)
    assert report.plan.is_empty
    assert INFO not in scene.store.contents()


def test_lite_and_full_agree_on_what_the_log_names() -> None:
    scene = Scene("deletionVectors")
    paths = scene.append(90, *"abcdef")
    scene.delete_rows(80, paths[0], 0)
    scene.delete_rows(70, paths[0], 1)
    scene.remove(60, paths[1], paths[2])
    scene.remove(3, paths[3])
    assert scene.plan(mode="lite") == scene.plan(mode="full")
    kept = {"keep_versions": (1,)}
    assert scene.plan(mode="lite", **kept) == scene.plan(mode="full", **kept)
    last = {"keep_last": 3}
    assert scene.plan(mode="lite", **last) == scene.plan(mode="full", **last)


@pytest.mark.parametrize("mode", ["lite", "full"])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_file_to_which_another_one_is_a_link_stays(
    tmp_path: Path, is_absolute: bool, mode: Literal["lite", "full"]
) -> None:
    """A tool that replaces equal files by links made it."""
    builder = TableBuilder(tmp_path, [Column("id"), Column("p", "string")], partition_by=["p"])
    first, second = builder.append([{"id": 1, "p": "a"}], [{"id": 1, "p": "b"}])
    assert (tmp_path / first).read_bytes() == (tmp_path / second).read_bytes()
    (tmp_path / second).unlink()
    (tmp_path / second).symlink_to(tmp_path / first if is_absolute else f"../{first}")
    builder.remove(first)
    age(tmp_path)
    report = Table(tmp_path).vacuum(mode=mode, retain="0s", force_retention=True)
    assert (report.files_removed, report.plan.kept) == (0, {"reached by a symbolic link": 1})
    assert [row["id"] for row in rows_with_delta_rs(tmp_path)] == [1]


@pytest.mark.parametrize("mode", ["lite", "full"])
@pytest.mark.parametrize("target", ["old.parquet", "../old.parquet"])
def test_each_link_on_the_way_stays(
    tmp_path: Path, target: str, mode: Literal["lite", "full"]
) -> None:
    """The log has the link in the middle, which a commit removed. Perhaps it leads out."""
    tmp_path /= "t"
    builder = TableBuilder(tmp_path, [Column("id")])
    live, middle = builder.append([{"id": 1}], [{"id": 1}])
    (tmp_path / middle).rename(tmp_path / target)
    (tmp_path / middle).symlink_to(target)
    (tmp_path / live).unlink()
    (tmp_path / live).symlink_to(middle)
    builder.remove(middle)
    age(tmp_path)
    report = Table(tmp_path).vacuum(mode=mode, retain="0s", force_retention=True)
    assert report.files_removed == 0
    assert [row["id"] for row in rows_with_delta_rs(tmp_path)] == [1]


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_a_link_in_a_hidden_directory(tmp_path: Path, mode: Literal["lite", "full"]) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    (old,) = builder.append([{"id": 1}])
    add = builder.write_file([{"id": 1}])
    (tmp_path / "_h").mkdir()
    (tmp_path / add["add"]["path"]).unlink()
    add["add"]["path"] = "_h/live.parquet"
    (tmp_path / "_h/live.parquet").symlink_to(f"../{old}")
    builder.commit(add)
    builder.remove(old)
    age(tmp_path)
    report = Table(tmp_path).vacuum(mode=mode, retain="0s", force_retention=True)
    assert report.files_removed == 0
    assert [row["id"] for row in rows_with_delta_rs(tmp_path)] == [1]


def test_names_on_other_storage_are_no_links(tmp_path: Path) -> None:
    names = pa.array(["s3://bucket/a.parquet", "b.parquet"])
    assert follow_links(LocalStore(str(tmp_path)), names) == set()
