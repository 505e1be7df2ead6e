"""One winner for each name, whatever the file system can and cannot do."""

import errno
import itertools
import multiprocessing
import os
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from deltactl.errors import CommitOutcomeUnknownError, ObjectExistsError, StorageError
from deltactl.storage.local import exclusive
from deltactl.storage.local.store import LocalStore
from tests.support.commits import put_commit

pytestmark = pytest.mark.thorough

PROCESSES = 8
NAMES = [f"_delta_log/{i:020d}.json" for i in range(50)]


def _race(root: str, number: int) -> list[str]:
    store = LocalStore(root)
    won = []
    for name in NAMES:
        try:
            store.put_if_absent(name, f"{number}".encode() * 1000)
        except ObjectExistsError:
            continue
        won.append(name)
    return won


def _race_with_renames(root: str, number: int) -> list[str]:
    os.link = _no_links
    return _race(root, number)


def _no_links(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "links are not supported")


@pytest.mark.parametrize("race", [_race, _race_with_renames])
def test_many_processes_one_winner_each(race: object, tmp_path: Path) -> None:
    assert callable(race)
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES) as pool:
        won = pool.starmap(race, [(str(tmp_path), number) for number in range(PROCESSES)])
    assert sorted(name for names in won for name in names) == NAMES
    for number, names in enumerate(won):
        for name in names:
            assert (tmp_path / name).read_bytes() == f"{number}".encode() * 1000
    assert sorted(os.listdir(tmp_path / "_delta_log")) == [os.path.basename(it) for it in NAMES]


