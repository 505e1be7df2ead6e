"""Files that noted shallow clones use stay; a clone that cannot be read stops the vacuum."""

import re
from copy import copy
from typing import Any

import pytest

from deltactl.errors import ConflictError, SafetyError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.clone_notes import (
    CloneNote,
    drop_note,
    mark_running,
    read_notes,
    write_note,
)
from tests.operations.vacuum.test_races import Meanwhile
from tests.support.stores import CountingStore, MemoryStore, opened_as
from tests.support.table_builder import LOG, commit_path
from tests.support.vacuum_scenes import NOW, Scene


def cloned_scene() -> tuple[Scene, Scene, dict[str, str]]:
    """A table that removed two files, one of which its clone uses, with its vector."""
    scene = Scene("deletionVectors")
    used, gone, _ = scene.append(60, "a", "b", "c")
    scene.delete_rows(55, used, 0)
    (vector,) = {name for name in scene.names() if name.endswith(".bin")}
    clone = scene.clone(50, used)
    scene.remove(40, used, gone)
    return scene, clone, {"used": used, "gone": gone, "vector": vector}


def remove_all(clone: Scene) -> None:
    clone.remove(30, *(path for path, _ in clone.builder.state.files))


def forget_tombstones(clone: Scene) -> None:
    """Write a checkpoint without the expired tombstones; the new commit proves the time."""
    clone.ago(0, clone.builder.commit)
    with opened_as(clone.store):
        checkpoint_table(
            DeltaLog(clone.store, ignore_warning), CheckpointOptions(), clone.context()
        )


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_files_of_a_noted_clone_stay(mode: str) -> None:
    scene, clone, names = cloned_scene()
    rows = clone.live_rows()
    report = scene.vacuum(mode=mode)
    assert report.files_removed == 1
    assert names["gone"] not in scene.names()
    assert {names["used"], names["vector"]} <= scene.names()
    assert clone.live_rows() == rows
    (note,) = report.plan.clones
    assert report.to_dict()["clones"] == [note.to_dict()]
    # The next lite run must look at the kept files again.
    assert read_last_vacuum_info(scene.store) is None
    drop_note(scene.store, note)
    assert set(scene.plan(mode=mode)) == {names["used"], names["vector"]}
    assert scene.plan(mode=mode, also_keep_for=(clone.store.uri,)) == {}


def test_files_of_a_noted_clone_stay_with_an_inventory(tmp_path: Any) -> None:
    scene, clone, names = cloned_scene()
    dump = str(tmp_path / "files.parquet")
    scene.vacuum(dry_run=True, dump_listing=dump)
    report = scene.vacuum(mode="auto", inventory=dump)
    assert report.plan.mode == "inventory"
    assert {names["used"], names["vector"]} <= scene.names()
    assert names["gone"] not in scene.names()


def test_what_any_version_of_the_clone_needs_stays() -> None:
    """Removed in the clone long ago, and its tombstone is gone with a checkpoint."""
    scene, clone, names = cloned_scene()
    remove_all(clone)
    forget_tombstones(clone)
    assert set(scene.plan()) == {names["gone"]}
    assert set(scene.plan(also_keep_for=(clone.store.uri,))) == {names["gone"]}
    # Once no file of its log names them, they may go.
    clone.store.delete_many([commit_path(version) for version in range(clone.builder.version + 1)])
    assert set(scene.plan()) == {names["gone"], names["used"], names["vector"]}


def test_what_an_old_checkpoint_of_the_clone_needs_stays() -> None:
    """There is a gap between it and the later commits."""
    scene, clone, names = cloned_scene()
    clone.ago(49, clone.builder.checkpoint)
    first = clone.builder.version
    remove_all(clone)
    clone.append(20)
    forget_tombstones(clone)
    clone.store.delete_many([commit_path(version) for version in range(first + 2)])
    assert set(scene.plan()) == {names["gone"]}


