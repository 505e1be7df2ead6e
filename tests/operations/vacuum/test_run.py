"""What a vacuum removes and what it keeps, on tables in memory whose files have ages."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from deltactl.errors import (
    AccessDeniedError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltactl.storage.store import Store
from deltactl.table import Table
from deltactl.units import format_timestamp
from tests.support.damage import edit_parquet
from tests.support.forwarding import ForwardingStore
from tests.support.restores import bodies, latest
from tests.support.stores import CountingStore, FaultyStore
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path
from tests.support.vacuum_scenes import DAY, HOUR, NOW, Scene, vector_names


def test_expired_tombstones_go_and_young_ones_stay() -> None:
    scene = Scene()
    live, old, young = scene.append(30, "a", "b", "c")
    scene.remove(20, old)
    scene.remove(3, young)
    assert scene.plan() == {old: "tombstone"}
    rows = scene.live_rows()
    report = scene.vacuum()
    assert (report.files_removed, report.bytes_removed) == (1, report.plan.size_bytes)
    assert scene.names() == {live, young}
    assert scene.live_rows() == rows
    assert scene.plan() == {}


def test_the_cutoff_itself_keeps() -> None:
    scene = Scene()
    scene.append(30)
    scene.plant(7, "at.parquet")
    scene.plant(7 + 1 / 86_400_000, "before.parquet")
    assert scene.plan() == {"before.parquet": "orphan"}


def test_superseded_vectors_go_and_live_ones_stay() -> None:
    """E1 and E10: live deletion vectors are never touched, superseded ones never forgotten."""
    scene = Scene("deletionVectors")
    path, other = scene.append(60, "a", "b")
    scene.delete_rows(50, path, 0)
    scene.delete_rows(40, path, 1)
    scene.delete_rows(30, other, 2, kind="p")
    vectors = {name for name in scene.names() if name.endswith(".bin")}
    live = {n for n in scene.needed(scene.builder.version) if n.endswith(".bin")}
    assert len(vectors) == 3
    assert len(live) == 2
    rows = scene.live_rows()
    assert scene.plan() == dict.fromkeys(vectors - live, "deletion vector")
    scene.vacuum()
    assert {name for name in scene.names() if name.endswith(".bin")} == live
    assert scene.live_rows() == rows


def test_vectors_of_young_tombstones_stay() -> None:
    scene = Scene("deletionVectors")
    (path,) = scene.append(60)
    scene.delete_rows(50, path, 0)
    scene.delete_rows(2, path, 1)
    assert scene.plan() == {}
    scene.remove(1, path)
    assert scene.plan() == {}


def test_tombstones_that_lost_their_vector_or_their_age_protect_by_their_commit() -> None:
    scene = Scene("deletionVectors")
    kept, path = scene.append(60, "a", "b")
    scene.delete_rows(50, path, 0)
    remove = scene.builder.remove_action(path)
    remove["remove"]["deletionTimestamp"] = NOW - 40 * DAY
    scene.ago(2, lambda: scene.builder.commit(remove))
    assert scene.plan() == {}


def test_change_data_goes_by_age_alone() -> None:
    scene = Scene()
    scene.append(30)
    scene.plant(20, "_change_data/cdc-1.parquet", "p=a/_change_data/cdc-2.parquet")
    scene.plant(2, "_change_data/cdc-3.parquet")
    assert scene.plan() == {
        "_change_data/cdc-1.parquet": "change data",
        "p=a/_change_data/cdc-2.parquet": "change data",
    }


@pytest.mark.parametrize("mode", ["full", "lite"])
@pytest.mark.parametrize(
    ("options", "kept"), [({}, ()), ({"keep_last": 2}, (3, 4)), ({"keep_versions": (2,)}, (2,))]
)
def test_change_data_of_kept_versions_stays(
    mode: str, options: dict[str, Any], kept: tuple[int, ...]
) -> None:
    scene = Scene()
    scene.append(60)
    names = {version: f"_change_data/c {version}.parquet" for version in (2, 3, 4)}
    scene.plant(40, "_change_data/orphan.parquet")
    for version, name in names.items():
        scene.plant(40, name)
        cdc = {"path": name.replace(" ", "%20"), "size": 7, "partitionValues": {}}
        action = {"cdc": {**cdc, "dataChange": False}}
        assert scene.ago(40 - version, lambda: scene.builder.commit(action)) == version  # noqa: B023
    expected = {name for version, name in names.items() if version not in kept}
    if mode == "full":
        expected.add("_change_data/orphan.parquet")
    assert scene.plan(mode=mode, **options) == dict.fromkeys(expected, "change data")


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_the_log_shows_which_files_are_change_data(mode: str) -> None:
    """With column mapping, Delta on Spark writes them to random prefixes, like data files."""
    scene = Scene()
    _, removed = scene.append(60, "a", "b")
    scene.remove(50, removed)
    names = {version: f"a8/cdc-{version}.parquet" for version in (3, 4, 5, 6)}
    for version, name in names.items():
        scene.plant(40, name)
        cdc = {"cdc": {"path": name, "size": 7, "partitionValues": {}, "dataChange": False}}
        scene.ago(40 - version, partial(scene.builder.commit, cdc))
    plan = scene.vacuum(mode=mode, keep_versions=(5,)).plan
    reasons = dict(zip(*plan.files.select(["path", "reason"]).to_pydict().values(), strict=True))
    changes = dict.fromkeys((names[3], names[4], names[6]), "change data")
    assert reasons == {removed: "tombstone", **changes}
    assert plan.horizon is not None
    assert plan.horizon.change_data_ends == ((3, 4), (6, 6))


HIDDEN = (
    ".f.parquet", ".xd/f.parquet", "_x.parquet", "_committed_1.parquet", "_change_data/_h.parquet",
    "_delta_log2/f.parquet", "_q=1/f.parquet", "p=1/.f.parquet", "p=1/_tmp/f.parquet",
    "p=1/.staging/y.parquet", "sub/_h/f.parquet", "_partx=1/f.parquet",
)  # fmt: skip
SHOWN = (
    "_change_data_x/f.parquet", "_delta_index/f.parquet", "_delta_index_x.parquet",
    "_part=1/old.parquet", "p=1/_part=zz/old.parquet",
    "a b é%.parquet",
    "pct%20x.parquet", "deep/a/b/c/f.PARQUET", "deletion_vector_0.bin", "metadata/f.parquet",
)  # fmt: skip
UNKNOWN = ("README.md", "noext", "orphan.txt", "x.parquet.crc", "other.bin", "p=1/model.pkl")


def test_hidden_names_stay_at_every_level() -> None:
    """E7, and the list that Delta on Spark was run on."""
    scene = Scene()
    scene.builder = TableBuilder(
        type(scene.store)(f"{scene.store.uri}-hidden"),
        [Column("id"), Column("p", "long"), Column("_part", "string")],
        partition_by=["p", "_part"],
    )
    scene.store = scene.builder.store  # type: ignore[assignment]
    scene.plant(60, *HIDDEN, *SHOWN, *UNKNOWN)
    assert set(scene.plan()) == {*SHOWN, *UNKNOWN}
    scene.vacuum()
    assert scene.names() == set(HIDDEN)


def test_metadata_of_uniform_tables_that_may_be_older_are_named() -> None:
    properties = {"delta.universalFormat.enabledFormats": "iceberg"}
    scene = Scene(properties=properties)
    scene.append(1, "a", "a")
    said: list[str] = []
    table = Table(scene.store.uri, store=scene.store, warn=said.append)
    table.vacuum(dry_run=True)
    assert table.optimize().versions
    assert "there are no Iceberg metadata in metadata/" in said[0]
    assert "until the next conversion" in said[1]
    assert len(said) == 2


def test_files_that_were_removed_in_the_future_are_counted() -> None:
    scene = Scene()
    paths = scene.append(50, "a", "a")
    scene.ago(-2, lambda: scene.builder.remove(*paths))
    assert scene.plan() == {}
    until = format_timestamp(NOW + 9 * DAY)[:16]
    assert scene.said[0].startswith(f"2 removed files are kept, the last until {until}")


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_files_that_were_modified_in_the_future_are_counted(mode: str) -> None:
    scene = Scene()
    late, gone, _ = scene.append(50, "a", "a", "b")
    scene.remove(40, late, gone)
    scene.store.set_modified(late, NOW + 2 * DAY)
    assert set(scene.plan(mode=mode)) == {gone}
    until = format_timestamp(NOW + 9 * DAY)[:16]
    assert scene.said[0].startswith(f"1 unneeded file is kept, the last until {until}")


@pytest.mark.parametrize("name", ["a b", "a%2Fb", "é", "x+y", "100%25", "p=a%253Ab"])
def test_names_are_compared_decoded(name: str) -> None:
    """E11, and names that look like escapes: decoded once, then byte by byte."""
    from urllib.parse import quote

    scene = Scene()
    live = scene.builder.write_file(scene.rows(), name="live.parquet")
    gone = scene.builder.write_file(scene.rows(), name="gone.parquet")
    stored = {}
    for action in (live, gone):
        folder = f"{name}/{action['add']['path']}"
        scene.store.put(folder, scene.store.read(action["add"]["path"]))
        scene.store.delete_many([action["add"]["path"]])
        scene.store.set_modified(folder, NOW - 60 * DAY)
        action["add"]["path"] = quote(folder, safe="/=+")
        stored[action["add"]["path"]] = folder
    scene.ago(60, lambda: scene.builder.commit(live, gone))
    remove = {"remove": {"path": gone["add"]["path"], "deletionTimestamp": NOW - 50 * DAY}}
    remove["remove"]["dataChange"] = True
    scene.ago(50, lambda: scene.builder.commit(remove))
    expected = {stored[gone["add"]["path"]]: "tombstone"}
    assert scene.plan() == scene.plan(mode="lite") == expected
    assert scene.vacuum().files_removed == 1
    assert stored[live["add"]["path"]] in scene.names()


def test_files_named_by_absolute_path_or_with_dots_are_kept() -> None:
    scene = Scene()
    paths = scene.append(60, "a", "b", "c", "d")
    add = [scene.builder.find(path) for path in paths]
    spelled = [
        {**add[0], "path": f"{scene.store.uri}/{paths[0]}"},
        {**add[1], "path": f"./{paths[1]}"},
        {**add[2], "path": f"x/../{paths[2]}"},
    ]
    scene.remove(50, *paths)
    scene.ago(40, lambda: scene.builder.commit(*({"add": it} for it in spelled)))
    assert scene.plan() == {paths[3]: "tombstone"}


def test_files_outside_the_root_are_never_touched() -> None:
    scene = Scene()
    other = Scene()
    (foreign,) = other.append(60)
    add = other.builder.find(foreign)
    absolute = {**add, "path": f"{other.store.uri}/{foreign}"}
    scene.ago(60, lambda: scene.builder.commit({"add": absolute}))
    remove = {"path": absolute["path"], "deletionTimestamp": NOW - 50 * DAY, "dataChange": True}
    scene.ago(50, lambda: scene.builder.commit({"remove": remove}))
    assert scene.plan() == scene.plan(mode="lite") == {}
    scene.vacuum()
    assert other.names() == {foreign}


def test_a_file_that_cannot_be_placed_refuses() -> None:
    scene = Scene()
    (path,) = scene.append(60)
    elsewhere = {**scene.builder.find(path), "path": "dbfs:/t/x.parquet"}
    scene.ago(50, lambda: scene.builder.commit({"add": elsewhere}))
    with pytest.raises(SafetyError, match="cannot be located"):
        scene.vacuum()


def test_versions_named_or_counted_stay_readable() -> None:
    scene = Scene()
    paths = [scene.append(90 - i)[0] for i in range(4)]
    for i, path in enumerate(paths):
        scene.remove(80 - i, path)
    assert set(scene.plan()) == set(paths)
    assert set(scene.plan(keep_versions=(2,))) == set(paths[2:])
    needed = scene.needed(2) | scene.needed(6)
    assert set(scene.plan(keep_versions=(2, 6))) == set(paths) - needed
    assert set(scene.plan(keep_last=3)) == set(paths) - scene.needed(6) - scene.needed(7)
    assert scene.plan(keep_last=1000) == {}


@pytest.mark.parametrize("left", [(), (1,)], ids=["cleaned up", "a gap"])
def test_a_version_to_keep_that_the_log_lost_refuses_and_names_the_way_out(
    left: tuple[int, ...],
) -> None:
    scene = Scene()
    (gone,) = scene.append(60, "a")
    scene.append(50, "b")
    scene.remove(40, gone)
    scene.ago(20, scene.builder.checkpoint)
    scene.store.delete_many([commit_path(version) for version in range(3) if version not in left])
    with pytest.raises(VersionNotFoundError, match="files that version 1 needs") as error:
        scene.vacuum(keep_versions=(1,))
    assert "Omit keep_versions=1" in str(error.value.hint)
    assert gone in scene.names()
    with pytest.raises(VersionNotFoundError):  # also before anything is due
        scene.plan(keep_versions=(1,), mode="lite")
    assert scene.plan() == {gone: "tombstone"}


def test_counted_versions_that_have_but_a_checkpoint_stay_readable() -> None:
    scene = Scene()
    (first,) = scene.append(60, "a")
    scene.append(50, "b")
    scene.remove(40, first)
    scene.append(30, "c")
    for version in (2, 3):
        scene.ago(20, partial(scene.builder.checkpoint, version))
    scene.store.delete_many([commit_path(version) for version in range(4)])
    assert set(scene.plan(keep_last=2)) == {first}
    assert scene.plan(keep_last=3) == scene.plan(keep_last=9) == {}
    assert scene.needed(2) <= scene.names()


def test_longer_retention_than_the_tables_reads_the_commits() -> None:
    """A checkpoint that forgot a tombstone does not end what a longer --retain promises."""
    scene = Scene()
    keep, path = scene.append(60, "a", "b")
    scene.remove(20, path)
    scene.builder.state.tombstones.clear()
    scene.ago(19, lambda: scene.builder.commit())
    commits, scene.builder.commits = (
        scene.builder.commits,
        [
            [a for a in actions if "remove" not in a and a.get("add", {}).get("path") != path]
            for actions in scene.builder.commits
        ],
    )
    scene.ago(18, scene.builder.checkpoint)
    scene.builder.commits = commits
    assert scene.plan(retain_ms=30 * DAY) == {}
    assert set(scene.plan()) == {path}


def test_retention_of_the_table_rules() -> None:
    scene = Scene(properties={"delta.deletedFileRetentionDuration": "interval 30 days"})
    path, keep = scene.append(60, "a", "b")
    scene.remove(20, path)
    assert scene.plan() == {}
    with pytest.raises(SafetyError, match="less than this table's retention of 30d"):
        scene.plan(retain_ms=DAY)
    assert set(scene.plan(retain_ms=DAY, force_retention=True)) == {path}
    retention = scene.vacuum(dry_run=True).plan.retention
    assert (retention.rule, retention.cutoff_ms) == (
        "the table's delta.deletedFileRetentionDuration",
        NOW - 30 * DAY,
    )


def test_of_two_spellings_of_a_property_the_exact_one_rules() -> None:
    """It is the one that other engines read."""
    name = "delta.deletedFileRetentionDuration"
    properties = {name: "interval 30 days", name.lower(): "interval 0 hours"}
    scene = Scene(properties=properties)
    scene.plant(20, "x.parquet")
    assert scene.plan() == {}


def test_retention_that_cannot_be_understood_refuses() -> None:
    scene = Scene(properties={"delta.deletedFileRetentionDuration": "interval 1 month"})
    scene.append(60)
    with pytest.raises(SafetyError, match="deletedFileRetentionDuration"):
        scene.vacuum()


@pytest.mark.parametrize("name", ["catalogManaged", "notYetInvented"])
def test_features_that_are_not_supported_refuse(name: str) -> None:
    scene = Scene(name)
    with pytest.raises(UnsupportedFeatureError, match=name):
        scene.vacuum()


def test_too_many_orphans_refuse_and_tombstones_never_do() -> None:
    scene = Scene()
    paths = [scene.append(90 - i)[0] for i in range(10)]
    scene.remove(20, *paths[1:])
    assert scene.vacuum(dry_run=True, max_orphan_fraction=0.0).plan.files.num_rows == 9
    scene.plant(20, *(f"x/{i}.parquet" for i in range(11)))
    with pytest.raises(SafetyError, match=r"11 of 21 files.*x: 11") as refused:
        scene.vacuum(max_orphan_fraction=0.5)
    assert "max_orphan_fraction" in str(refused.value.hint)
    with pytest.raises(SafetyError):
        scene.vacuum(max_orphan_fraction=0.5, max_files=1)
    assert len(scene.names()) == 21
    assert scene.vacuum(max_orphan_fraction=0.53).files_removed == 20


def test_orphaned_deletion_vectors_count_too() -> None:
    scene = Scene()
    scene.append(90)
    scene.plant(20, "deletion_vector_00000000-0000-0000-0000-000000000000.bin")
    with pytest.raises(SafetyError, match=r"1 of 2 files.*\(root\): 1"):
        scene.vacuum(max_orphan_fraction=0.4)


@pytest.mark.parametrize(
    ("options", "versions"),
    [({"keep_versions": (2,)}, "2"), ({"keep_last": 4}, "1-2"), ({"keep_versions": (0, 4)}, "")],
)
def test_a_version_to_keep_that_lacks_files_is_told(options: dict[str, Any], versions: str) -> None:
    """Versions 1 and 2 need a file that version 3 removed and that does not exist."""
    scene = Scene()
    (gone,) = scene.append(90)
    scene.append(80)
    scene.remove(70, gone)
    (later,) = scene.append(60)
    scene.store.delete_many([gone])
    scene.vacuum(dry_run=True, **options)
    told = [text for text in scene.said if "versions to keep" in text]
    if not versions:
        assert not told
        return
    (warning,) = told
    assert f"any more ({versions}): 1 file does not exist, such as {gone!r}" in warning
    assert later not in warning
    counting = CountingStore(scene.dated())
    scene.vacuum(counting, dry_run=True, mode="lite", **options)
    assert counting.touched(gone) == []
    assert [text for text in scene.said if "versions to keep" in text] == [warning]


def test_other_tables_below_the_root_are_kept_whole() -> None:
    scene = Scene()
    scene.append(60)
    names = [
        f"nested/{LOG}/00000000000000000000.json",
        "nested/x.parquet",
        "nested/p=1/y.parquet",
        "hudi/.hoodie/hoodie.properties",
        "hudi/x.parquet",
        "ice/metadata/v3.metadata.json",
        "ice/data/x.parquet",
        f"two\nlines/{LOG}/00000000000000000000.json",
        "two\nlines/x.parquet",
        "nested2/x.parquet",
    ]
    scene.plant(30, *names)
    assert set(scene.plan()) == {"nested2/x.parquet"}
    assert scene.vacuum(dry_run=True).plan.foreign == ("hudi", "ice", "nested", "two\nlines")


def test_iceberg_tables_below_a_uniform_table_are_kept_whole() -> None:
    scene = Scene(properties={"delta.universalFormat.enabledFormats": "iceberg"})
    scene.append(60)
    scene.plant(30, "metadata/snap-1.avro", "metadata/snap.parquet", "x.parquet")
    scene.plant(30, "ice/metadata/v3.metadata.json", "ice/data/x.parquet")
    assert set(scene.plan()) == {"x.parquet"}
    assert scene.vacuum(dry_run=True).plan.foreign == ("ice",)


def test_iceberg_metadata_at_the_root_keeps_orphans_but_not_tombstones() -> None:
    scene = Scene()
    gone, keep = scene.append(60, "a", "b")
    scene.remove(40, gone)
    scene.plant(30, "metadata/v1.metadata.json", "data/x.parquet")
    assert scene.plan() == {gone: "tombstone"}


def test_files_that_symlink_manifests_name_stay() -> None:
    scene = Scene()
    named, gone, keep = scene.append(60, "a", "b", "c")
    scene.remove(40, named, gone)
    manifest = f"{scene.store.uri}/{named}\n{scene.store.uri}/{keep}\n".encode()
    scene.store.put("_symlink_format_manifest/p=a/manifest", manifest)
    report = scene.vacuum(dry_run=True)
    assert report.plan.files["path"].to_pylist() == [gone]
    assert report.plan.kept["listed in a symlink manifest"] == 1
    assert set(scene.plan(ignore_manifests=True)) == {named, gone}


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1e"])
def test_lines_of_manifests_end_only_where_their_readers_end_them(end: str) -> None:
    scene = Scene()
    named = f"p=a{end}b/x.parquet"
    scene.plant(60, named)
    manifest = f"{scene.store.uri}/{named}\r\n{scene.store.uri}/other.parquet\n".encode()
    scene.store.put(f"_symlink_format_manifest/p=a{end}b/manifest", manifest)
    assert scene.plan(orphans="all") == {}
    assert set(scene.plan(orphans="all", ignore_manifests=True)) == {named}


@pytest.mark.parametrize("scheme", ["hdfs", "cosn", "s3a"])
@pytest.mark.parametrize("place", ["{root}", "/mnt{root}", "//node:8020/lake{root}"])
def test_manifests_keep_files_under_another_address_of_the_table(scheme: str, place: str) -> None:
    """As after `--scheme-map`, or with a disk that shows the table under another path."""
    scene = Scene()
    named, gone, keep = scene.append(60, "a", "b", "c")
    scene.remove(40, named, gone)
    root = place.format(root=scene.store.uri.partition(":")[2])
    manifest = f"{scene.store.uri}/{keep}\n{scheme}:{root}/{named}\n".encode()
    scene.store.put("_symlink_format_manifest/p=a/manifest", manifest)
    assert set(scene.plan()) == {gone}
    assert set(scene.plan(ignore_manifests=True)) == {named, gone}


def test_at_most_so_many_files_go_and_the_rest_next_time() -> None:
    scene = Scene()
    paths = scene.append(60, *"abcdef")
    scene.remove(40, *paths[1:])
    first = scene.vacuum(max_files=2)
    assert (first.files_removed, first.plan.left_over) == (2, 3)
    assert scene.vacuum(max_files=10).files_removed == 3
    assert scene.names() == {paths[0]}


def test_start_and_end_commits_are_as_delta_writes_them() -> None:
    scene = Scene()
    path, keep = scene.append(60, "a", "b")
    scene.remove(40, path)
    version = scene.builder.version
    report = scene.vacuum(retain_ms=8 * DAY)
    assert report.versions == (version + 1, version + 2)
    (start,), (end,) = (bodies(scene.store, v, "commitInfo") for v in report.versions)
    size = report.plan.size_bytes
    engine = start.pop("engineInfo")
    assert engine.startswith("deltactl/")
    assert start.pop("txnId") != end.pop("txnId")
    assert end.pop("engineInfo") == engine
    assert start == {
        "timestamp": NOW,
        "operation": "VACUUM START",
        "operationParameters": {
            "retentionCheckEnabled": True,
            "defaultRetentionMillis": 7 * DAY,
            "specifiedRetentionMillis": 8 * DAY,
        },
        "readVersion": version,
        "isolationLevel": "SnapshotIsolation",
        "isBlindAppend": True,
        "operationMetrics": {"numFilesToDelete": "1", "sizeOfDataToDelete": str(size)},
    }
    assert end == {
        "timestamp": NOW,
        "operation": "VACUUM END",
        "operationParameters": {"status": "COMPLETED"},
        "readVersion": version + 1,
        "isolationLevel": "SnapshotIsolation",
        "isBlindAppend": True,
        "operationMetrics": {"numDeletedFiles": "1", "numVacuumedDirectories": "1"},
    }


def test_in_commit_timestamps_go_on_rising() -> None:
    scene = Scene("inCommitTimestamp")
    path, keep = scene.append(60, "a", "b")
    scene.remove(40, path)
    report = scene.vacuum()
    (start,), (end,) = (bodies(scene.store, v, "commitInfo") for v in report.versions)
    assert [it["inCommitTimestamp"] for it in (start, end)] == [NOW, NOW + 1]


def test_nothing_to_do_commits_nothing() -> None:
    scene = Scene()
    scene.append(60)
    report = scene.vacuum()
    assert report.plan.is_empty
    assert commit_path(scene.builder.version + 1) not in scene.store.contents()


class Lossy(FaultyStore):
    """Refuses to delete some files, and lies about others."""

    def __init__(self, inner: Store, refuse: str = "", lie: str = "") -> None:
        super().__init__(inner)
        self._refuse, self._lie = refuse, lie

    def delete_many(self, names: Any) -> dict[str, StorageError]:
        errors = {n: StorageError(f"no, not {n}") for n in names if n == self._refuse}
        kept = {*errors, self._lie}
        return errors | super().delete_many([n for n in names if n not in kept])


def test_only_confirmed_deletes_count() -> None:
    scene = Scene()
    paths = scene.append(60, *"abcd")
    scene.remove(40, *paths[1:])
    report = scene.vacuum(Lossy(scene.dated(), refuse=paths[1], lie=paths[2]))
    assert report.files_removed == 1
    assert {f.path: f.reason for f in report.failures} == {
        paths[1]: f"no, not {paths[1]}",
        paths[2]: "the store reported that it was deleted, but it still exists",
    }
    (end,) = bodies(scene.store, report.versions[-1], "commitInfo")
    assert end["operationParameters"] == {"status": "FAILED"}
    assert f"{LOG}/_last_vacuum_info" not in scene.store.contents()
    assert scene.vacuum().files_removed == 2


def test_a_vacuum_that_cannot_be_recorded_has_ended_all_the_same() -> None:
    class Protected(ForwardingStore):
        def put(self, name: str, data: bytes) -> None:
            if name == f"{LOG}/_last_vacuum_info":
                raise AccessDeniedError(f"cannot write {name!r}: Permission denied")
            super().put(name, data)

    scene = Scene()
    scene.remove(40, *scene.append(60, *"abc")[1:])
    for count in (2, 0):
        report = scene.vacuum(Protected(scene.dated()))
        assert (report.files_removed, report.failures, report.stopped) == (count, (), None)
    assert scene.said == 2 * [
        "the vacuum has ended, but this was not recorded: cannot write "
        "'_delta_log/_last_vacuum_info': Permission denied. The next vacuum considers the same "
        "commits again, or lists all files"
    ]


@pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
def test_an_error_of_the_caller_ends_the_vacuum(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    scene = Scene()
    scene.remove(40, *scene.append(60, *"abc")[1:])

    def fail(progress: object) -> None:
        raise error

    context = replace(scene.context(), on_progress=fail)
    monkeypatch.setattr(scene, "context", lambda: context)
    with pytest.raises(error):
        scene.vacuum()
    (end,) = bodies(scene.store, latest(scene.store), "commitInfo")
    assert (end["operation"], end["operationParameters"]["status"]) == ("VACUUM END", "FAILED")


def test_a_clock_that_runs_behind_moves_the_cutoff_or_refuses() -> None:
    scene = Scene()
    path, keep = scene.append(60, "a", "b")
    scene.remove(40, path)
    scene.plant(7 + 1 / 48, "old.parquet")
    report = scene.vacuum(scene.dated(behind_ms=HOUR - 1))
    assert report.changed == ("old.parquet",)
    assert report.clock_skew_ms == HOUR - 1
    assert scene.names() == {keep, "old.parquet"}
    with pytest.raises(SafetyError, match="behind"):
        scene.vacuum(scene.dated(behind_ms=HOUR + 1))
    assert scene.names() == {keep, "old.parquet"}
    assert scene.vacuum(scene.dated(behind_ms=-DAY)).files_removed == 1


def test_a_clock_that_runs_behind_makes_removals_look_older_too() -> None:
    """By that clock the file was removed half an hour inside the retention."""
    scene = Scene()
    late, gone, _ = scene.append(60, "a", "b", "c")
    scene.remove(8, gone)
    scene.remove(7 + 1 / 48, late)
    assert set(scene.plan()) == {late, gone}
    report = scene.vacuum(scene.dated(behind_ms=HOUR - 1))
    assert (report.files_removed, report.changed) == (1, (late,))
    assert late in scene.names()
    assert gone not in scene.names()


def test_requests_are_few() -> None:
    """One listing; facts only of what the keep set does not hold."""
    scene = Scene()
    paths = scene.append(60, *"abcdefghij")
    scene.remove(40, paths[0])
    scene.plant(20, "x.parquet")
    counting = CountingStore(scene.store)
    scene.vacuum(counting, dry_run=True)
    assert counting.calls["walk_tree"] == 1
    assert sorted(counting.names["stat_many"]) == sorted([paths[0], "x.parquet"])


def test_the_horizon_shows_what_ends_and_what_it_costs() -> None:
    scene = Scene()
    keep, first = scene.append(60, "a", "b")
    scene.remove(50, first)
    (second,) = scene.append(45, "c")
    scene.remove(40, second)
    report = scene.vacuum()
    horizon = report.plan.horizon
    assert horizon is not None
    sizes = {row["path"]: row["size_bytes"] for row in report.plan.files.to_pylist()}
    assert (horizon.first_version, horizon.last_version) == (0, 4)
    assert horizon.readable == ((0, 4),)
    assert horizon.ends == ((1, 1), (3, 3))
    assert dict(horizon.costs) == {1: sizes[first], 3: sizes[second]}
    assert horizon.cost_bytes == sum(sizes.values())
    scene.plant(30, "x.parquet")
    after = scene.vacuum(dry_run=True).plan.horizon
    assert after is not None
    assert (after.readable, after.ends) == (((0, 0), (2, 2), (4, 6)), ())


def test_the_cost_of_versions_counts_each_file_of_deletion_vectors_once() -> None:
    scene = Scene("deletionVectors")
    first, second, gone = scene.append(60, "a", "b", "c")
    scene.remove(55, gone)
    marked = scene.ago(50, lambda: scene.builder.delete_actions(first, [0]))
    vector = marked[1]["add"]["deletionVector"]
    plain = scene.builder.find(second)
    also = {"add": {**plain, "deletionVector": {**vector, "offset": 5}}}
    actions = [*marked, scene.builder.remove_action(second), also]
    scene.ago(50, lambda: scene.builder.commit(*actions, operation="DELETE"))
    (shared,) = vector_names(scene, vector)
    scene.delete_rows(45, first, 1)
    (next_vector,) = vector_names(scene, scene.builder.find(first)["deletionVector"])
    scene.delete_rows(40, first, 2)
    undone = [scene.builder.remove_action(second), {"add": plain}]
    scene.ago(30, lambda: scene.builder.commit(*undone, operation="RESTORE"))
    plan = scene.vacuum(dry_run=True).plan
    assert plan.horizon is not None
    sizes = {row["path"]: row["size_bytes"] for row in plan.files.to_pylist()}
    assert set(sizes) == {gone, shared, next_vector}
    both = sizes[shared] + sizes[next_vector]
    assert plan.horizon.ends == ((1, 1), (3, 5))
    costs = {1: sizes[gone], 3: sizes[shared], 4: both, 5: sizes[shared]}
    assert dict(plan.horizon.costs) == costs
    assert plan.horizon.cost_bytes == sum(sizes.values())


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_a_live_file_that_a_checkpoint_lacks_refuses(mode: str) -> None:
    """As after a checkpoint of a writer that compares paths alone (trinodb/trino#31252)."""
    scene = Scene("deletionVectors")
    path, gone = scene.append(60, "a", "b")
    scene.delete_rows(50, path, 0)
    scene.remove(40, gone)
    scene.ago(35, scene.builder.checkpoint)
    scene.append(30)
    assert set(scene.plan(mode=mode)) == {gone}
    (name,) = (it for it in scene.store.contents() if it.endswith(".checkpoint.parquet"))

    def lose(actions: list[Any]) -> list[Any]:
        return [it for it in actions if not it["add"] or it["add"]["path"] != path]

    edit_parquet(scene.store, name, lose)
    before = scene.store.contents()
    with pytest.raises(SafetyError, match=re.escape(path)):
        scene.vacuum(mode=mode)
    assert scene.store.contents() == before


def test_a_longer_retention_keeps_the_files_of_versions_before_a_gap() -> None:
    """No commit that is left removed the file, and the checkpoint forgot its tombstone."""
    scene = Scene()
    keep, path = scene.append(60, "a", "b")
    (later,) = scene.append(21)
    gone = scene.remove(20, path, later)
    scene.ago(19, lambda: scene.builder.commit())
    scene.ago(18, scene.builder.checkpoint)
    name = f"{LOG}/{gone + 1:020d}.checkpoint.parquet"
    edit_parquet(scene.store, name, lambda rows: [it for it in rows if it["remove"] is None])
    scene.store.delete_many([commit_path(gone)])
    scene.ago(17, lambda: scene.builder.commit())
    assert scene.needed(gone - 1) == {keep, path, later}
    assert scene.plan(retain_ms=30 * DAY) == {}
    assert scene.plan() == {path: "orphan", later: "orphan"}
