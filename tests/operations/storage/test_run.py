"""What the files of a table are for, compared with a dry run of vacuum and with the tables."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from deltactl import Table
from deltactl.errors import UsageError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.clone_notes import mark_running, read_notes
from deltactl.operations.storage.options import StorageOptions
from deltactl.operations.storage.report import Reason, StorageReport, Use
from deltactl.operations.storage.run import survey_storage
from deltactl.operations.vacuum.inventory import read_inventory
from deltactl.operations.vacuum.options import Orphans
from deltactl.storage.store import Store
from tests.support.stores import CountingStore, MemoryStore, opened_as
from tests.support.table_builder import LOG
from tests.support.vacuum_scenes import DAY, HOUR, NOW, Scene

ID = "6a09e667-f3bc-4908-8b2f-3bcc908bc8a1"
LEFTOVER = f"part-00000-{ID}-c000.snappy.parquet"


def partitioned() -> Scene:
    scene = Scene()
    files = scene.append(60, "a", "b", "c", "d", "e")
    scene.remove(30, files[0])
    scene.remove(5, files[1])
    scene.remove(2, files[2], files[3])
    return scene


def with_vectors() -> Scene:
    scene = Scene("deletionVectors")
    first, second = scene.append(60, "a", "b")
    scene.delete_rows(40, first, 1)
    scene.delete_rows(20, second, 0)
    scene.delete_rows(6, first, 35)
    scene.remove(3, second)
    scene.delete_rows(1, first, 40)
    return scene


def with_change_data() -> Scene:
    scene = Scene("changeDataFeed")
    scene.append(60, "a")
    for days, name in ((35, "x y"), (4, "z")):
        scene.plant(days, f"_change_data/{name}.parquet")
        path = f"_change_data/{name.replace(' ', '%20')}.parquet"
        cdc = {"path": path, "size": 7, "dataChange": False, "partitionValues": {}}
        scene.ago(days, partial(scene.builder.commit, {"cdc": cdc}))
    return scene


def cloned() -> Scene:
    scene = Scene("deletionVectors")
    used, gone, _ = scene.append(60, "a", "b", "c")
    scene.delete_rows(55, used, 0)
    scene.clone(50, used)
    scene.remove(40, used, gone)
    return scene


def converted() -> Scene:
    scene = Scene()
    first, _ = scene.append(60, "a", "b")
    scene.plant(50, "p=a/events.parquet", LEFTOVER)
    scene.ago(45, lambda: scene.builder.commit(operation="CONVERT"))
    scene.remove(30, first)
    return scene


def crowded() -> Scene:
    """All that may be in a directory besides the table."""
    scene = partitioned()
    scene.plant(50, LEFTOVER, "p=a/notes.txt", "sub/_delta_log/0.json", "sub/x.parquet", "_x/y")
    scene.plant(1, f"p=b/{LEFTOVER}")
    scene.plant(20, "_deltactl/quarantine/r/p=a/x.parquet", "_deltactl/vacuum/r/run.json")
    scene.ago(10, lambda: scene.builder.checkpoint(kind="v2-json"))
    scene.ago(9, lambda: scene.builder.commit())
    scene.plant(9, f"{LOG}/{4:020d}.crc", f"{LOG}/_staged_commits/{9:020d}.{ID}.json")
    name = next(iter(scene.needed(1) - scene.needed(2)))
    scene.ago(9, lambda: scene.store.put("_symlink_format_manifest/manifest", name.encode()))
    return scene


SCENES: list[Callable[[], Scene]] = [
    partitioned, with_vectors, with_change_data, cloned, converted, crowded,
]  # fmt: skip


def survey(
    scene: Scene, store: Store | None = None, orphans: Orphans = "keep", **options: Any
) -> StorageReport:
    store = store or scene.dated()
    with opened_as(store):
        return survey_storage(
            DeltaLog(store, ignore_warning).read_only(),
            StorageOptions(**options),
            scene.context(),
            orphans=orphans,
        )


@pytest.mark.parametrize("orphans", ["keep", "named"])
@pytest.mark.parametrize("make", SCENES)
def test_removable_is_what_a_dry_run_of_vacuum_says(
    make: Callable[[], Scene], orphans: Orphans
) -> None:
    scene = make()
    before = scene.store.contents()
    plan = scene.vacuum(dry_run=True, orphans=orphans).plan
    report = survey(scene, orphans=orphans)
    removable = report.reasons.get(Reason.REMOVABLE, Use(0, 0))
    assert removable == Use(plan.files.num_rows, plan.size_bytes)
    assert report.removable == plan.by_reason()
    assert report.total == Use(len(before), sum(map(len, before.values())))
    assert report.bytes_after_vacuum == report.total.bytes - plan.size_bytes
    assert scene.store.contents() == before


@pytest.mark.parametrize("make", SCENES)
def test_a_vacuum_on_each_day_removes_what_was_said(make: Callable[[], Scene]) -> None:
    """Every future day: all files up to it, and none before."""
    scene = make()
    report = survey(scene)
    removed = report.reasons.get(Reason.REMOVABLE, Use(0, 0)).bytes
    for day, use in report.days:
        removed += use.bytes
        scene.clock.advance((day + 1) * DAY - scene.clock.now_ms())
        assert scene.vacuum(dry_run=True, orphans="keep").plan.size_bytes == removed
    assert sum(it.use.bytes for it in report.versions) == sum(use.bytes for _, use in report.days)


def test_every_reason() -> None:
    scene = crowded()
    report = survey(scene)
    counts = {reason: use.files for reason, use in report.reasons.items()}
    log = [name for name in scene.store.contents() if name.startswith(f"{LOG}/")]
    assert counts == {
        Reason.LIVE: 1,
        Reason.TIME_TRAVEL: 3,
        Reason.UNREFERENCED: 3,
        Reason.KEPT: 1,
        Reason.COMMITS: 7,
        Reason.CHECKPOINTS: 1,
        Reason.SIDECARS: 2,
        Reason.OTHER_LOG_FILES: len(log) - 10,
        Reason.MANIFESTS: 1,
        Reason.QUARANTINE: 1,
        Reason.DELTACTL: 1,
        Reason.OTHER_TABLES: 2,
        Reason.OTHER_FILES: 1,
    }
    kinds = survey(with_vectors()).reasons
    assert (kinds[Reason.LIVE].files, kinds[Reason.DELETION_VECTORS].files) == (1, 4)
    assert survey(with_change_data()).reasons[Reason.CHANGE_DATA].files == 1
    assert survey(cloned()).reasons[Reason.NEEDED_ELSEWHERE].files == 2


@pytest.mark.parametrize("running", [False, True])
def test_a_clone_that_cannot_be_read_only_warns(running: bool) -> None:
    scene = Scene()
    used, _ = scene.append(60, "a", "b")
    clone = scene.clone(50, used)
    scene.remove(40, used)
    clone.store.delete_many([name for names in clone.store.walk() for name in names])
    if running:
        (note,) = read_notes(scene.store)
        scene.ago(0, lambda: mark_running(scene.store, note))
    assert survey(scene).reasons[Reason.REMOVABLE].files == 1
    (said,) = scene.said
    assert f"'{clone.store.uri}'" in said
    assert ("may be running" in said) is running
    assert "but a vacuum would be refused" in said


@pytest.mark.parametrize("forgets", [False, True])
def test_versions_that_removed_files(forgets: bool) -> None:
    scene = partitioned()
    if forgets:
        scene.ago(0.5, lambda: scene.builder.checkpoint())
        scene.builder.forget_commits(scene.builder.version + 1)
    report = survey(scene)
    rows = [(it.version, it.removed_ms, it.removable_ms, it.use.files) for it in report.versions]
    times = [NOW - 2 * DAY, NOW - 5 * DAY]
    if forgets:  # only the tombstones are left
        assert [row[0] for row in rows] == [None]
        assert [(day, use.files) for day, use in report.days] == [
            ((time + 7 * DAY) // DAY, files)
            for time, files in zip(reversed(times), (1, 2), strict=True)
        ]
    else:
        assert [(row[0], row[3]) for row in rows] == [(4, 2), (3, 1)]
        for (_, removed_ms, removable_ms, _), time in zip(rows, times, strict=True):
            assert removed_ms is not None
            assert removable_ms is not None
            assert abs(removed_ms - time) <= 1000
            assert removable_ms == removed_ms + 7 * DAY


def test_the_retention_that_halves_the_bill() -> None:
    scene = Scene()
    old, recent = scene.append(60, "a", "b")
    assert survey(scene).halving_ms is None
    scene.remove(5, old)
    scene.remove(1, recent)
    size = sum(map(len, scene.store.contents().values()))
    scene.store.put(old, b"x" * 4 * size)
    scene.store.set_modified(old, NOW - 60 * DAY)
    report = survey(scene, price=2.0)
    assert report.halving_ms in (5 * DAY, 5 * DAY - HOUR)  # a commit is some ms later
    shorter: dict[str, Any] = {"retain_ms": report.halving_ms, "force_retention": True}
    left = (
        report.total.bytes - scene.vacuum(dry_run=True, orphans="keep", **shorter).plan.size_bytes
    )
    assert left <= report.total.bytes / 2
    assert report.cost(1 << 30) == 2.0
    assert report.cost(report.total.bytes) == report.to_dict()["bill"]["now"]["cost"]
    scene.clock.advance(3 * DAY)
    assert survey(scene).halving_ms == 7 * DAY


def test_the_log_cleanup_is_that_of_checkpoint() -> None:
    scene = Scene()
    for days in (60, 50, 40):
        scene.append(days)
    report = survey(scene)
    with opened_as(scene.dated()):
        options = CheckpointOptions(cleanup=True)
        log = DeltaLog(scene.dated(), ignore_warning).read_only()
        planned = checkpoint_table(log, options, scene.context(), dry_run=True).cleanup
    assert planned is not None
    assert planned.files
    assert report.cleanup == Use(len(planned.files), planned.size_bytes)
    assert report.bytes_after_cleanup == report.bytes_after_vacuum - planned.size_bytes


def test_one_listing_and_no_data_file() -> None:
    scene = with_vectors()
    counting = CountingStore(scene.dated())
    survey(scene, counting)
    assert counting.calls["walk_tree"] == 1
    read = {name for method, names in counting.names.items() if "read" in method for name in names}
    read |= {*counting.names.get("open_input", ())}
    assert all(name.startswith((f"{LOG}/", "_deltactl/")) for name in read)
    assert not counting.touched(next(iter(scene.needed(scene.builder.version))))


def write_inventory(scene: Scene, path: Path) -> str:
    rows = [
        f"{scene.store.uri}/{info.name},{info.size_bytes},false,{info.modified_ms}"
        for info in scene.store.stat_many([*scene.store.contents()])
        if info is not None
    ]
    path.write_text("\n".join(["path,length,isDir,modificationTime", *rows, *rows[:2]]) + "\n")
    return str(path)


@pytest.mark.parametrize("make", SCENES)
def test_an_inventory_says_the_same(make: Callable[[], Scene], tmp_path: Path) -> None:
    scene = make()
    file = write_inventory(scene, tmp_path / "files.csv")
    counting = CountingStore(scene.dated())
    report = survey(scene, counting, inventory=file)
    assert report == replace(survey(scene), is_listed=False)
    assert counting.calls["walk_tree"] == counting.calls["stat_many"] == 0


@pytest.mark.parametrize("has_times", [True, False])
def test_an_inventory_of_s3_needs_sizes_and_times(tmp_path: Path, has_times: bool) -> None:
    rows = {
        "bucket": ["lake", "lake", "lake"],
        "key": ["t%20/a", "t%20/folder/", "u/b"],
        "size": [7, 0, 8],
        "last_modified_date": pa.array([1_700_000_000_123] * 3, pa.timestamp("ms")),
    }
    if not has_times:
        del rows["last_modified_date"]
    file = str(tmp_path / "1.parquet")
    parquet.write_table(pa.table(rows), file)
    store = MemoryStore("s3://lake/t%20")
    if not has_times:
        with pytest.raises(UsageError, match="no modification times"):
            read_inventory(store, file, {}, facts=True)
        return
    found = read_inventory(store, file, {}, facts=True).rows().to_pylist()
    assert found == [
        {"path": "a", "size_bytes": 7, "modified_ms": 1_700_000_000_123, "position": 0}
    ]


@pytest.mark.parametrize("price", ["abc", "", "nan", "-1", -0.5, 1e300, float("inf")])
def test_a_price_that_is_none(price: Any) -> None:
    with pytest.raises(UsageError, match="is not a price") as refused:
        Table("/nowhere").storage(price=price)
    assert "such as 0.023" in str(refused.value.hint)