def test_files_of_a_clone_of_a_clone_stay() -> None:
    scene, clone, names = cloned_scene()
    (add,) = clone.builder.state.files.values()
    second = Scene("deletionVectors")
    second.ago(45, lambda: second.builder.commit({"add": add}, operation="CLONE"))
    write_note(clone.store, clone.note_of(second, 45))
    # The first clone forgets the files.
    remove_all(clone)
    forget_tombstones(clone)
    clone.store.delete_many([commit_path(version) for version in range(clone.builder.version + 1)])
    assert set(scene.plan()) == {names["gone"]}
    second.store.restore({})
    with pytest.raises(SafetyError, match=re.escape(repr(second.store.uri))):
        scene.plan()


def break_log(clone: Scene) -> None:
    clone.store.delete_many([name for name in clone.store.contents() if name.startswith(LOG)])


def damage_log(clone: Scene) -> None:
    clone.store.put(commit_path(0), b"{broken\n")


def replace_table(clone: Scene) -> None:
    """Another table was created at the same address."""
    text = clone.store.read(commit_path(0)).replace(b"5fba94ed", b"00000000")
    clone.store.put(commit_path(0), text)


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize("harm", [break_log, damage_log, replace_table])
def test_a_clone_that_cannot_be_read_is_not_taken_for_gone(harm: Any, mode: str) -> None:
    scene, clone, names = cloned_scene()
    before = scene.names()
    harm(clone)
    for dry_run in (True, False):
        with pytest.raises(SafetyError) as caught:
            scene.vacuum(mode=mode, dry_run=dry_run)
        assert repr(clone.store.uri) in caught.value.message
        (note,) = read_notes(scene.store)
        assert note.name in caught.value.message
        command = f"`deltactl vacuum {scene.store.uri} --forget-clone {clone.store.uri}`"
        assert caught.value.hint is not None
        assert command in caught.value.hint
    assert scene.names() == before
    drop_note(scene.store, note)
    assert scene.vacuum(mode=mode).files_removed == 3


@pytest.mark.parametrize("minutes", [1, 59, 61])
def test_a_clone_that_may_be_running_is_waited_for(minutes: int) -> None:
    scene, clone, _ = cloned_scene()
    (note,) = read_notes(scene.store)
    break_log(clone)
    mark_running(scene.store, note)
    scene.store.set_modified(note.mark, NOW - minutes * 60_000)
    before = scene.names()
    for dry_run in (True, False):
        with pytest.raises(SafetyError if minutes > 60 else ConflictError) as caught:
            scene.vacuum(dry_run=dry_run)
        assert (minutes > 60) is ("--forget-clone" in str(caught.value.hint))
        assert (minutes > 60) is ("may be running since 20" not in caught.value.message)
    assert scene.names() == before


def test_a_clone_on_storage_that_cannot_be_reached_stops_the_vacuum() -> None:
    scene = Scene()
    (gone, _) = scene.append(60, "a", "b")
    scene.remove(40, gone)
    write_note(scene.store, CloneNote("nowhere://bucket/clone", 1, NOW))
    with pytest.raises(SafetyError, match="nowhere://bucket/clone"):
        scene.vacuum()
    assert gone in scene.names()


def opened_at(scene: Scene, address: str, *, in_place: bool) -> Scene:
    """The same files at another address, as by an alias; or moved there."""
    names = scene.store.contents()
    moved = copy(scene)
    moved.store = MemoryStore(address)
    moved.store.restore(names)
    for name, info in zip(names, scene.store.stat_many(list(names)), strict=True):
        assert info is not None
        moved.store.set_modified(name, info.modified_ms)
    if not in_place:
        scene.store.restore({})
    return moved


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_files_of_a_clone_that_names_an_alias_of_the_table_stay(mode: str) -> None:
    scene, _, names = cloned_scene()
    alias = opened_at(scene, f"memory://alias/{mode}/t", in_place=True)
    assert set(alias.plan(mode=mode)) == {names["gone"]}
    assert alias.vacuum(mode=mode).files_removed == 1


@pytest.mark.parametrize("also", [True, False])
def test_a_clone_that_names_no_file_of_the_table_stops_the_vacuum(also: bool) -> None:
    """The table was moved: its files are not at the addresses in the clone."""
    scene, clone, names = cloned_scene()
    moved = opened_at(scene, f"memory://moved/{also}/t", in_place=False)
    options: dict[str, Any] = {}
    if also:
        drop_note(moved.store, read_notes(moved.store)[0])
        options = {"also_keep_for": (clone.store.uri,)}
    before = moved.names()
    with pytest.raises(SafetyError, match="but none below memory://moved") as caught:
        moved.vacuum(**options)
    assert f"{scene.store.uri}/{names['used']}" in caught.value.message
    assert "with the address of th" in (caught.value.hint or "")
    assert moved.names() == before


