"""Vacuums of tables on disk: links, empty folders, inventories, and the peers as judges."""

import errno
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from deltactl.errors import SafetyError, StorageError, UnsupportedByStoreError, UsageError
from deltactl.operations.vacuum.inventory import read_inventory
from deltactl.operations.vacuum.run import VacuumOptions, VacuumReport, vacuum_table
from deltactl.storage.errors import map_error
from deltactl.storage.local.files import temp_path
from deltactl.storage.local.store import LocalStore
from deltactl.storage.write_guard import refuse_changes
from tests.support.run import run_on
from tests.support.stores import CountingStore, MemoryStore
from tests.support.table_builder import LOG, Column, TableBuilder

DAY_SECONDS = 86_400

pytestmark = pytest.mark.usefixtures("trusted_clock")


def age(path: Path, days: float = 60) -> None:
    """Set the times of everything at and below a path."""
    when = time.time() - days * DAY_SECONDS
    for folder, folders, files in os.walk(path):
        for name in [*files, *folders]:
            os.utime(Path(folder, name), (when, when), follow_symlinks=False)


class Disk:
    """A table on disk, partitioned by ``p``: a live file ``a``, and one of ``b`` removed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "a table"
        self.store = LocalStore(str(self.path))
        self.builder = TableBuilder(
            self.store, [Column("id"), Column("p", "string")], partition_by=["p"]
        )
        self.live, self.gone = self.builder.append([{"id": 1, "p": "a"}], [{"id": 2, "p": "b"}])
        self.builder.remove(self.gone)
        age(self.path)

    def vacuum(self, *, dry_run: bool = False, **options: object) -> VacuumReport:
        fixed: dict[str, Any] = {"mode": "full", "max_orphan_fraction": 1.0}
        settings = {**fixed, **options}
        run = partial(vacuum_table, orphans="all")
        store = refuse_changes(self.store) if dry_run else self.store
        return run_on(store, run, VacuumOptions(**settings), dry_run=dry_run)

    def plan(self, **options: object) -> list[str]:
        return list(self.vacuum(dry_run=True, **options).plan.files["path"].to_pylist())

    def write(self, name: str, days: float = 60) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"planted")
        os.utime(path, (time.time() - days * DAY_SECONDS,) * 2)
        return path


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_incomplete_files_of_killed_runs_go_after_the_retention(disk: Disk) -> None:
    old = [disk.write(temp_path(folder)) for folder in ("p=a", "p=b", "p=a/q=b")]
    kept = [
        disk.write(temp_path("p=a"), days=1),
        disk.write(temp_path("_deltactl/x")),
        disk.write("p=a/.deltactl-1.tmp"),
    ]
    disk.vacuum()
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in kept)


def test_a_quarantine_is_refused_for_a_directory_on_another_file_system(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def device_of(path: str) -> int | None:
        return 2 if path.endswith("p=b") else 1

    monkeypatch.setattr("deltactl.storage.local.store.device_of", device_of)
    with pytest.raises(UnsupportedByStoreError, match="'p=b' .* is on another file system"):
        disk.vacuum(quarantine=True)
    assert len([*(disk.path / LOG).iterdir()]) == disk.builder.version + 1
    assert (disk.path / disk.gone).exists()
    assert disk.vacuum().files_removed == 1


def test_a_full_disk_gets_no_fuller_and_the_needed_space_is_said(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vacuum is what a user runs to free space."""
    put = LocalStore.put

    def fail(store: LocalStore, name: str, data: bytes) -> None:
        if name.endswith("run.json"):
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise map_error(error, "write", name, store.uri) from error
        put(store, name, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "put", fail)
        with pytest.raises(StorageError, match="No space left") as caught:
            disk.vacuum()
    assert "Free 64.2 KiB on the disk" in str(caught.value.hint)
    assert (disk.path / disk.gone).exists()
    assert [*(disk.path / "_deltactl/vacuum").iterdir()] == []
    assert disk.vacuum().files_removed == 1


def test_files_go_and_what_became_empty_with_them(disk: Disk) -> None:
    for name in ("empty", "e1/e2", "young", "_hidden", "p=a/none"):
        (disk.path / name).mkdir(parents=True)
    disk.write("deep/a/b/x.parquet")
    disk.write("half/x.parquet")
    disk.write("half/.keep")
    disk.write("secret/_h/x.parquet")
    age(disk.path)
    os.utime(disk.path / "young")
    report = disk.vacuum()
    assert report.files_removed == 3
    left = {str(p.relative_to(disk.path)) for p in disk.path.rglob("*") if p.is_dir()}
    own = {name for name in left if name.startswith((LOG, "_deltactl"))}
    assert left - own == {"young", "_hidden", "p=a", "half", "secret", "secret/_h"}
    assert disk.vacuum(dry_run=True).plan.files.num_rows == 0
    assert (disk.path / disk.live).exists()


