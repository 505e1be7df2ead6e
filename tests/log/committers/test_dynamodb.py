"""Commits by an external store: one winner, whole, whatever breaks off where."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest

from deltactl.clock import SystemClock
from deltactl.errors import (
    AccessDeniedError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    LogGapError,
    ObjectExistsError,
    SafetyError,
)
from deltactl.log.committers.committer import create_file
from deltactl.log.committers.dynamodb import DynamoDb
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.storage.dynamodb import CommitEntry
from deltactl.storage.store import Store
from tests.support.clock import FixedClock
from tests.support.commit_entries import FaultyEntries, MemoryEntries
from tests.support.commits import FACTS, settle
from tests.support.forwarding import ForwardingStore
from tests.support.stores import Crash, Fault, FaultyStore, MemoryStore

URI = "s3://bucket/a table"
_numbers = itertools.count()


class RacyStore(ForwardingStore):
    """A store without put-if-absent: what an external store is for."""

    def ensure_put_if_absent(self) -> None:
        raise SafetyError("conditions are ignored here")

    def put_if_absent(self, name: str, data: bytes) -> None:
        self.ensure_put_if_absent()


@pytest.fixture(params=["conditional", "racy"])
def inner(request: pytest.FixtureRequest) -> Store:
    store = empty_store()
    return store if request.param == "conditional" else RacyStore(store)


@pytest.fixture
def entries() -> MemoryEntries:
    return MemoryEntries()


def empty_store() -> MemoryStore:
    """Stores of one address share what they hold."""
    store = MemoryStore(URI)
    store.restore({})
    return store


def name_of(version: int) -> str:
    return f"{LOG_DIR}/{commit_name(version)}"


def commit(txn_id: str) -> bytes:
    return json.dumps({"commitInfo": {"txnId": txn_id}}).encode() + b"\n"


def put(committer: DynamoDb, version: int, txn_id: str) -> bool:
    return settle(committer._store, committer, version, commit(txn_id))


def log_of(it: Store | DynamoDb) -> list[str]:
    """The commits; temporary files may lie beside them."""
    if isinstance(it, DynamoDb):
        log = DeltaLog(it._store, pytest.fail, committer=it)
        return [info.name for _, info in sorted(log.listing.commits.items())]
    return [info.name for info in it.list_from(LOG_DIR) if not info.name.endswith(".tmp")]


def test_a_commit_and_what_it_leaves(inner: Store, entries: MemoryEntries) -> None:
    clock = FixedClock(1_700_000_000_000)
    store = DynamoDb(inner, entries, clock)
    assert put(store, 0, "first")
    assert put(store, 1, "second")
    assert not put(store, 1, "third")
    assert log_of(store) == [name_of(0), name_of(1)]
    assert store._store.read(name_of(1)) == commit("second")
    # As Delta's own writer leaves them: relative to the log, kept for a day.
    entry = entries.items[URI, commit_name(1)]
    assert entry.complete
    assert entry.temp_path.startswith(f".tmp/{commit_name(1)}.")
    assert store._store.read(f"{LOG_DIR}/{entry.temp_path}") == commit("second")
    assert entries.expires[URI, commit_name(1)] == 1_700_000_000 + 24 * 3600


@pytest.mark.parametrize("action", ["crash", "error", "lie"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fault_at_every_entry_call(
    action: Any, when: Any, inner: Store, entries: MemoryEntries
) -> None:
    put(DynamoDb(inner, entries, SystemClock()), 0, "first")
    for at in itertools.count(1):
        version = len(log_of(inner))
        faulty = FaultyEntries(entries, Fault(at, action, when))
        _try_and_check(DynamoDb(inner, faulty, SystemClock()), inner, entries, version)
        if faulty.calls < at:
            return


@pytest.mark.parametrize("action", ["crash", "error"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fault_at_every_store_call(action: Any, when: Any, entries: MemoryEntries) -> None:
    inner = empty_store()
    put(DynamoDb(inner, entries, SystemClock()), 0, "first")
    for at in itertools.count(1):
        version = len(log_of(inner))
        faulty = FaultyStore(inner, Fault(at, action, when))
        _try_and_check(DynamoDb(faulty, entries, SystemClock()), inner, entries, version)
        if len(faulty.calls) < at:
            return


def _try_and_check(store: DynamoDb, inner: Store, entries: MemoryEntries, version: int) -> None:
    """One commit with a fault: it is there whole or not at all, and the log goes on."""
    txn_id = f"txn {next(_numbers)}"
    try:
        won: bool | None = put(store, version, txn_id)
    except Crash:
        won = None
    after = DynamoDb(inner, entries, SystemClock())
    listed = log_of(after)
    assert listed == [name_of(number) for number in range(len(listed))]
    is_there = len(listed) > version
    assert is_there == ((URI, commit_name(version)) in entries.items)
    if is_there:
        assert after._store.read(name_of(version)) == commit(txn_id)
        assert entries.items[URI, commit_name(version)].complete
    assert won is None or (won and is_there)
    # Whoever comes next is not in the way of what is left, nor the other way round.
    other = f"txn {next(_numbers)}"
    assert put(after, version, other) is not is_there
    assert after._store.read(name_of(version)) == commit(txn_id if is_there else other)


def test_a_commit_that_another_began_is_finished_first(
    inner: Store, entries: MemoryEntries
) -> None:
    store = DynamoDb(inner, entries, SystemClock())
    put(store, 0, "first")
    _begin(inner, entries, 1)
    # A writer that has not listed since: the name is taken, and the content is theirs.
    assert not put(store, 1, "ours")
    assert store._store.read(name_of(1)) == commit("theirs")
    _begin(inner, entries, 2)
    assert put(store, 3, "ours")
    assert log_of(store) == [name_of(version) for version in range(4)]
    assert all(entry.complete for entry in entries.items.values())


def _begin(inner: Store, entries: MemoryEntries, version: int) -> None:
    """What a writer leaves that dies right after its commit was decided."""
    entry = CommitEntry(commit_name(version), f"_commit_{version}.json.tmp")
    inner.put(f"{LOG_DIR}/{entry.temp_path}", commit("theirs"))
    assert entries.create(URI, entry)


def test_listing_finishes_the_newest(inner: Store, entries: MemoryEntries) -> None:
    store = DynamoDb(inner, entries, SystemClock())
    put(store, 0, "first")
    _begin(inner, entries, 1)
    assert log_of(DeltaLog(inner, pytest.fail).store) == [name_of(0)]
    assert log_of(inner) == [name_of(0)]
    assert log_of(store) == [name_of(0), name_of(1)]
    assert entries.items[URI, commit_name(1)].complete


def test_a_temporary_file_that_was_moved_is_no_damage(inner: Store, entries: MemoryEntries) -> None:
    """delta-rs moves it; between the look and the read it may have."""

    class Moving(ForwardingStore):
        def read(self, name: str) -> bytes:
            if name.endswith(".tmp"):
                self._inner.put(name_of(1), self._inner.read(name))
                self._inner.delete_many([name])
            return self._inner.read(name)

    _begin(inner, entries, 1)
    store = DynamoDb(Moving(inner), entries, SystemClock())
    assert log_of(store) == [name_of(1)]


def test_content_that_is_gone_is_damage(inner: Store, entries: MemoryEntries) -> None:
    _begin(inner, entries, 1)
    inner.delete_many([f"{LOG_DIR}/_commit_1.json.tmp"])
    with pytest.raises(LogGapError, match="does not have this commit"):
        log_of(DynamoDb(inner, entries, SystemClock()))


@pytest.mark.parametrize("has_copy", [True, False])
def test_a_commit_whose_file_was_deleted(
    has_copy: bool, inner: Store, entries: MemoryEntries
) -> None:
    """Neither a vacuum nor a checkpoint may take the version before it for the newest."""
    store = DynamoDb(inner, entries, SystemClock())
    put(store, 0, "first")
    put(store, 1, "second")
    temp = f"{LOG_DIR}/{entries.items[URI, commit_name(1)].temp_path}"
    inner.delete_many([name_of(1)] if has_copy else [name_of(1), temp])
    log = DeltaLog(inner, pytest.fail, committer=store)
    for look in (log, log.read_only()):
        with pytest.raises(LogGapError, match="commit .*1.json of .* does not have") as lost:
            look.ensure_newest()
        hint = lost.value.hint or ""
        copy = f"aws s3 cp '{URI}/{temp}' '{URI}/{name_of(1)}'"
        assert (copy in hint) is has_copy
        assert hint.startswith("Copy" if has_copy else "Restore")
        assert "delete the DynamoDB items" in hint
    # Not by itself: the copy can be of a table that was here before.
    assert log_of(inner) == [name_of(0)]
    # Only a run that would rely on it asks.
    assert log.read_only().listing.latest_version == 0
    log.read_only().ensure_newest(or_warn=True)
    inner.put(name_of(1), commit("second"))
    log.unread().ensure_newest()
    assert log.read_only().find_unlisted() is None


def test_a_commit_that_is_made_during_a_look_is_not_lost(
    inner: Store, entries: MemoryEntries
) -> None:
    store = DynamoDb(inner, entries, SystemClock())
    put(store, 0, "first")
    look = DeltaLog(inner, pytest.fail, committer=store).read_only()
    assert look.latest_version == 0
    put(store, 1, "second")
    assert look.find_unlisted() is None
    _begin(inner, entries, 2)
    assert look.find_unlisted() == (2, None)
    look.read_only().ensure_newest()
    entries.items[URI, "later.json"] = CommitEntry("later.json", ".tmp/x")
    entries.complete(URI, CommitEntry("later.json", ".tmp/x"), 5)
    assert look.find_unlisted() is None  # an entry of no commit


def test_a_log_that_was_deleted_as_a_whole(inner: Store, entries: MemoryEntries) -> None:
    store = DynamoDb(inner, entries, SystemClock())
    put(store, 0, "first")
    inner.delete_many([info.name for info in inner.list_from(LOG_DIR)])
    with pytest.raises(LogGapError, match="or the table was deleted"):
        log_of(store)


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "s3://other/x", "a/../../../x"])
def test_entries_are_others_word(path: str, inner: Store, entries: MemoryEntries) -> None:
    entries.create(URI, CommitEntry(commit_name(1), path))
    with pytest.raises(CorruptLogError, match="outside of the log"):
        log_of(DynamoDb(inner, entries, SystemClock()))


def test_entries_of_a_table_that_was_here_before(inner: Store, entries: MemoryEntries) -> None:
    put(DynamoDb(inner, entries, SystemClock()), 0, "first")
    inner.delete_many([info.name for info in inner.list_from(LOG_DIR)])
    store = DynamoDb(inner, entries, SystemClock())
    with pytest.raises(SafetyError, match="has an entry for the commit .*0.json") as refused:
        store.commit(0, commit("ours"), FACTS)
    assert "DynamoDB" in (refused.value.hint or "")


@pytest.mark.parametrize("other", ["s3a://bucket/a table", "s3://bucket/a%20table"])
def test_another_spelling_is_another_table(
    other: str, inner: Store, entries: MemoryEntries
) -> None:
    store = DynamoDb(inner, entries, SystemClock())
    put(store, 0, "first")
    entries.create(other, CommitEntry(commit_name(1), ".tmp/x"))
    store.ensure_can_commit()  # this one has looked before
    fresh = DynamoDb(inner, entries, SystemClock())
    with pytest.raises(SafetyError, match="treats the two addresses as two tables") as refused:
        fresh.ensure_can_commit()
    assert other in refused.value.message
    with pytest.raises(SafetyError):
        fresh.commit(1, commit("ours"), FACTS)
    # Entries that are older than ours are of a time before.
    entries.create(URI, CommitEntry(commit_name(1), ".tmp/y"))
    fresh.ensure_can_commit()


def test_a_writer_that_replaces_entries_is_found_out(entries: MemoryEntries) -> None:
    """One that puts its entry without a condition: what the log holds decides."""
    inner = empty_store()

    class Replaced(MemoryEntries):
        def create(self, table_path: str, entry: CommitEntry) -> bool:
            created = super().create(table_path, entry)
            if created:
                theirs = CommitEntry(entry.file_name, ".tmp/theirs")
                inner.put(f"{LOG_DIR}/{theirs.temp_path}", commit("theirs"))
                inner.put(f"{LOG_DIR}/{theirs.file_name}", commit("theirs"))
                self.items[table_path, entry.file_name] = theirs
            return created

    store = DynamoDb(inner, Replaced(), SystemClock())
    assert not put(store, 0, "ours")
    assert store._store.read(name_of(0)) == commit("theirs")


def test_a_commit_that_is_decided_is_never_called_refused(entries: MemoryEntries) -> None:
    """The entry is ours, but the commit file may not be put: others will finish it."""
    inner = empty_store()
    denied = patch.object(inner, "put_if_absent", side_effect=AccessDeniedError("not this name"))
    with denied, pytest.raises(CommitOutcomeUnknownError):
        put(DynamoDb(inner, entries, SystemClock()), 0, "ours")
    after = DynamoDb(inner, entries, SystemClock())
    assert log_of(after) == [name_of(0)]
    assert after._store.read(name_of(0)) == commit("ours")


def test_a_commit_that_may_not_be_decided_is_refused(entries: MemoryEntries) -> None:
    inner = empty_store()
    denied = patch.object(entries, "create", side_effect=AccessDeniedError("no PutItem"))
    with denied, pytest.raises(AccessDeniedError):
        put(DynamoDb(inner, entries, SystemClock()), 0, "ours")
    assert log_of(inner) == []


def test_other_files_of_the_log_need_no_entry(inner: Store) -> None:
    create_file(inner, f"{LOG_DIR}/00000000000000000000.crc", b"{}")
    with pytest.raises(ObjectExistsError):
        create_file(inner, f"{LOG_DIR}/00000000000000000000.crc", b"{}")


def test_reading_finishes_no_commit(inner: Store, entries: MemoryEntries) -> None:
    committer = DynamoDb(inner, entries, SystemClock())
    put(committer, 0, "first")
    _begin(inner, entries, 1)
    log = DeltaLog(inner, pytest.fail, committer=committer)
    assert log.read_only().listing.latest_version == 0
    assert log.listing.latest_version == 1


def test_many_writers_one_winner_each(inner: Store, entries: MemoryEntries) -> None:
    """Each version is won once, and what is read back is what the winner put."""
    put(DynamoDb(inner, entries, SystemClock()), 0, "first")

    def write(number: int) -> list[int]:
        store = DynamoDb(inner, entries, SystemClock())
        return [v for v in range(1, 20) if put(store, v, f"{number} {v}")]

    with ThreadPoolExecutor(6) as pool:
        won = list(pool.map(write, range(6)))
    assert sorted(v for versions in won for v in versions) == list(range(1, 20))
    for number, versions in enumerate(won):
        for version in versions:
            assert inner.read(name_of(version)) == commit(f"{number} {version}")
    assert all(entry.complete for entry in entries.items.values())
