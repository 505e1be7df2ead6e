"""Files copied from one store to another."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from deltactl.errors import ObjectNotFoundError, SafetyError, StorageError
from deltactl.storage import copying
from deltactl.storage.copying import FileToCopy, copy_many, has_same_bytes
from deltactl.storage.file_copies import CopiedFile, FileCopy, StoredFacts
from deltactl.storage.local import whole_copies
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes
from tests.support.copying import copy_file
from tests.support.forwarding import ForwardingStore
from tests.support.stores import CountingStore, Fault, FaultyStore, MemoryStore

CONTENT = os.urandom(100_000)


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    store = LocalStore(str(tmp_path / "source"))
    store.put("p=1/file", CONTENT)
    return store


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> MemoryStore:
    store = MemoryStore(f"memory://copying-{request.node.name}")
    store.restore({})
    return store


class _Unaided(ForwardingStore):
    """A store that cannot copy files by itself."""

    file_copies = None


class _WithChecksums(ForwardingStore):
    """A store that knows a checksum of each file: the one that it is told."""

    def __init__(self, inner: Store, md5: str) -> None:
        super().__init__(inner)
        self._md5 = md5

    def facts_of(self, name: str) -> StoredFacts | None:
        facts = super().facts_of(name)
        return None if facts is None else StoredFacts(facts.size_bytes, {"md5": self._md5})


@pytest.mark.parametrize("content", [CONTENT, CONTENT[:-1] + b"?"], ids=["equal", "other"])
@pytest.mark.parametrize("chunk", [1 << 20, 999])
def test_files_without_checksums_are_read(
    local: LocalStore,
    memory: MemoryStore,
    content: bytes,
    chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "_COMPARED_BYTES", chunk)
    memory.put("x", content)
    file = FileToCopy("p=1/file", "x", len(CONTENT))
    for source in (local, _Unaided(local), _WithChecksums(local, "a")):
        assert has_same_bytes(source, file, memory) == (content == CONTENT)


@pytest.mark.parametrize("checksum", ["a", "b"])
def test_files_with_checksums_are_not_read(local: LocalStore, checksum: str) -> None:
    local.put("x", CONTENT[::-1])
    counting = CountingStore(_WithChecksums(local, "a"))
    file = FileToCopy("p=1/file", "x", len(CONTENT))
    assert has_same_bytes(counting, file, _WithChecksums(local, checksum)) == (checksum == "a")
    assert "read_ranges" not in counting.calls


def test_local_files_are_copied_by_the_kernel(local: LocalStore, tmp_path: Path) -> None:
    target = LocalStore(str(tmp_path / "target"))
    counting = CountingStore(local)
    copied = copy_file(counting, "p=1/file", target, "q=2/x", size_bytes=len(CONTENT))
    assert copied == CopiedFile(len(CONTENT), "kernel")
    assert target.read("q=2/x") == CONTENT
    assert not counting.calls["read_ranges"]
    assert [path.name for path in (tmp_path / "target/q=2").iterdir()] == ["x"]


def test_a_copy_is_independent_of_its_source(local: LocalStore, tmp_path: Path) -> None:
    target = LocalStore(str(tmp_path / "target"))
    copy_file(local, "p=1/file", target, "x", size_bytes=len(CONTENT))
    with (tmp_path / "source/p=1/file").open("r+b") as file:
        file.write(b"changed")
    assert target.read("x") == CONTENT


def test_batches_of_local_files(
    local: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One flush of directories for each batch, and none of hidden names left."""
    target = LocalStore(str(tmp_path / "target"))
    monkeypatch.setattr(whole_copies, "_MAX_BATCH_FILES", 3)
    files = [FileToCopy("p=1/file", f"d{n % 2}/{n}", len(CONTENT)) for n in range(8)]
    counting = CountingStore(target)
    copied = copy_many(local, files, counting)
    assert {copy.how for copy in copied} == {"kernel"}
    assert counting.calls["copy_files"] == 1
    assert sorted(n for names in target.walk() for n in names) == sorted(
        file.target_path for file in files
    )