def test_links_are_neither_followed_nor_removed_and_what_they_lead_to_stays(
    disk: Disk, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.parquet").write_bytes(b"x")
    age(tmp_path / "outside")
    disk.write("real/x.parquet")
    disk.write("other.parquet")
    disk.write("old.parquet")
    (disk.path / "away").symlink_to(outside)
    (disk.path / "p=z").symlink_to(disk.path / "real")
    (disk.path / "alias.parquet").symlink_to(disk.path / "other.parquet")
    (disk.path / "foreign.parquet").symlink_to(outside / "x.parquet")
    age(disk.path)
    assert disk.plan() == ["old.parquet", disk.gone]
    report = disk.vacuum()
    assert report.plan.kept["reached by a symbolic link"] == 2
    assert (outside / "x.parquet").exists()
    for name in ("away", "p=z", "alias.parquet", "foreign.parquet", "real/x.parquet"):
        assert (disk.path / name).exists()


def test_a_table_whose_log_is_a_link_is_kept_whole(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    disk.write("nested/x.parquet")
    (disk.path / "nested" / LOG).symlink_to(tmp_path / "log")
    age(disk.path)
    assert disk.plan() == [disk.gone]


def test_manifests_behind_a_link_refuse(disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "manifest").write_text(f"file://{disk.path}/{disk.gone}\n")
    (disk.path / "_symlink_format_manifest").symlink_to(tmp_path / "manifests")
    with pytest.raises(SafetyError, match="link"):
        disk.plan()
    assert disk.plan(ignore_manifests=True) == [disk.gone]


def test_live_files_named_through_a_link_stay(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(disk.path)
    add = disk.builder.find(disk.live)
    disk.builder.remove(disk.live)
    disk.builder.commit({"add": {**add, "path": f"file:{link}/{disk.live}".replace(" ", "%20")}})
    age(disk.path)
    assert disk.plan() == [disk.gone]


def test_names_that_are_not_text_stay(disk: Disk) -> None:
    odd = os.fsencode(disk.path) + b"/bad\xff.parquet"
    Path(os.fsdecode(odd)).write_bytes(b"x")
    age(disk.path)
    report = disk.vacuum()
    assert report.plan.kept["not in the log, and not named by a Delta writer"] == 1
    assert os.path.exists(odd)  # noqa: PTH110 - the name is bytes


def write_inventory(path: Path, *addresses: str) -> str:
    rows = "".join(f"{address},1,false,0\n" for address in addresses)
    path.write_text(f"path,length,isDir,modificationTime\n{rows}")
    return str(path)


def test_a_dumped_listing_serves_as_inventory_without_any_listing(
    disk: Disk, tmp_path: Path
) -> None:
    disk.write("orphan é.parquet")
    disk.write("_x/hidden.parquet")
    dump = str(tmp_path / "listing.parquet")
    listed = disk.plan(dump_listing=dump)
    rows = pq.read_table(dump)
    assert rows.schema.names == ["path", "length", "isDir", "modificationTime"]
    assert f"file:{disk.path}/orphan é.parquet" in rows["path"].to_pylist()
    counting = CountingStore(disk.store)
    report = run_on(
        refuse_changes(counting),
        partial(vacuum_table, orphans="all"),
        VacuumOptions(inventory=dump, max_orphan_fraction=1.0),
        dry_run=True,
    )
    assert report.plan.files["path"].to_pylist() == listed == ["orphan é.parquet", disk.gone]
    assert report.plan.mode == "inventory"
    assert counting.calls["walk_tree"] == 0
    assert counting.names.get("walk") == ["_symlink_format_manifest"]


def test_an_inventory_is_older_than_a_vacuum(disk: Disk, tmp_path: Path) -> None:
    disk.write("orphan.parquet")
    dump = str(tmp_path / "listing.parquet")
    disk.plan(dump_listing=dump)
    (disk.path / disk.gone).unlink()
    found = disk.vacuum(dry_run=True, inventory=dump).plan.horizon
    assert found is not None
    assert found.readable == ((0, 0), (2, 2))
    assert found == disk.vacuum(dry_run=True).plan.horizon


def test_a_listing_creates_no_directory(disk: Disk, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none does not exist, or is not writable"):
        disk.plan(dump_listing=str(tmp_path / "none" / "listing.parquet"))
    assert not (tmp_path / "none").exists()


def test_a_listing_replaces_no_file_of_a_table(disk: Disk) -> None:
    before = {path: path.read_bytes() for path in disk.path.rglob("*") if path.is_file()}
    for path in before:
        with pytest.raises(UsageError, match="is in the table at"):
            disk.plan(dump_listing=str(path))
    assert {path: path.read_bytes() for path in disk.path.rglob("*") if path.is_file()} == before


def test_an_inventory_without_links_and_logs_is_no_way_around_them(
    disk: Disk, tmp_path: Path
) -> None:
    """Live files that the log names through a linked folder, and a table of which it shows data."""
    folder = (disk.path / disk.live).parent
    folder.rename(disk.path / "real")
    folder.symlink_to(disk.path / "real")
    disk.write("nested/p=1/x.parquet")
    disk.write(f"nested/{LOG}/00000000000000000000.json")
    age(disk.path)
    names = [f"real/{Path(disk.live).name}", "nested/p=1/x.parquet", disk.gone]
    addresses = [f"file:{disk.path}/{name}" for name in names]
    inventory = write_inventory(tmp_path / "inventory.csv", *addresses)
    assert disk.plan() == [disk.gone]
    assert disk.plan(inventory=inventory, mode="auto") == [disk.gone]


def test_lite_leaves_alone_what_links_lead_to(disk: Disk, tmp_path: Path) -> None:
    folder = (disk.path / disk.gone).parent
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    report = disk.vacuum(mode="lite")
    assert (report.plan.files.num_rows, report.failures) == (0, ())
    assert report.plan.kept == {"reached by a symbolic link": 1}
    assert report.plan.vacuumed_version is None, "a later run has to come back to it"


def test_an_inventory_is_believed_in_names_only(disk: Disk, tmp_path: Path) -> None:
    """What it says of ages is looked up again; what is gone, or no table can name, is left out."""
    disk.write("young.parquet", days=1)
    strange = [f"/{disk.gone}", f"./{disk.gone}", f"x/../{disk.gone}"]
    names = ["young.parquet", "absent.parquet", disk.gone, *strange]
    addresses = [f"file:{disk.path}/{name}" for name in names]
    elsewhere = [f"file:{disk.path}2/x", f"s3://lake{disk.path}/x", f"file://host{disk.path}/x"]
    inventory = write_inventory(tmp_path / "inventory.csv", *addresses, *elsewhere)
    assert disk.plan(inventory=inventory, mode="auto") == [disk.gone]
    inventory = write_inventory(tmp_path / "inventory.csv", *elsewhere)
    with pytest.raises(UsageError, match="lists 3 names, but none of them is a file in"):
        disk.plan(inventory=inventory, mode="auto")


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "path,length,isDir,modificationTime\n"])
def test_files_that_are_no_inventory_of_this_table(disk: Disk, tmp_path: Path, text: str) -> None:
    inventory = tmp_path / "inventory.csv"
    inventory.write_text(text)
    with pytest.raises(UsageError):
        disk.plan(inventory=str(inventory))
    with pytest.raises(UsageError, match=r"y\.csv does not exist"):
        disk.plan(inventory=str(tmp_path / "y.csv"))
    with pytest.raises(UsageError, match="does not end in"):
        inventory.rename(tmp_path / "x.txt")
        disk.plan(inventory=str(tmp_path / "x.txt"))


@pytest.mark.parametrize("form", ["CSV", "Parquet", "ORC"])
def test_inventories_of_s3_and_gcs_name_objects_of_their_bucket(tmp_path: Path, form: str) -> None:
    keys = ["t/a b/x.parquet", "t/old.parquet", "other/x", "t/deleted.parquet", "t/folder/"]
    if form == "CSV":
        keys = [key.replace(" ", "%20") for key in keys]
    table = pa.table(
        {
            "bucket": ["lake"] * 5,
            "key": keys,
            "is_latest": [True, True, True, False, True],
            "is_delete_marker": [False] * 5,
            "size": [1] * 5,
        }
    )
    file = f"data/1.{form.lower()}"
    data = tmp_path / "dest" / file
    data.parent.mkdir(parents=True)
    match form:
        case "CSV":
            pcsv.write_csv(table, data, pcsv.WriteOptions(include_header=False))
        case "Parquet":
            pq.write_table(table, data)
        case _:
            orc.write_table(table, data)
    manifest = tmp_path / "dest" / "lake" / "daily" / "2024-01-01T00-00Z" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    schema = "Bucket, Key, IsLatest, IsDeleteMarker, Size"
    body = {"fileFormat": form, "fileSchema": schema, "files": [{"key": file}]}
    manifest.write_text(json.dumps(body))
    found = read_inventory(MemoryStore("s3a://lake/t"), str(manifest), {})
    assert found.files.to_pylist() == ["a b/x.parquet", "old.parquet"]
