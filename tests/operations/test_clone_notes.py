"""Notes of shallow clones in their source."""

from pathlib import Path

import pytest

from deltactl.errors import ConflictError, SafetyError, UsageError
from deltactl.operations.clone_notes import (
    CLONES_DIR,
    CloneNote,
    drop_note,
    earlier_notes,
    ensure_ended,
    find_notes,
    mark_running,
    read_notes,
    unmark,
    write_note,
)
from deltactl.storage.local.store import LocalStore
from deltactl.storage.write_guard import refuse_changes
from tests.support.clock import FixedClock
from tests.support.stores import MemoryStore
from tests.support.table_builder import Column, TableBuilder

NOTE = CloneNote("file:///data/a%20clone", 7, 1_700_000_000_123, "an-id")
OTHER = CloneNote("s3://lake/clone", 3, 1_700_000_000_000)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> MemoryStore:
    found = MemoryStore(f"memory://{request.node.name}")
    found.restore({})
    return found


def test_notes_are_read_as_they_were_written(store: MemoryStore) -> None:
    assert read_notes(store) == ()
    write_note(store, OTHER)
    write_note(store, NOTE)
    assert read_notes(refuse_changes(store)) == (NOTE, OTHER)
    drop_note(store, NOTE)
    drop_note(store, NOTE)
    assert read_notes(store) == (OTHER,)


def test_each_clone_at_an_address_has_its_note(store: MemoryStore) -> None:
    first, second = (CloneNote(NOTE.clone_uri, 9, NOTE.noted_ms, name) for name in ("a", "b"))
    old = CloneNote(NOTE.clone_uri, 8, NOTE.noted_ms)
    for note in (first, second, OTHER, old):
        write_note(store, note)
    assert len(find_notes(store, NOTE.clone_uri)) == 3
    assert earlier_notes(store, second) == (old, first)


def test_the_same_path_on_two_machines_is_two_clones(store: MemoryStore) -> None:
    first, second = (CloneNote(NOTE.clone_uri, 9, NOTE.noted_ms, host, host) for host in "ab")
    write_note(store, first)
    write_note(store, second)
    assert earlier_notes(store, second) == ()


def test_the_note_of_the_clone_that_is_there_is_not_forgotten_with_another(
    tmp_path: Path, store: MemoryStore
) -> None:
    clone = TableBuilder(tmp_path, [Column("id")])
    metadata = clone.state.metadata
    assert metadata is not None
    here, other = (CloneNote(clone.store.uri, 1, 0, it) for it in (metadata["id"], "other"))
    write_note(store, here)
    write_note(store, other)
    assert find_notes(store, str(tmp_path)) == (other,)
    drop_note(store, other)
    assert find_notes(store, str(tmp_path)) == (here,)


def test_a_note_is_found_by_other_spellings(tmp_path: Path, store: MemoryStore) -> None:
    clone = LocalStore(str(tmp_path / "a clone"))
    note = CloneNote(clone.uri, 1, 0)
    write_note(store, note)
    write_note(store, OTHER)
    for address in (clone.uri, f"{clone.uri}/", str(tmp_path / "a clone"), f"{tmp_path}/a clone/"):
        assert find_notes(store, address) == (note,)
    assert find_notes(store, "s3://lake/clone/") == (OTHER,)
    for address in (str(tmp_path), "nothing://here"):
        with pytest.raises(UsageError, match="recorded clones: file:.*, s3://lake/clone"):
            find_notes(store, address)


def test_a_note_has_the_mark_of_its_run(store: MemoryStore) -> None:
    for note in (NOTE, OTHER):
        mark_running(store, note)
        write_note(store, note)
    store.set_modified(NOTE.mark, 5)
    assert read_notes(store)[0].begun_ms == 5
    unmark(store, NOTE)
    assert read_notes(store)[0].begun_ms is None
    drop_note(store, OTHER)
    assert [info.name for info in store.list_from(CLONES_DIR)] == [NOTE.name]


@pytest.mark.parametrize(
    ("by_clock", "by_store", "kept"),
    [
        (1, 1, True),
        (61, 61, False),
        (1_000_000, 1, True),
        (1, 1_000_000, True),
        (-60, 61, True),
        (-1_000_000, 61, False),  # the clock was ahead when the run began, or is behind now
    ],
)
def test_the_note_of_a_run_that_may_commit_is_kept_by_either_clock(
    store: MemoryStore, by_clock: int, by_store: int, kept: bool
) -> None:
    mark_running(store, NOTE)
    write_note(store, NOTE)
    began = store.stat_many([NOTE.mark])[0].modified_ms  # type: ignore[union-attr]
    store.advance(by_store * 60_000)
    notes, clock = read_notes(store), FixedClock(began + by_clock * 60_000)
    if not kept:
        ensure_ended(store, notes, clock, dry_run=False)
        return
    with pytest.raises(ConflictError, match=f"to '{NOTE.clone_uri}' may be running since") as it:
        ensure_ended(store, notes, clock, dry_run=False)
    assert "If it was killed, rerun after" in (it.value.hint or "")
    unmark(store, NOTE)
    ensure_ended(store, read_notes(store), clock, dry_run=False)


def test_a_dry_run_does_not_ask_the_store_for_the_time(store: MemoryStore) -> None:
    mark_running(store, NOTE)
    write_note(store, NOTE)
    guarded = refuse_changes(store)
    ensure_ended(guarded, read_notes(store), FixedClock(NOTE.noted_ms * 2), dry_run=True)


def test_a_dry_run_writes_no_note(store: MemoryStore) -> None:
    with pytest.raises(SafetyError, match="a dry run tried to"):
        write_note(refuse_changes(store), NOTE)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"clone": "x"}', b'{"clone":"x","source_version":1,"noted_at":"z"}']
)
def test_a_damaged_note_is_refused(content: bytes, store: MemoryStore) -> None:
    """It may stand for a clone whose address nobody knows."""
    write_note(store, NOTE)
    store.put(NOTE.name, content)
    with pytest.raises(SafetyError, match="is not a valid record of a shallow clone"):
        read_notes(store)
