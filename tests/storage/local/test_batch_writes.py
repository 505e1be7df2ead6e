"""Many files of a disk put together: what is seen when, and what is left where it goes wrong."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltactl.errors import SafetyError, StorageError
from deltactl.storage.local import paths as local_paths
from deltactl.storage.local import store as local_store
from deltactl.storage.local.store import LocalStore

NAMES = [f"m/p={number}/manifest" for number in range(8)]
STEPS = ("write", "fsync", "replace")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    found = LocalStore(str(tmp_path / "t"))
    for name in NAMES[:4]:
        found.put(name, b"old")
    return found


def contents(store: LocalStore) -> dict[str, bytes]:
    """All files, hidden ones too."""
    names = [name for batch in store.walk() for name in batch]
    return dict(zip(names, store.read_many(names), strict=True))


def new_files() -> list[tuple[str, bytes]]:
    return [(name, f"new {name}".encode()) for name in NAMES]


def note_steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls to the system, in order; folders are flushed under another name."""
    steps: list[str] = []
    for step in STEPS:
        real = getattr(os, step)

        def noted(*arguments: object, _step: str = step, _real: object = real) -> object:
            steps.append(_step)
            return _real(*arguments)  # type: ignore[operator]

        monkeypatch.setattr(os, step, noted)

    def note_folder(folder: str) -> None:
        steps.append("folder")

    monkeypatch.setattr(local_store, "sync_directory", note_folder)
    return steps


def test_all_are_flushed_before_the_first_is_seen_and_folders_last(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = note_steps(monkeypatch)
    assert store.put_many(new_files()) == 8
    # 8 folders, the one they lie in, and the root
    assert steps == ["write"] * 8 + ["fsync"] * 8 + ["replace"] * 8 + ["folder"] * 10
    assert contents(store) == dict(new_files())


def test_files_of_more_than_one_batch(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_store, "_MAX_BATCH_FILES", 3)
    steps = note_steps(monkeypatch)
    assert store.put_many(iter(new_files())) == 8
    assert [steps.index("replace"), steps.count("replace")] == [6, 8]
    assert contents(store) == dict(new_files())


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("at", range(1, 9))
def test_an_error_leaves_each_file_old_or_new_and_nothing_hidden(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, step: str, at: int
) -> None:
    before, after, calls = contents(store), dict(new_files()), 0
    real = getattr(os, step)

    def fail(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(errno.ENOSPC, "no space left")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(StorageError, match="no space left"):
            store.put_many(new_files())
    now = contents(store)
    if step != "replace":
        assert now == before
    assert all(content in (before.get(name), after[name]) for name, content in now.items())
    assert before.keys() <= now.keys()
    assert store.put_many(new_files()) == 8
    assert contents(store) == after


def test_a_source_that_raises_changes_nothing(store: LocalStore) -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        yield from new_files()
        raise KeyboardInterrupt

    before = contents(store)
    with pytest.raises(KeyboardInterrupt):
        store.put_many(files())
    assert contents(store) == before


def test_checksums_of_hadoop_go_with_what_is_replaced(store: LocalStore, tmp_path: Path) -> None:
    checksum = tmp_path / "t/m/p=0/.manifest.crc"
    checksum.write_bytes(b"old sum")
    store.put_many(new_files())
    assert not checksum.exists()


def test_a_folder_that_becomes_a_link_meanwhile_is_refused(
    store: LocalStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    (outside / "p=1").mkdir(parents=True)

    def files() -> Iterator[tuple[str, bytes]]:
        yield NAMES[0], b"new"
        (tmp_path / "t/m").rename(tmp_path / "t/moved")
        (tmp_path / "t/m").symlink_to(outside)
        yield NAMES[1], b"new"

    with pytest.raises(SafetyError):
        store.put_many(files())
    assert [path.name for path in outside.rglob("*")] == ["p=1"]


def test_folders_behind_a_link_inside_the_root(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "t/real").mkdir()
    (tmp_path / "t/link").symlink_to("real")
    assert store.put_many([("link/x/y", b"1"), ("link/z", b"2"), ("link/x/w", b"3")]) == 3
    assert store.read("real/x/y") + store.read("real/z") + store.read("real/x/w") == b"123"


def test_a_root_that_does_not_exist_is_made_and_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(local_paths, "sync_directory", flushed.append)
    assert LocalStore(str(tmp_path / "new")).put_many([("a", b"1"), ("b/c", b"2")]) == 2
    assert (tmp_path / "new/b/c").read_bytes() == b"2"
    assert flushed == [str(tmp_path)]


def test_a_file_that_has_the_name_of_a_folder(store: LocalStore) -> None:
    with pytest.raises(StorageError, match="m/p=0/manifest"):
        store.put_many([("m/p=9/x", b"1"), ("m/p=0/manifest/x", b"2")])
    assert contents(store) == dict.fromkeys(NAMES[:4], b"old")