@pytest.mark.parametrize("error", [errno.EEXIST, errno.EIO, errno.EPERM])
def test_a_link_that_landed_is_ours_whatever_was_said(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_and_lose_the_reply(source: str, target: str) -> None:
        link(source, target)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", link_and_lose_the_reply)
    LocalStore(str(tmp_path)).put_if_absent("x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("name", ["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"])
def test_without_links_a_rename_decides(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=OSError(getattr(errno, name), "no links"))
    monkeypatch.setattr(os, "link", fail)
    store = LocalStore(str(tmp_path))
    store.put_if_absent("x", b"1")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("x", b"2")
    assert (tmp_path / "x").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["x"]


def test_without_either_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Mock(side_effect=OSError(errno.EINVAL, "no such rename"))
    monkeypatch.setattr(os, "link", _no_links)
    for rename in (None, fail):
        monkeypatch.setattr(exclusive, "_find_exclusive_rename", lambda found=rename: found)
        with pytest.raises(StorageError, match="has no hard links") as caught:
            LocalStore(str(tmp_path)).put_if_absent("x", b"1")
        assert caught.value.hint
        assert type(caught.value) is StorageError
    assert os.listdir(tmp_path) == []


def test_a_move_to_another_file_system_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=OSError(errno.EXDEV, "Invalid cross-device link"))
    monkeypatch.setattr(os, "link", fail)
    monkeypatch.setattr(exclusive, "_find_exclusive_rename", lambda: fail)
    store = LocalStore(str(tmp_path))
    store.put("a/x", b"1")
    store.put("a/y", b"1")
    failed = store.move_many([("a/x", "b/x"), ("a/y", "b/y")])
    assert [*failed] == ["a/x", "a/y"]
    assert "its directory is on another file system" in failed["a/x"].message
    assert store.read("a/x") == b"1"


@pytest.mark.parametrize("refusal", [errno.EPERM, errno.EINVAL])
@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_cannot_be_moved_stops_no_other(
    has_links: bool, refusal: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an immutable file, or one of another user in a sticky directory."""
    link = os.link

    def refuse_one(source: str, target: str, **options: bool) -> None:
        if not has_links or source.endswith("/x"):
            raise OSError(errno.EPERM, "Operation not permitted")
        link(source, target, **options)

    fail = Mock(side_effect=OSError(refusal, "no such rename"))
    store = LocalStore(str(tmp_path))
    for name in ("a/x", "a/y"):
        store.put(name, b"1")
    monkeypatch.setattr(os, "link", refuse_one)
    monkeypatch.setattr(exclusive, "_find_exclusive_rename", lambda: fail)
    failed = store.move_many([("a/x", "b/x"), ("a/y", "b/y")])
    assert [*failed] == (["a/x"] if has_links else ["a/x", "a/y"])
    said = "Operation not permitted" if has_links else "this file system has no hard links"
    assert said in failed["a/x"].message
    assert os.listdir(tmp_path / "b") == (["y"] if has_links else [])


def test_a_commit_is_lost_on_a_file_system_with_one_number_for_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "samestat", lambda one, other: True)
    store = LocalStore(str(tmp_path))
    store.put("a", b"theirs")
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("a", b"ours")
    assert store.read("a") == b"theirs"


@pytest.mark.parametrize("linked", ["b", "b/x"])
def test_a_move_to_a_link_to_the_file_itself_keeps_the_file(linked: str, tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("a/x", b"1")
    backup = tmp_path / "backup"
    backup.hardlink_to(tmp_path / "a/x")
    (tmp_path / linked).parent.mkdir(exist_ok=True)
    (tmp_path / linked).symlink_to(tmp_path / linked.replace("b", "a"))
    failed = store.move_many([("a/x", "b/x")])
    assert isinstance(failed["a/x"], ObjectExistsError)
    assert store.read("a/x") == b"1"


@pytest.mark.parametrize("is_link", [True, False])
def test_a_move_that_was_killed_between_its_two_steps_is_completed(
    is_link: bool, tmp_path: Path
) -> None:
    store = LocalStore(str(tmp_path))
    store.put("y", b"1")
    store.put("b/y", b"1")
    (tmp_path / "a").mkdir()
    if is_link:
        (tmp_path / "a/x").symlink_to("../y")
    else:
        store.put("a/x", b"1")
    os.link(tmp_path / "a/x", tmp_path / "b/x", follow_symlinks=False)
    assert store.move_many([("a/x", "b/x")]) == {}
    assert not (tmp_path / "a/x").is_symlink()
    assert (os.listdir(tmp_path / "a"), store.read("b/x")) == ([], b"1")


def test_another_error_of_the_link_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = Mock(side_effect=OSError(errno.EIO, "broken"))
    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StorageError, match="broken"):
        LocalStore(str(tmp_path)).put_if_absent("x", b"1")
    assert os.listdir(tmp_path) == []


def test_a_dangling_link_is_a_taken_name(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("nowhere")
    with pytest.raises(ObjectExistsError):
        LocalStore(str(tmp_path)).put_if_absent("x", b"1")
    assert not (tmp_path / "nowhere").exists()


def test_content_is_durable_before_its_name_and_the_name_before_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor: int) -> None:
        is_directory = os.path.isdir(f"/proc/self/fd/{descriptor}")
        steps.append("sync folder" if is_directory else "sync content")
        fsync(descriptor)

    def watched_link(source: str, target: str) -> None:
        steps.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    store = LocalStore(str(tmp_path))
    store.put_if_absent("_delta_log/0.json", b"1")
    # The new log folder's own entry in the root comes first.
    assert steps == ["sync folder", "sync content", "link", "sync folder"]


def test_a_backup_that_linked_the_hidden_file_does_not_win_the_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_for_a_backup_then_for_us(source: str, target: str) -> None:
        link(source, tmp_path / "backup")
        link(source, target)

    store = LocalStore(str(tmp_path))
    store.put_if_absent("x", b"theirs")
    monkeypatch.setattr(os, "link", link_for_a_backup_then_for_us)
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("x", b"ours")
    assert (tmp_path / "x").read_bytes() == b"theirs"


@pytest.mark.parametrize("is_lasting", [True, False])
def test_a_directory_that_cannot_be_synced_is_an_unknown_outcome(
    is_lasting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, failures = os.fsync, itertools.count()

    def fail(descriptor: int) -> None:
        is_directory = os.path.isdir(f"/proc/self/fd/{descriptor}")
        if is_directory and (is_lasting or next(failures) == 0):
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)

    store = LocalStore(str(tmp_path))
    (tmp_path / "_delta_log").mkdir()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CommitOutcomeUnknownError) if is_lasting else nullcontext():
        assert put_commit(store, NAMES[1], b'{"commitInfo":{}}\n')
    assert (tmp_path / NAMES[1]).exists()