def test_no_local_file_has_its_name_before_its_batch_is_durable(
    local: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = LocalStore(str(tmp_path / "target"))
    local.put("short", b"1")
    files = [FileToCopy("p=1/file", "a", len(CONTENT)), FileToCopy("short", "b", 2)]
    with pytest.raises(StorageError, match="'short' has 1 bytes, not 2"):
        copy_many(local, files, target)
    assert list((tmp_path / "target").iterdir()) == []
    monkeypatch.setattr(whole_copies, "_MAX_BATCH_BYTES", 1)
    with pytest.raises(StorageError, match="'short' has 1 bytes, not 2"):
        copy_many(local, files, target)
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["a"]


def test_across_stores_files_are_streamed_in_pieces(
    local: LocalStore, memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_PIECE_BYTES", 30_000)
    counting = CountingStore(local)
    copied = copy_file(counting, "p=1/file", memory, "x", size_bytes=len(CONTENT))
    assert copied == CopiedFile(len(CONTENT), "stream")
    assert memory.read("x") == CONTENT
    assert counting.calls["read_ranges"] == 4


@pytest.mark.parametrize("size_bytes", [0, 29_999, 30_000, 90_000, 99_999, 100_001, 120_000])
def test_a_stream_of_another_size_leaves_nothing(
    size_bytes: int, local: LocalStore, memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_PIECE_BYTES", 30_000)
    with pytest.raises(StorageError, match="bytes, not"):
        copy_file(local, "p=1/file", memory, "x", size_bytes=size_bytes)
    assert memory.contents() == {}


def test_a_store_without_the_capability_streams(memory: MemoryStore) -> None:
    memory.put("from", CONTENT)
    for source, target in ((_Unaided(memory), memory), (memory, _Unaided(memory))):
        copied = copy_file(source, "from", target, "to", size_bytes=len(CONTENT))
        assert copied.how == "stream"
        assert memory.read("to") == CONTENT


def test_what_the_service_refuses_is_streamed(memory: MemoryStore) -> None:
    class Refusing(ForwardingStore):
        def copy_files(self, copies: Sequence[FileCopy]) -> list[CopiedFile | None]:
            rest = iter(super().copy_files(copies[::2]))
            return [None if n % 2 else next(rest) for n, _ in enumerate(copies)]

    memory.put("from", CONTENT)
    files = [FileToCopy("from", f"to/{n}", len(CONTENT)) for n in range(5)]
    copied = copy_many(memory, files, Refusing(memory))
    assert [copy.how for copy in copied] == ["server", "stream", "server", "stream", "server"]
    assert all(memory.read(file.target_path) == CONTENT for file in files)


def test_checksums_that_both_have_are_compared(memory: MemoryStore, local: LocalStore) -> None:
    target = _WithChecksums(memory, "aa")
    same = copy_file(_WithChecksums(local, "aa"), "p=1/file", target, "x", size_bytes=len(CONTENT))
    assert same.checksum == "md5:aa"
    assert copy_file(local, "p=1/file", target, "y", size_bytes=len(CONTENT)).checksum is None
    with pytest.raises(StorageError, match="the md5 of the copy 'z' differs from that of"):
        copy_file(_WithChecksums(local, "bb"), "p=1/file", target, "z", size_bytes=len(CONTENT))
    assert sorted(memory.contents()) == ["x", "y"]


def test_a_size_that_the_target_tells_is_compared(memory: MemoryStore, local: LocalStore) -> None:
    class Cutting(ForwardingStore):
        """Stores all but the last byte."""

        def facts_of(self, name: str) -> StoredFacts | None:
            memory.put(name, memory.read(name)[:-1])
            return super().facts_of(name)

    with pytest.raises(StorageError, match="'x' has 99,999 bytes, not 100,000"):
        copy_file(local, "p=1/file", Cutting(memory), "x", size_bytes=len(CONTENT))
    assert memory.contents() == {}


def test_an_error_or_an_interrupt_leaves_nothing(local: LocalStore, memory: MemoryStore) -> None:
    class Interrupted(ForwardingStore):
        def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_file(Interrupted(local), "p=1/file", memory, "x", size_bytes=len(CONTENT))
    faulty = FaultyStore(memory, Fault(1, "error", method="close"))
    with pytest.raises(StorageError, match="on purpose"):
        copy_file(local, "p=1/file", faulty, "x", size_bytes=len(CONTENT))
    assert memory.contents() == {}


def test_dry_runs_copy_nothing(memory: MemoryStore) -> None:
    memory.put("from", b"1")
    with pytest.raises(SafetyError, match="a dry run tried to copy to"):
        copy_file(memory, "from", refuse_changes(memory), "to", size_bytes=1)
    assert sorted(memory.contents()) == ["from"]
    copies = refuse_changes(memory).file_copies
    assert copies is not None
    assert copies.origin_of("from") == memory.origin_of("from")


def test_absent_files_are_named(local: LocalStore, memory: MemoryStore, tmp_path: Path) -> None:
    for target in (memory, LocalStore(str(tmp_path / "target"))):
        with pytest.raises(ObjectNotFoundError, match="gone"):
            copy_file(local, "p=1/gone", target, "x", size_bytes=1)
        assert list(target.walk()) == []
