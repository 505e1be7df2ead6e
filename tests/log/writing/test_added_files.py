"""A commit proves that the files that it adds exist."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from deltactl.errors import CommitDamagedError, CorruptLogError, FilesGoneError, StorageError
from deltactl.log.commits import parser
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.writing import added_files
from deltactl.log.writing import transaction as transaction_module
from deltactl.log.writing.actions import Actions, EncodedCommit
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.log.writing.commit_times import choose_times
from deltactl.log.writing.transaction import Transaction
from deltactl.storage.store import FileInfo, Store
from tests.log.writing.test_rewrite import load
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.stores import CountingStore, fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 2,
}
VECTOR_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
HOUR_MS = 3_600_000


class Scene:
    """A table, and a commit that adds files to it."""

    def __init__(self, *paths: str, properties: Mapping[str, str] | None = None) -> None:
        self.store = fresh_store()
        self.builder = TableBuilder(self.store, [Column("id")], properties=properties)
        self.builder.append([{"id": 1}])
        self.paths = paths
        for path in paths:
            self.store.put(path, b"data")
        self.clock = FixedClock()
        self.vector: Mapping[str, Any] | None = None
        self.files: AddedFiles | None = None
        self.more: list[dict[str, Any]] = []

    def content(self) -> bytes:
        lines: list[dict[str, Any]] = [{"commitInfo": {"txnId": self.clock.new_id()}}]
        for path in self.paths:
            add = {"path": path, "partitionValues": {}, "size": 4, "modificationTime": 1}
            lines.append({"add": add | {"dataChange": True, "stats": '{"numRecords":1}'}})
            if self.vector is not None:
                lines[-1]["add"]["deletionVector"] = self.vector
        return b"".join(json.dumps(it).encode() + b"\n" for it in (*lines, *self.more))

    def commit(self, store: Store | None = None) -> CommitBase:
        store = store or self.store
        self.files = self.files or AddedFiles(store, self.clock)
        base = CommitBase.of(load(self.store))
        transaction = Transaction(
            DeltaLog(store, pytest.fail),
            base,
            clock=self.clock,
            sleep=lambda seconds: None,
            files=self.files,
        )
        with patch.object(transaction_module, "encode_commit", self._encode):
            return transaction.commit(_Anything())

    def _encode(self, base: CommitBase, actions: Actions, info: object) -> EncodedCommit:
        return EncodedCommit(self.content(), replace(base, version=base.version + 1), ())

    def vacuum(self) -> None:
        self.builder.commit(operation="VACUUM START")


DESCRIPTION = Description(operation="TEST", parameters={}, engine_info="test")


class _Anything:
    """A commit that nothing prevents."""

    def prepare(self, base: CommitBase) -> Actions:
        return Actions(description=DESCRIPTION, read_version=base.version)

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        pass


class _Hooked(ForwardingStore):
    """Calls functions before and after each put of a commit."""

    def __init__(
        self, inner: Store, before: Sequence[Callable[[], object]] = (), after: Any = None
    ) -> None:
        super().__init__(inner)
        self._before, self._after = list(before), after

    def put_if_absent(self, name: str, data: bytes) -> None:
        if self._before:
            self._before.pop(0)()
        super().put_if_absent(name, data)
        if self._after is not None:
            self._after(name)


def test_a_file_that_is_gone_is_not_committed() -> None:
    scene = Scene("a.parquet", "b c.parquet")
    scene.store.delete_many(["b c.parquet"])
    with pytest.raises(FilesGoneError, match=r"1 file does not exist: 'b c\.parquet'") as caught:
        scene.commit()
    assert caught.value.exit_code == 4
    assert scene.store.stat_many([commit_path(2)]) == [None]


def test_a_deletion_vector_file_counts_too() -> None:
    scene = Scene("a.parquet")
    scene.vector = VECTOR
    with pytest.raises(FilesGoneError, match=VECTOR_FILE):
        scene.commit()
    scene.store.put(VECTOR_FILE, b"vector")
    assert scene.commit().version == 2


def test_an_absolute_path_is_looked_up_where_it_is() -> None:
    other = fresh_store()
    scene = Scene()
    scene.paths = (f"{other.uri}/a.parquet",)
    with pytest.raises(FilesGoneError, match=other.uri):
        scene.commit()
    other.put("a.parquet", b"data")
    assert scene.commit().version == 2


def test_retries_within_a_minute_do_not_look_again() -> None:
    scene = Scene("a.parquet")
    before = [lambda: scene.builder.append([{"id": 2}])] * 3
    counting = CountingStore(scene.store)
    assert scene.commit(_Hooked(counting, before)).version == 5
    assert counting.names["stat_many"].count("a.parquet") == 1


def test_a_retry_after_a_minute_looks_again() -> None:
    scene = Scene("a.parquet")

    def wait_and_delete() -> None:
        scene.builder.append([{"id": 2}])
        scene.clock.advance(60_000)
        scene.store.delete_many(["a.parquet"])

    with pytest.raises(FilesGoneError):
        scene.commit(_Hooked(scene.store, [wait_and_delete]))


def test_a_listing_of_the_run_counts_for_a_minute() -> None:
    scene = Scene("a.parquet")
    scene.files = AddedFiles(scene.store, scene.clock)
    scene.files.listed()
    counting = CountingStore(scene.store)
    scene.clock.advance(59_999)
    scene.commit(counting)
    assert "a.parquet" not in counting.names["stat_many"]
    scene.clock.advance(1)
    scene.store.delete_many(["a.parquet"])
    with pytest.raises(FilesGoneError):
        scene.commit()


def test_foreign_files_are_always_compared_by_one_listing() -> None:
    scene = Scene(*(f"p=1/{n}.parquet" for n in range(20)))
    for path in scene.paths:
        scene.store.set_modified(path, 1)  # as the commit says
    counting = CountingStore(scene.store)
    files = AddedFiles(counting, scene.clock, are_foreign=True)
    files.ensure_present("2.json", scene.content(), [])
    assert counting.names == {"list_from": ["p=1"], "stat_many": []}
    scene.store.put("p=1/3.parquet", b"Data")
    scene.store.delete_many(["p=1/5.parquet"])
    told = r"2 files were deleted or written again: 'p=1/3\.parquet', 'p=1/5\.parquet'"
    with pytest.raises(FilesGoneError, match=told):
        files.ensure_present("2.json", scene.content(), [])


def test_a_listing_of_foreign_files_may_have_another_unit_of_time() -> None:
    scene = Scene(*(f"p=1/{n}.parquet" for n in range(20)))
    for path in scene.paths:
        scene.store.set_modified(path, 1)  # as the commit says

    class Seconds(ForwardingStore):
        def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
            for info in super().list_from(prefix, start):
                yield replace(info, modified_ms=0)

    files = AddedFiles(Seconds(scene.store), scene.clock, are_foreign=True)
    files.ensure_present("2.json", scene.content(), [])
    scene.store.set_modified("p=1/3.parquet", 2)
    with pytest.raises(FilesGoneError, match=r"1 file was deleted or written again: 'p=1/3\."):
        files.ensure_present("2.json", scene.content(), [])


def test_many_files_of_a_directory_need_one_listing() -> None:
    scene = Scene(*(f"p=1/{n}.parquet" for n in range(20)), "p=2/x.parquet")
    counting = CountingStore(scene.store)
    scene.commit(counting)
    assert counting.names["list_from"] == ["p=1"]
    assert [name for name in counting.names["stat_many"] if "/" in name][1:] == ["p=2/x.parquet"]


def test_a_long_commit_is_parsed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added_files, "_BLOCK_BYTES", 500)
    scene = Scene(*(f"p={n}/ä {n}.parquet" for n in range(20)))
    scene.commit()
    scene.store.delete_many(["p=7/ä 7.parquet"])
    scene.clock.advance(60_000)
    with pytest.raises(FilesGoneError, match="1 file does not exist: 'p=7/ä 7.parquet'"):
        scene.commit()


def _lose_first(store: Store) -> Callable[[str], object]:
    return lambda name: store.delete_many(["a.parquet"])


def test_a_file_that_went_with_a_vacuum_is_reported_after_the_commit() -> None:
    scene = Scene("a.parquet")
    hooked = _Hooked(scene.store, [scene.vacuum], _lose_first(scene.store))
    with pytest.raises(CommitDamagedError, match="version 3 of .* 'a.parquet'") as caught:
        scene.commit(hooked)
    assert caught.value.exit_code == 1
    assert f"deltactl restore {scene.store.uri} --to-version 2`" in str(caught.value.hint)
    assert load(scene.store).version == 3


@pytest.mark.parametrize(("elapsed_ms", "is_seen"), [(HOUR_MS - 1, False), (HOUR_MS, True)])
def test_after_half_of_the_retention_the_run_looks_again(elapsed_ms: int, is_seen: bool) -> None:
    scene = Scene(
        "a.parquet", properties={"delta.deletedFileRetentionDuration": "interval 2 hours"}
    )
    scene.files = AddedFiles(scene.store, scene.clock)
    scene.clock.advance(elapsed_ms)
    hooked = _Hooked(scene.store, after=_lose_first(scene.store))
    if is_seen:
        with pytest.raises(CommitDamagedError):
            scene.commit(hooked)
    else:
        assert scene.commit(hooked).version == 2


@pytest.mark.parametrize("retention", ["nonsense", "interval 0 hours"])
def test_a_retention_that_protects_nothing_means_to_look_again(retention: str) -> None:
    scene = Scene("a.parquet", properties={"delta.deletedFileRetentionDuration": retention})
    with pytest.raises(CommitDamagedError):
        scene.commit(_Hooked(scene.store, after=_lose_first(scene.store)))


def test_a_store_that_fails_after_the_commit_is_not_taken_for_success() -> None:
    scene = Scene("a.parquet")

    class Failing(_Hooked):
        def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
            if scene.store.stat_many([commit_path(3)]) != [None]:
                raise StorageError("no answer")
            return super().stat_many(names)

    with pytest.raises(CommitDamagedError, match="not known whether .* no answer"):
        scene.commit(Failing(scene.store, [scene.vacuum]))


def test_a_previous_commit_without_a_time_is_an_error() -> None:
    scene = Scene()
    scene.builder.change_metadata(properties={"delta.enableInCommitTimestamps": "true"})
    base = CommitBase.of(load(scene.store))
    scene.store.put(commit_path(base.version), b'{"commitInfo":{"timestamp":1}}\n')
    with pytest.raises(CorruptLogError, match="has no inCommitTimestamp"):
        choose_times(base, DeltaLog(scene.store, pytest.fail), scene.clock)


def test_a_commit_with_partitions_and_tags_is_not_read_line_by_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = fresh_store()
    store.put("p=1/x", b"data")
    add = {"path": "p=1/x", "partitionValues": {"p": "1"}, "size": 4, "modificationTime": 1}
    line = json.dumps({"add": add | {"dataChange": True, "tags": {"a": "b"}}}).encode()
    files = AddedFiles(store, FixedClock())
    monkeypatch.setattr(parser, "read_lines", None)
    files.ensure_present("0.json", line, ["p"])
    store.delete_many(["p=1/x"])
    with pytest.raises(FilesGoneError, match="p=1/x"):
        AddedFiles(store, FixedClock()).ensure_present("0.json", line, ["p"])


def test_files_that_are_replaced_need_no_request_of_their_own() -> None:
    scene = Scene("p=1/new.parquet")
    replaced = [f"p=1/{n}.parquet" for n in range(20)]
    for name in (*replaced, "p=2/old.parquet"):
        scene.store.put(name, b"data")
        remove = {"path": name, "dataChange": False}
        scene.more.append({"remove": remove | {"deletionTimestamp": 1}})
    counting = CountingStore(scene.store)
    [latest] = scene.store.stat_many(["p=2/old.parquet"])
    assert latest is not None
    files = AddedFiles(counting, scene.clock, dated_ms=latest.modified_ms)
    files.ensure_present("2.json", scene.content(), ["p"])
    assert counting.names == {"list_from": ["p=1"], "stat_many": []}
    scene.store.put(replaced[3], b"Data")
    scene.clock.advance(60_000)
    with pytest.raises(FilesGoneError, match=r"1 file was written again: 'p=1/3\.parquet'"):
        files.ensure_present("2.json", scene.content(), ["p"])
