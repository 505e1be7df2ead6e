"""Vacuums where a file system takes several names for one file, or the log and files differ."""

import json
import unicodedata
from pathlib import Path
from typing import get_args

import pytest

from deltactl.errors import SafetyError
from deltactl.operations.clone_notes import drop_note, read_notes
from deltactl.operations.vacuum.options import Orphans
from tests.operations.vacuum.test_local import write_inventory
from tests.support.folding_store import FoldingStore, rename
from tests.support.vacuum_scenes import DAY, NOW, Scene

LISTED = "the listing of the table directory does not contain"
SAME = "may be the same file"


def scene_with(*partitions: str, gone_days: float = 40) -> tuple[Scene, list[str], str]:
    """A file in each partition; the paths in the log; and a file that was removed."""
    scene = Scene()
    *paths, gone = scene.append(60, *partitions, "gone")
    scene.remove(gone_days, gone)
    return scene, paths, gone


CAFE = "p=a/caf\u00e9.parquet"


def add_file(scene: Scene, name: str) -> None:
    """A live file with this name."""
    add = scene.builder.write_file(scene.rows(), name=name.rpartition("/")[2])
    scene.store.set_modified(name, NOW - 60 * DAY)
    scene.ago(60, lambda: scene.builder.commit(add))


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("p=a/de.parquet", "P=A/de.parquet"),
        (CAFE, unicodedata.normalize("NFD", CAFE)),
        ("p=a/stra\u00dfe.parquet", "p=a/STRASSE.parquet"),
    ],
)
def test_a_live_file_that_is_listed_under_another_name_stops_a_full_vacuum(
    name: str, stored: str
) -> None:
    scene, paths, gone = scene_with("a", "b")
    add_file(scene, name)
    rename(scene.store, name, stored)
    before = scene.store.contents()
    for orphans in get_args(Orphans):
        with pytest.raises(SafetyError, match=LISTED):
            scene.vacuum(FoldingStore(scene.dated()), orphans=orphans)
    assert scene.store.contents() == before


def test_a_live_file_that_was_moved_to_another_directory_stops_a_full_vacuum() -> None:
    """A backup tool can change the names of directories."""
    scene, _, _ = scene_with("a", "b")
    add_file(scene, "p=a/de.parquet")
    rename(scene.store, "p=a/de.parquet", "p=A b/de.parquet")
    before = scene.store.contents()
    with pytest.raises(SafetyError, match="'p=A b/de.parquet' would be removed, but it may be"):
        scene.vacuum(scene.dated(), orphans="all")
    assert scene.store.contents() == before
    assert len(scene.vacuum(scene.dated(), orphans="keep", dry_run=True).plan.losses.missing) == 1


def test_it_does_not_stop_a_vacuum_that_would_remove_nothing() -> None:
    scene, [live], gone = scene_with("de", gone_days=2)
    rename(scene.store, live, live.replace("de", "DE"))
    assert scene.vacuum(FoldingStore(scene.dated()), orphans="keep").plan.is_empty


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_file_of_the_retention_that_is_listed_under_another_name_stops_it(
    is_stored: bool,
) -> None:
    """Also if the store does not find the file by its name in the log."""
    scene, [live, young], gone = scene_with("a", "de")
    scene.remove(2, young)
    rename(scene.store, young, young.replace("de", "DE"))
    before = scene.store.contents()
    store = FoldingStore(scene.dated()) if is_stored else scene.dated()
    with pytest.raises(SafetyError, match=f"'p=DE/.*'p=de/.*{SAME}"):
        scene.vacuum(store)
    assert scene.store.contents() == before


def test_a_file_of_a_clone_that_is_listed_under_another_name_stops_it() -> None:
    scene, [live, used], gone = scene_with("a", "de")
    clone = scene.clone(50, used)
    scene.remove(40, used)
    rename(scene.store, used, used.replace("de", "DE"))
    [note] = read_notes(scene.store)
    for also in ((), (clone.store.uri,)):  # a noted clone, then one that is given
        before = scene.store.contents()
        with pytest.raises(SafetyError, match=f"'p=DE/.*'p=de/.*{SAME}"):
            scene.vacuum(FoldingStore(scene.dated()), also_keep_for=also)
        assert scene.store.contents() == before
        drop_note(scene.store, note)


def test_one_file_that_is_live_and_removed_stops_a_lite_vacuum() -> None:
    scene, [live], gone = scene_with("DE")
    twin = {"path": live.replace("DE", "de"), "deletionTimestamp": NOW - 40 * DAY}
    scene.ago(40, lambda: scene.builder.commit({"remove": {**twin, "dataChange": True}}))
    before = scene.store.contents()
    with pytest.raises(SafetyError, match=f"'p=de/.*'p=DE/.*{SAME}"):
        scene.vacuum(FoldingStore(scene.dated()), mode="lite")
    assert scene.store.contents() == before


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_two_files_whose_names_differ_by_case_are_two(mode: str) -> None:
    scene, [live, twin], gone = scene_with("DE", "de")
    name = twin.replace(twin.rpartition("/")[2], live.rpartition("/")[2])
    add = {**scene.builder.find(twin), "path": name}
    rename(scene.store, twin, name)
    scene.store.put(name, b"other")
    scene.store.set_modified(name, NOW - 60 * DAY)
    scene.ago(50, lambda: scene.builder.commit({"add": add}))
    scene.remove(40, name, twin)
    assert set(scene.plan(mode=mode)) == {name, gone}


def test_an_inventory_may_lack_new_files(tmp_path: Path) -> None:
    scene, [live], gone = scene_with("de")
    inventory = write_inventory(tmp_path / "listing.csv", f"{scene.store.uri}/{gone}")
    found = scene.vacuum(dry_run=True, mode="auto", inventory=inventory).plan
    assert found.files["path"].to_pylist() == [gone]
    assert not len(found.losses.missing)


def test_live_files_that_do_not_exist_are_reported() -> None:
    scene, [live, lost], gone = scene_with("a", "b")
    scene.store.delete_many([lost])
    report = scene.vacuum(dry_run=True)
    assert report.plan.losses.missing.to_pylist() == [lost]
    result = json.loads(json.dumps(report.to_dict()))
    assert (result["missing_files"], result["missing"]) == (1, [lost])


def test_a_lost_live_file_is_not_removed_under_another_name() -> None:
    """A copy through another file system changed the name: the rows are still there."""
    scene, paths, gone = scene_with("a")
    add_file(scene, CAFE)
    rename(scene.store, CAFE, unicodedata.normalize("NFD", CAFE))
    before = scene.store.contents()
    with pytest.raises(SafetyError, match=SAME):
        scene.vacuum()
    assert scene.store.contents() == before
