"""Commits are read once, kept up to a limit, and never confused with those of another table."""

from pathlib import Path

import pytest

from deltactl.errors import CorruptLogError
from deltactl.log.commits import contents
from deltactl.log.commits.contents import CommitReader
from deltactl.storage.store import FileInfo
from deltactl.table import Table
from tests.support.stores import CountingStore, fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path


def build(*texts: bytes) -> tuple[CountingStore, list[FileInfo]]:
    store = CountingStore(fresh_store())
    for version, text in enumerate(texts):
        store.put(commit_path(version), text)
    return store, list(store.list_from("_delta_log"))


def test_a_commit_is_read_once() -> None:
    store, (first, second) = build(b"a", b"b")
    reader = CommitReader(store)
    assert reader.read_one(second).data == b"b"
    assert [it.data for it in reader.read([first, second])] == [b"a", b"b"]
    assert reader.read_one(first).data == b"a"
    assert store.names["read_many"] == [commit_path(1), commit_path(0)]


def test_the_files_that_were_read_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_KEPT_BYTES", 5)
    store, files = build(b"aa", b"bb", b"cc")
    reader = CommitReader(store)
    list(reader.read(files))
    store.names.clear()
    assert [it.data for it in reader.read(files[1:])] == [b"bb", b"cc"]
    assert store.names["read_many"] == []
    assert reader.read_one(files[0]).data == b"aa"
    assert store.names["read_many"] == [commit_path(0)]


def test_a_file_larger_than_the_limit_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_KEPT_BYTES", 5)
    store, (small, large) = build(b"a", b"bbbbbb")
    reader = CommitReader(store)
    for _ in range(2):
        assert [it.data for it in reader.read([small, large])] == [b"a", b"bbbbbb"]
    assert store.names["read_many"].count(commit_path(1)) == 2


def test_the_commit_of_another_table_at_this_address_is_read() -> None:
    store, (old,) = build(b"a")
    reader = CommitReader(store)
    assert reader.read_one(old).data == b"a"
    store.put(commit_path(0), b"b")
    (new,) = store.list_from("_delta_log")
    assert (new.name, new.size_bytes) == (old.name, old.size_bytes)
    assert reader.read_one(new).data == b"b"


@pytest.mark.parametrize("zeros", range(4, 8))
@pytest.mark.parametrize("before", [0, 1])
def test_zero_bytes_in_place_of_a_line_are_named(tmp_path: Path, before: int, zeros: int) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    builder.append([{"id": 1}])
    path = tmp_path / commit_path(builder.version)
    lines = path.read_bytes().splitlines(keepends=True)[:before]
    path.write_bytes(b"".join(lines) + bytes(zeros))
    with pytest.raises(CorruptLogError, match=f"line {before + 1}: it contains only zero bytes$"):
        Table(tmp_path).snapshot()
