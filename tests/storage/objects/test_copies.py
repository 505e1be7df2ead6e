"""Copies of listed files: made once, as good as the listing, gone when nobody needs them."""

import gc
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltactl.storage.objects.copies import ListedCopies
from deltactl.storage.store import FileInfo

NAME = "_delta_log/1.checkpoint.parquet"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Downloads:
    def __init__(self, content: bytes = b"1") -> None:
        self.content, self.count = content, 0

    def __call__(self, path: str) -> None:
        self.count += 1
        Path(path).write_bytes(self.content)


def opened(copies: ListedCopies, download: Callable[[str], None]) -> Any:
    file = copies.open(NAME, download)
    assert file is not None
    return file


def listed(size_bytes: int = 1, modified_ms: int = 0) -> FileInfo:
    return FileInfo(NAME, size_bytes, modified_ms)


def test_a_listed_file_is_fetched_once(folder: Path) -> None:
    copies, downloads = ListedCopies(), Downloads()
    assert copies.open(NAME, downloads) is None, "nobody has listed it"
    copies.note("_delta_log", [listed()])
    for _ in range(2):
        with opened(copies, downloads) as file:
            assert file.read() == b"1"
    assert downloads.count == 1
    assert len(list(folder.iterdir())) == 1


def test_a_listing_that_says_otherwise_ends_a_copy(folder: Path) -> None:
    copies, downloads = ListedCopies(), Downloads()
    copies.note("_delta_log", [listed()])
    held = opened(copies, downloads)
    copies.note("_delta_log", [listed(modified_ms=5)])
    assert list(folder.iterdir()) == []
    assert held.read() == b"1", "who reads it already reads on"
    downloads.content = b"2"
    with opened(copies, downloads) as file:
        assert file.read() == b"2"
    copies.forget(NAME)
    assert list(folder.iterdir()) == []


def test_a_forked_process_keeps_the_copies_of_its_parent(folder: Path) -> None:
    copies = ListedCopies()
    copies.note("_delta_log", [listed()])
    opened(copies, Downloads()).close()
    child = os.fork()
    if child == 0:
        copies.forget(NAME)
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(folder.iterdir())) == 1


def test_copies_go_with_their_store(folder: Path) -> None:
    gc.freeze()  # what other tests left is not looked through
    copies = ListedCopies()
    copies.note("_delta_log", [listed()])
    opened(copies, Downloads()).close()
    assert len(list(folder.iterdir())) == 1
    del copies
    gc.collect()
    assert list(folder.iterdir()) == []


def test_a_download_that_fails_leaves_nothing(folder: Path) -> None:
    def fail(path: str) -> None:
        raise OSError("cut off")

    gc.freeze()
    copies = ListedCopies()
    copies.note("_delta_log", [listed()])
    with pytest.raises(OSError, match="cut off") as failure:
        copies.open(NAME, fail)
    del failure
    gc.collect()
    assert list(folder.iterdir()) == []


def test_without_room_there_is_no_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=100))
    copies, downloads = ListedCopies(), Downloads()
    copies.note("_delta_log", [listed(size_bytes=51)])
    assert copies.open(NAME, downloads) is None
    copies.note("_delta_log", [listed(size_bytes=50)])
    opened(copies, downloads).close()
    assert downloads.count == 1
