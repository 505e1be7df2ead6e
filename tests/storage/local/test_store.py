"""What only a file system has: links, checksums beside files, permissions, odd names."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from deltactl.errors import (
    AccessDeniedError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
)
from deltactl.storage.local import files as local_files
from deltactl.storage.local.listing import BATCH_NAMES
from deltactl.storage.local.store import LocalStore
from deltactl.storage.local.uris import path_to_uri, uri_to_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    folder.mkdir()
    return folder


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(str(root))


def _names(store: LocalStore, prefix: str = "") -> list[str]:
    return sorted(name for batch in store.walk(prefix) for name in batch)


def test_writes_through_a_link_out_of_the_root_are_refused(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"precious")
    (root / "link").symlink_to(outside)
    (root / "keep").write_bytes(b"")
    for name in ("link/x", "link/new/x"):
        with pytest.raises(SafetyError, match="symbolic link") as caught:
            store.put(name, b"")
        # The run may have changed other files before.
        assert str(caught.value.hint).endswith("Nothing was changed through it.")
        with pytest.raises(SafetyError):
            store.put_if_absent(name, b"")
        with pytest.raises(SafetyError):
            store.put_many([("keep", b""), (name, b"")])
        with pytest.raises(SafetyError):
            store.open_output(name)
        with pytest.raises(SafetyError):
            store.delete_many(["keep", name])
    assert (outside / "x").read_bytes() == b"precious"
    assert os.listdir(outside) == ["x"]
    assert (root / "keep").exists()
    assert store.read("link/x") == b"precious"


def test_a_sibling_with_the_roots_name_as_prefix_is_outside(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "table2").mkdir()
    (root / "link").symlink_to(tmp_path / "table2")
    with pytest.raises(SafetyError):
        store.put("link/x", b"")


def test_links_inside_the_root_may_be_written_through(store: LocalStore, root: Path) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    store.put("link/x", b"1")
    assert store.read("real/x") == b"1"


def test_replacing_or_deleting_a_linked_file_spares_its_target(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    for name in ("a", "b", "c"):
        (root / name).symlink_to(target)
    store.put("a", b"new")
    assert store.delete_many(["b"]) == {}
    with pytest.raises(ObjectExistsError):
        store.open_output("c")
    assert target.read_bytes() == b"precious"
    assert store.read("a") == b"new"
    assert not (root / "b").is_symlink()


def test_walk_does_not_enter_linked_folders(store: LocalStore, root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_bytes(b"")
    (root / "out").symlink_to(tmp_path / "out")
    (root / "circle").symlink_to(root)
    (root / "nowhere").symlink_to("absent")
    (root / "file").symlink_to(tmp_path / "out" / "x")
    assert _names(store) == ["file"]
    assert _names(store, "out") == []
    assert _names(store, "circle") == []
    assert [info.name for info in store.list_from("")] == ["file"]


def test_the_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    store = LocalStore(str(tmp_path / "alias"))
    store.put("x", b"1")
    assert store.uri == path_to_uri(str(root))
    assert _names(store) == ["x"]


def test_parts_that_go_up_remove_a_link_before_them(store: LocalStore, root: Path) -> None:
    """As Hadoop does: Delta on Spark 4.4 read the first of the two files."""
    (root / "a" / "b").mkdir(parents=True)
    (root / "link").symlink_to("a/b")
    (root / "f").write_bytes(b"first")
    (root / "a" / "f").write_bytes(b"second")
    for name in ("link/../f", f"{root}/link/../f", f"file://{root}/link/../f"):
        assert store.read(name) == b"first"
        assert store.real_names([name]) == ["f"]


def test_walk_gives_batches(store: LocalStore, root: Path) -> None:
    for i in range(BATCH_NAMES + 1):
        os.close(os.open(root / f"{i}", os.O_CREAT | os.O_WRONLY))
    sizes = [len(batch) for batch in store.walk()]
    assert sizes == [BATCH_NAMES, 1]


def test_an_existing_root_stays_the_root_of_a_missing_table(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "a" / "b"))
    with store.open_output("p=1/x") as file:
        file.write(b"1")
    store.sync_directories(["p=1/x"])
    assert (tmp_path / "a" / "b" / "p=1" / "x").read_bytes() == b"1"


def test_two_threads_may_make_one_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path / "a"))

    def let_the_other_thread_write(path: str) -> bool:
        monkeypatch.undo()
        store.put_if_absent("log/0", b"other")
        return False

    monkeypatch.setattr("deltactl.storage.local.paths._is_directory", let_the_other_thread_write)
    store.put_if_absent("log/1", b"this")
    assert (store.read("log/0"), store.read("log/1")) == (b"other", b"this")


def test_a_put_flushes_the_folders_that_it_changed(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/b/x", b"")
    synced: list[str] = []
    monkeypatch.setattr("deltactl.storage.local.store.sync_directory", synced.append)
    store.put("a/b/x", b"")
    assert synced == [f"{root}/a/b"]
    store.put("c/d/x", b"")
    assert sorted(synced[1:]) == [str(root), f"{root}/c", f"{root}/c/d"]


def test_each_of_many_folders_is_flushed_once_and_the_one_that_cannot_be_is_named(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a/{number}/{file}" for number in range(20) for file in "xy"]
    for name in names:
        store.put(name, b"")
    synced: list[str] = []
    monkeypatch.setattr("deltactl.storage.local.store.sync_directory", synced.append)
    store.sync_directories(names)
    assert sorted(synced) == sorted([str(root), f"{root}/a", *(f"{root}/a/{n}" for n in range(20))])

    def fail(folder: str) -> None:
        if folder.endswith("/7"):
            raise OSError(errno.EIO, "the device failed")

    monkeypatch.setattr("deltactl.storage.local.store.sync_directory", fail)
    with pytest.raises(StorageError, match="'a/7/x'.*the device failed"):
        store.sync_directories(names)


def test_hadoop_checksums_go_with_their_files(store: LocalStore, root: Path) -> None:
    for name in ("replaced", "deleted", "absent", "taken"):
        (root / f".{name}.crc").write_bytes(b"old sum")
    for name in ("replaced", "deleted", "taken"):
        (root / name).write_bytes(b"old")
    store.put("replaced", b"new")
    store.put_if_absent("absent", b"new")
    assert store.delete_many(["deleted"]) == {}
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("taken", b"new")
    assert sorted(os.listdir(root)) == [".taken.crc", "absent", "replaced", "taken"]


def test_put_survives_a_crash_in_between(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("x", b"old")
    fail = Mock(side_effect=OSError("crashed"))
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match="crashed"):
        store.put("x", b"new")
    assert store.read("x") == b"old"
    assert os.listdir(root) == ["x"]


def test_outputs_never_replace(store: LocalStore) -> None:
    store.put("x", b"old")
    with pytest.raises(ObjectExistsError):
        store.open_output("x")
    assert store.read("x") == b"old"


def test_new_files_follow_the_umask(store: LocalStore, root: Path) -> None:
    before = os.umask(0o027)
    try:
        store.put("a", b"")
        store.put_if_absent("b", b"")
        store.open_output("c").close()
    finally:
        os.umask(before)
    assert {os.stat(root / name).st_mode & 0o777 for name in "abc"} == {0o640}


def test_a_file_is_no_folder(store: LocalStore) -> None:
    """Never "exists": a commit would take that for a lost race."""
    store.put("file", b"")
    for name in ("file/x", "file/y/x"):
        with pytest.raises(StorageError) as caught:
            store.put_if_absent(name, b"")
        assert not isinstance(caught.value, ObjectExistsError)
        with pytest.raises(ObjectNotFoundError):
            store.read(name)
    assert store.delete_many(["file/x"]) == {}


def test_a_folder_is_not_deleted(store: LocalStore) -> None:
    store.put("folder/x", b"")
    failed = store.delete_many(["folder", "folder/x"])
    assert list(failed) == ["folder"]
    assert "folder" in failed["folder"].message
    assert _names(store) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")
def test_permissions_are_reported(store: LocalStore, root: Path) -> None:
    store.put("x", b"")
    (root / "x").chmod(0)
    with pytest.raises(AccessDeniedError):
        store.read("x")


@pytest.mark.parametrize("place", ["", "a/b"])
def test_a_walk_names_the_directory_that_cannot_be_read(
    store: LocalStore, root: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("a/b/x", b"")
    scan = os.scandir

    def refuse(path: str) -> Any:
        if path == str(root / place):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    where = f"cannot list {f'{place!r} in ' if place else ''}{store.uri}: Permission denied"
    for walk in (store.walk(), store.walk_tree(lambda name: True)):
        with pytest.raises(AccessDeniedError, match=re.escape(where)):
            list(walk)


def test_names_that_are_no_unicode(store: LocalStore, root: Path) -> None:
    raw = b"\xff\xfe.json"
    try:
        with open(os.fsencode(root) + b"/" + raw, "wb") as file:
            file.write(b"1")
    except OSError:
        pytest.skip("this file system takes Unicode names only")
    store.put("\U0001f389", b"2")
    store.put("z", b"3")
    listed = [info.name for info in store.list_from("")]
    assert [os.fsencode(name) for name in listed] == [b"z", "\U0001f389".encode(), raw]
    assert store.read(listed[-1]) == b"1"
    assert store.delete_many([listed[-1]]) == {}
    with pytest.raises(StorageError):
        store.read("\ud800")


def test_files_that_grow_or_have_no_size_are_read_whole(store: LocalStore) -> None:
    assert b"\n" in store.read("/proc/self/status")
    assert store.read("file:/proc/self/cmdline") == store.read("file:///proc/self/cmdline")


def test_foreign_hosts_are_refused(store: LocalStore) -> None:
    with pytest.raises(StorageError, match="host"):
        store.read("file://elsewhere/x")


@pytest.mark.parametrize("path", ["/a b", "/a%20b", "/ü", "/a#b?c", "/", "/x\udcff", "/a:b@c=d"])
def test_paths_and_uris_are_the_same_thing(path: str) -> None:
    uri = path_to_uri(path)
    assert uri.isascii()
    assert uri_to_path(uri) == path
    assert uri_to_path(uri.replace("file://", "file:", 1)) == path


def test_reading_follows_the_size_limit_of_no_call(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(10_000)
    store.put("x", data)
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 999)))
    assert store.read("x") == data


def test_local_tables_import_neither_fsspec_nor_pyarrow(root: Path) -> None:
    code = (
        "import sys; from deltactl.storage.open import open_store;"
        f"s = open_store({str(root)!r}); s.put('x', b'1'); s.read('x'); list(s.list_from(''));"
        "sys.exit(bool({'fsspec', 'pyarrow', 'asyncio'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_link_that_takes_the_place_of_a_folder_misleads_no_delete(
    store: LocalStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is swapped after the folder was found to lie in the root, before the file goes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"precious")
    store.put("p=0/f", b"old")
    store.put("p=1/f", b"old")
    real = os.open

    def swap_first(path: Any, *arguments: Any, **options: Any) -> int:
        if os.fspath(path).endswith("/p=1"):
            (root / "p=1").rename(tmp_path / "aside")
            (root / "p=1").symlink_to(outside)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", swap_first)
    with pytest.raises(SafetyError, match="was replaced by a link"):
        store.delete_many(["p=0/f", "p=1/f"])
    monkeypatch.undo()
    assert (outside / "f").read_bytes() == b"precious"
    assert (tmp_path / "aside" / "f").read_bytes() == b"old"
    assert not (root / "p=0" / "f").exists()


@pytest.mark.parametrize("opens", ["open_output", "open_replacement"])
def test_large_files_are_written_to_the_disk_before_they_are_closed(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, opens: str
) -> None:
    started: list[int] = []
    monkeypatch.setattr(local_files, "_EARLY_BYTES", 1000)
    monkeypatch.setattr(local_files, "start_writing", started.append)
    with getattr(store, opens)("f") as file:
        for _ in range(5):
            file.write(memoryview(bytes(400)))
        assert started == [file.fileno()]
    assert store.read("f") == bytes(2000)


def test_a_moved_file_has_the_time_of_the_move(store: LocalStore, root: Path) -> None:
    """As on object stores: a vacuum keeps a file that an undo moved back, as long as a new one."""
    store.put("x", b"")
    os.utime(root / "x", (1_000, 1_000))
    assert store.move_many([("x", "a/x")]) == {}
    (moved,) = store.stat_many(["a/x"])
    assert moved is not None
    assert moved.modified_ms > 1_600_000_000_000
