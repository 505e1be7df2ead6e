"""Dry runs do not write, meters count, faulty stores fail on purpose."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deltactl.errors import ObjectExistsError, SafetyError
from deltactl.storage.local.store import LocalStore
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.objects.store import ObjectStore
from deltactl.storage.store import OnUpload, Store
from deltactl.storage.write_guard import guarded, refuse_changes
from tests.support.forwarding import ForwardingStore
from tests.support.metered_store import MeteredStore
from tests.support.stores import (
    CountingStore,
    Crash,
    Fault,
    FaultyStore,
    MemoryStore,
)

READS: list[Callable[[Store], object]] = [
    lambda store: list(store.list_from("")),
    lambda store: sorted(name for batch in store.walk() for name in batch),
    lambda store: store.stat_many(["a", "b", "absent"]),
    lambda store: store.read("a"),
    lambda store: list(store.read_many(["b", "a"])),
    lambda store: store.read_ranges("a", [(0, 1), (1, 1)]),
    lambda store: store.read_tail("b", 2),
    lambda store: store.open_input("a").read(),
]
WRITES: list[Callable[[Store], object]] = [
    lambda store: store.open_output("new"),
    lambda store: store.put("new", b""),
    lambda store: store.put_if_absent("new", b""),
    lambda store: store.sync_directories(["a"]),
    lambda store: store.delete_many(["a"]),
]


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> MemoryStore:
    store = MemoryStore(f"memory://{request.node.name}")
    store.restore({"a": b"12", "b": b"345"})
    return store


@pytest.mark.parametrize("number", range(len(WRITES)))
def test_dry_runs_refuse_to_write(number: int, memory: MemoryStore) -> None:
    before = memory.contents()
    with pytest.raises(SafetyError, match="a dry run tried to"):
        WRITES[number](refuse_changes(memory))
    assert memory.contents() == before


@pytest.mark.parametrize("number", range(len(WRITES)))
def test_a_guard_is_called_before_each_change(number: int, memory: MemoryStore) -> None:
    before, seen = memory.contents(), []
    WRITES[number](guarded(memory, lambda _: seen.append(memory.contents())))
    assert seen == [before]


def test_dry_runs_prepare_no_commit(memory: MemoryStore) -> None:
    """Making sure may write, so a dry run that would is a mistake."""
    with pytest.raises(SafetyError, match="a dry run tried to"):
        refuse_changes(memory).ensure_put_if_absent()


def test_dry_runs_remove_no_directories(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    directories = refuse_changes(LocalStore(str(tmp_path))).directories
    assert directories is not None
    assert directories.old_directories(["d"], 10**14) == ["d"]
    with pytest.raises(SafetyError, match="a dry run tried to"):
        directories.remove_directories(["d"])
    assert (tmp_path / "d").is_dir()


def test_dry_runs_restore_no_files() -> None:
    file_system = MemoryFileSystem(use_listings_cache=False, skip_instance_cache=True)
    schemes = frozenset({"memory"})
    service = ObjectService(file_system)
    inner = ObjectStore("memory://t", service, "/t", schemes=schemes)
    versions = refuse_changes(inner).versions
    assert versions is not None
    assert list(versions.undelete_many(["never"], dry_run=True)) == ["never"]
    with pytest.raises(SafetyError, match="a dry run tried to"):
        versions.undelete_many(["never"])


@pytest.mark.parametrize("wrapper", [MeteredStore, CountingStore, FaultyStore])
def test_wrappers_offer_the_capabilities_of_the_store_inside(
    wrapper: type[ForwardingStore], memory: MemoryStore, tmp_path: Path
) -> None:
    assert wrapper(memory).directories is None
    assert wrapper(memory).versions is None
    on_disk = wrapper(LocalStore(str(tmp_path)))
    assert isinstance(on_disk.directories, wrapper)
    assert on_disk.versions is None


def test_a_dry_run_offers_the_capabilities_of_the_store_inside(
    memory: MemoryStore, tmp_path: Path
) -> None:
    inner = LocalStore(str(tmp_path))
    for name in ("directories", "file_copies", "range_copies", "uploads", "versions"):
        for store in (memory, inner):
            found = getattr(refuse_changes(store), name)
            assert (found is None) == (getattr(store, name) is None)


def test_a_guard_takes_a_method_that_it_does_not_know_for_a_change(memory: MemoryStore) -> None:
    with pytest.raises(SafetyError, match="a dry run tried to restore"):
        refuse_changes(memory).restore({})  # type: ignore[attr-defined]


def test_a_store_that_observes_uploads_is_guarded_too(memory: MemoryStore) -> None:
    class Observing:
        def observed(self, on_upload: OnUpload) -> Store:
            return memory

    guard: Any = refuse_changes(cast("Store", Observing()))
    with pytest.raises(SafetyError, match="a dry run tried to write 'a'"):
        guard.observed(lambda name, upload_id: lambda: None).put("a", b"")


@pytest.mark.parametrize("number", range(len(READS)))
def test_a_read_only_store_reads_as_its_store_does(number: int, memory: MemoryStore) -> None:
    assert READS[number](refuse_changes(memory)) == READS[number](memory)


def test_crashes_happen_before_or_after_the_effect(memory: MemoryStore) -> None:
    with pytest.raises(Crash):
        FaultyStore(memory, Fault(1, method="put")).put("x", b"1")
    assert memory.stat_many(["x"]) == [None]
    with pytest.raises(Crash):
        FaultyStore(memory, Fault(1, "crash", "after", "put")).put("x", b"1")
    assert memory.read("x") == b"1"


def test_truncated_writes_leave_half(memory: MemoryStore) -> None:
    faulty = FaultyStore(memory, Fault(1, "tear", method="close"))
    file = faulty.open_output("x")
    file.write(b"123456")
    with pytest.raises(Crash):
        file.close()
    assert memory.read("x") == b"123"


def test_a_lie_happens_once(memory: MemoryStore) -> None:
    faulty = FaultyStore(memory, Fault(1, "lie", method="put_if_absent"))
    with pytest.raises(ObjectExistsError):
        faulty.put_if_absent("x", b"mine")
    assert memory.read("x") == b"mine"
    faulty.put_if_absent("y", b"mine too")
    assert faulty.calls == [("put_if_absent", "x"), ("put_if_absent", "y")]