def test_a_clone_that_names_both_addresses_keeps_all_its_files() -> None:
    scene, clone, names = cloned_scene()
    used, vector, gone = names["used"], names["vector"], names["gone"]
    moved = opened_at(scene, "memory://moved/both/t", in_place=False)
    add = moved.absolute({"path": gone, "partitionValues": {"p": "b"}, "size": 1,
                          "modificationTime": 1, "dataChange": True})  # fmt: skip
    clone.ago(30, lambda: clone.builder.commit({"add": add}))
    assert moved.plan() == {}
    assert {used, vector, gone} <= moved.names()


def test_a_live_file_that_the_log_names_by_another_address_stays() -> None:
    scene = Scene()
    (live,) = scene.append(60, "a")
    add = {**scene.builder.find(live), "path": f"memory://alias/bucket/t/{live}"}
    scene.ago(50, lambda: scene.builder.commit({"add": add}))
    scene.remove(40, live)
    assert scene.plan() == {}


def test_clones_that_do_not_use_the_table_any_more_do_not_stop_the_vacuum() -> None:
    """All their files are their own, by whatever address."""
    scene, clone, names = cloned_scene()
    remove_all(clone)
    (own,) = clone.append(29.5, "z")
    clone.ago(29, lambda: clone.builder.commit({"add": clone.absolute(clone.builder.find(own))}))
    forget_tombstones(clone)
    clone.store.delete_many([commit_path(version) for version in range(clone.builder.version)])
    assert set(scene.plan()) == {names["gone"], names["used"], names["vector"]}


def test_a_note_of_the_address_of_the_table_itself_stops_the_vacuum() -> None:
    """The table was moved to the place of its clone, which may be somewhere else now."""
    scene, _, names = cloned_scene()
    write_note(scene.store, CloneNote(scene.store.uri, 1, NOW, "id-of-the-clone"))
    with pytest.raises(SafetyError, match="now contains another table"):
        scene.plan()
    assert names["used"] in scene.names()


@pytest.mark.parametrize("at", [1, 2])
def test_a_clone_that_is_noted_after_the_plan_stops_the_vacuum(at: int) -> None:
    """Before the START commit, and after it: nothing is removed any more."""
    scene = Scene()
    used, gone, _ = scene.append(60, "a", "b", "c")
    scene.remove(40, used, gone)
    scene.builder.state.files[used, None] = add = scene.builder.state_at(1).files[used, None]
    del scene.builder.state.files[used, None]

    def make_clone() -> None:
        clone = Scene()
        note = scene.note_of(clone, 0)
        write_note(scene.store, note)
        clone.builder.commit({"add": scene.absolute(add)}, operation="CLONE")

    store = Meanwhile(scene.dated(), "put" if at == 1 else "put_if_absent", make_clone, 1)
    with pytest.raises(ConflictError, match="a shallow clone of this table was created"):
        scene.vacuum(store)
    assert {used, gone} <= scene.names()
    assert scene.vacuum().files_removed == 1
    assert used in scene.names()


def test_notes_cost_one_listing_and_the_log_of_a_clone_is_read_once() -> None:
    scene, clone, _ = cloned_scene()
    for number in range(5):
        clone.append(40 - number)
        if number == 2:
            clone.ago(36, clone.builder.checkpoint)
    counting, of_clone = CountingStore(scene.dated()), CountingStore(clone.store)
    with opened_as(of_clone):
        scene.vacuum(counting, dry_run=True)
    assert counting.names["list_from"].count("_deltactl/clones") == 1
    commits = [*of_clone.names.get("read", []), *of_clone.names.get("read_many", [])]
    commits = [name for name in commits if name.endswith(".json")]
    assert sorted(commits) == [commit_path(version) for version in range(7)]
    assert of_clone.names["list_from"].count(LOG) == 1
