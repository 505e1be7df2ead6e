"""Leases: one holds, the others are told who; a crash leaves what expires; none is no failure."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Literal

import pytest

from deltactl.errors import (
    AccessDeniedError,
    LeaseHeldError,
    StorageError,
    TransientStorageError,
)
from deltactl.operations import leases
from deltactl.operations.leases import LEASE_MS, Holder, hold_lease
from deltactl.storage.store import FileInfo, Store
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.stores import Fault, FaultyStore, MemoryStore

_NUMBERS = itertools.count()


def new_store() -> MemoryStore:
    return MemoryStore(f"memory://lease-{next(_NUMBERS)}/t")


def holder_at(clock: FixedClock, run_id: str = "one") -> Holder:
    now = clock._now_ms
    return Holder(run_id, "web1", 42, now, now + LEASE_MS)


class Scene:
    """A clock, warnings and a way to hold."""

    def __init__(self) -> None:
        self.clock, self.warnings = FixedClock(), list[str]()

    def hold(
        self, store: Store, run_id: str = "one", command: str = "optimize"
    ) -> AbstractContextManager[None]:
        holder = holder_at(self.clock, run_id)
        return hold_lease(store, command, holder, clock=self.clock, warn=self.warnings.append)


def test_who_comes_second_learns_who_holds() -> None:
    scene, store = Scene(), new_store()
    with scene.hold(store):
        before = store.contents()
        with pytest.raises(LeaseHeldError) as caught, scene.hold(store, "two"):
            pass
        assert store.contents() == before
        with scene.hold(store, "two", "vacuum"):  # another command
            pass
    assert caught.value.exit_code == 4
    assert caught.value.retryable
    assert caught.value.message == (
        "another optimize is running on this table: run one on web1 (pid 42), since "
        "2023-11-14T22:13:20.000Z, until 2023-11-14T22:28:20.000Z unless it is renewed"
    )
    assert store.contents() == {}
    assert scene.warnings == []


def test_a_lease_is_given_back_whatever_happens() -> None:
    scene, store = Scene(), new_store()
    with pytest.raises(KeyboardInterrupt), scene.hold(store):
        raise KeyboardInterrupt
    assert store.contents() == {}


def test_what_a_crash_leaves_expires_and_is_taken_over() -> None:
    scene, store = Scene(), new_store()
    store.put("_deltactl/leases/optimize.00000007.json", leases._encode(holder_at(scene.clock)))
    scene.clock.advance(LEASE_MS - 1)
    with pytest.raises(LeaseHeldError), scene.hold(store, "two"):
        pass
    scene.clock.advance(1)
    store.advance(LEASE_MS)
    with scene.hold(store, "two"):
        assert list(store.contents()) == ["_deltactl/leases/optimize.00000008.json"]
    assert store.contents() == {}


def test_a_lease_from_a_clock_that_is_ahead_ends_a_day_after_its_last_renewal() -> None:
    scene, store = Scene(), new_store()
    day_ms = 24 * 60 * 60 * 1000
    written_ms = scene.clock._now_ms
    ahead = holder_at(FixedClock(written_ms + 400 * day_ms))
    store.put("_deltactl/leases/optimize.00000007.json", leases._encode(ahead))
    [shown] = leases.list_leases(store, written_ms)
    assert shown.since_ms <= written_ms + day_ms
    scene.clock.advance(day_ms)
    store.advance(day_ms)
    with pytest.raises(LeaseHeldError), scene.hold(store, "two"):
        pass
    later_ms = LEASE_MS + 60 * 60 * 1000  # the store's time is ahead by a ms for each write
    scene.clock.advance(later_ms)
    store.advance(later_ms)
    with scene.hold(store, "two"):
        pass
    assert store.contents() == {}


@pytest.mark.parametrize("is_valid", [True, False])
def test_a_lease_that_the_store_too_dated_in_the_future_ends_a_day_after_the_next_run(
    is_valid: bool,
) -> None:
    scene, store, name = Scene(), new_store(), "_deltactl/leases/optimize.00000007.json"
    year_ms, day_ms = 365 * 24 * 60 * 60 * 1000, 24 * 60 * 60 * 1000
    ahead = holder_at(FixedClock(scene.clock._now_ms + year_ms))
    left = leases._encode(ahead) if is_valid else b"{"
    store.put(name, left)
    store.set_modified(name, scene.clock._now_ms + year_ms)
    with pytest.raises(LeaseHeldError, match="until 2023-11-1"), scene.hold(store, "two"):
        pass
    assert store.contents() == {name: left}
    later_ms = day_ms + LEASE_MS + 60 * 60 * 1000
    scene.clock.advance(later_ms)
    store.advance(later_ms)
    with scene.hold(store, "two"):
        assert list(store.contents()) == ["_deltactl/leases/optimize.00000008.json"]


def test_a_run_that_renews_a_lease_that_is_dated_in_the_future_keeps_it() -> None:
    """Its clock and that of the store are wrong, or the clock of this machine."""
    scene, store = Scene(), new_store()
    ahead_ms = 365 * 24 * 60 * 60 * 1000
    clock = FixedClock(scene.clock._now_ms + ahead_ms)
    lease = leases._Lease(store, "optimize", holder_at(clock), clock, scene.warnings.append)
    assert lease._create(1)
    for _ in range(600):  # two days
        store.set_modified(lease.name, clock._now_ms)
        with pytest.raises(LeaseHeldError, match="run one"), scene.hold(store, "two"):
            pass
        for each in (scene.clock, clock, store):
            each.advance(LEASE_MS // 3)
        with pytest.raises(LeaseHeldError, match="run one"), scene.hold(store, "two"):
            pass
        assert lease.renew()
    assert scene.warnings == []


def test_a_lease_whose_renewals_failed_leaves_that_of_a_later_run() -> None:
    """Two runs may have taken leases of the same number, one after the other."""

    class Failing(ForwardingStore):
        def put(self, name: str, data: bytes) -> None:
            raise StorageError("no network")

    scene, store = Scene(), new_store()
    clock = FixedClock(scene.clock._now_ms)
    lease = leases._Lease(store, "optimize", holder_at(clock), clock, scene.warnings.append)
    assert lease._create(1)
    lease.store = Failing(store)
    clock.advance(LEASE_MS - 1)
    with pytest.raises(StorageError):
        lease.renew()
    clock.advance(2)
    later = leases._encode(holder_at(clock, "two"))
    store.put(lease.name, later)
    lease.release()
    assert list(store.contents().values()) == [later]


def test_a_lease_dated_in_the_future_that_cannot_be_written_again_is_held() -> None:
    class ReadOnly(ForwardingStore):
        def put(self, name: str, data: bytes) -> None:
            raise AccessDeniedError("Permission denied")

    scene, store = Scene(), new_store()
    store.put(name := "_deltactl/leases/optimize.00000007.json", b"{")
    store.set_modified(name, scene.clock._now_ms + 365 * 24 * 60 * 60 * 1000)
    with pytest.raises(LeaseHeldError, match="until 2024"), scene.hold(ReadOnly(store), "two"):
        pass
    assert store.contents() == {name: b"{"}


def test_a_clock_that_is_ahead_takes_over_no_lease() -> None:
    """The clock of the store decides."""
    scene, store = Scene(), new_store()
    store.put("_deltactl/leases/optimize.00000007.json", leases._encode(holder_at(scene.clock)))
    before = store.contents()
    scene.clock.advance(40 * 24 * 60 * 60 * 1000)
    with pytest.raises(LeaseHeldError), scene.hold(store, "two"):
        pass
    assert store.contents() == before


@contextmanager
def other_process() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid


@pytest.mark.parametrize(
    ("started", "late_minutes", "holds"),
    [("own", 50, True), ("own", 70, False), ("1", 1, False), ("", 1, False)],
)
def test_a_process_that_runs_here_holds_for_another_hour(
    started: str, late_minutes: int, holds: bool
) -> None:
    """It may be suspended, or unable to renew. A later process with the same number does not."""
    scene, store = Scene(), new_store()
    store.advance(LEASE_MS * 100)
    with other_process() as pid:
        start = leases._read_start(pid) if started == "own" else started
        left = replace(Holder.here("one", scene.clock), pid=pid, started=start)
        store.put("_deltactl/leases/optimize.00000007.json", leases._encode(left))
        scene.clock.advance(LEASE_MS + late_minutes * 60_000)
        with pytest.raises(LeaseHeldError) if holds else nullcontext(), scene.hold(store, "two"):
            pass


def test_a_lease_that_a_run_of_this_process_left_is_not_held() -> None:
    """The process may live for years, as a scheduler."""
    scene, store = Scene(), new_store()
    left = Holder.here("one", scene.clock)
    store.put("_deltactl/leases/optimize.00000007.json", leases._encode(left))
    with _hold_here(scene, store, "two"):
        with pytest.raises(LeaseHeldError), _hold_here(scene, store, "three"):
            pass
        assert list(store.contents()) == ["_deltactl/leases/optimize.00000008.json"]
    assert store.contents() == {}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StorageError("busy")])
def test_a_run_that_cannot_look_after_its_lease_was_written_leaves_none(
    error: BaseException,
) -> None:
    class Stopped(ForwardingStore):
        def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
            if store.contents():
                raise error
            return super().list_from(prefix, start)

    scene, store = Scene(), new_store()
    with suppress(KeyboardInterrupt), scene.hold(Stopped(store)):
        pass
    assert store.contents() == {}


def _hold_here(scene: Scene, store: Store, run_id: str) -> AbstractContextManager[None]:
    holder = Holder.here(run_id, scene.clock)
    return hold_lease(store, "optimize", holder, clock=scene.clock, warn=scene.warnings.append)


def _number_of_no_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


@pytest.mark.parametrize(
    ("pid", "processes", "holds"),
    [
        pytest.param("dead", leases.name_processes(), False, id="killed here"),
        pytest.param("other", leases.name_processes(), True, id="alive here"),
        pytest.param("dead", "another boot pid:[1]", True, id="of another machine"),
        pytest.param("dead", "", True, id="of nobody knows where"),
        pytest.param("absurd", leases.name_processes(), True, id="no number of a process"),
    ],
)
def test_a_run_that_was_killed_here_holds_nothing(pid: str, processes: str, holds: bool) -> None:
    scene, store = Scene(), new_store()
    numbers = {"dead": _number_of_no_process(), "other": os.getppid(), "absurd": 1 << 80}
    left = replace(holder_at(scene.clock), pid=numbers[pid], processes=processes)
    store.put("_deltactl/leases/optimize.00000007.json", leases._encode(left))
    with pytest.raises(LeaseHeldError) if holds else nullcontext(), scene.hold(store, "two"):
        assert list(store.contents()) == ["_deltactl/leases/optimize.00000008.json"]


class Unreadable(ForwardingStore):
    """The lease of another user, who lets nobody else read it."""

    name = "_deltactl/leases/optimize.00000001.json"

    def read(self, name: str) -> bytes:
        if name == self.name:
            raise AccessDeniedError("Permission denied")
        return super().read(name)


@pytest.mark.parametrize("wrap", [ForwardingStore, Unreadable])
def test_a_file_that_cannot_be_read_holds_until_it_is_old(
    wrap: Callable[[MemoryStore], Store],
) -> None:
    scene, memory = Scene(), new_store()
    name, store = Unreadable.name, wrap(memory)
    store.put(name, b"{")
    memory.set_modified(name, scene.clock._now_ms)
    until = "run unknown on an unknown host, until 2023-11-14T22:28:20.000Z"
    with pytest.raises(LeaseHeldError, match=until), scene.hold(store, "two"):
        pass
    scene.clock.advance(LEASE_MS)
    memory.advance(LEASE_MS)
    with scene.hold(store, "two"):
        assert list(memory.contents()) == ["_deltactl/leases/optimize.00000002.json"]
    assert scene.warnings == []


@pytest.mark.parametrize("attempt", range(10))
def test_of_many_at_once_at_most_one_holds(attempt: int) -> None:
    scene, store = Scene(), new_store()
    expired = replace(holder_at(scene.clock), expires_ms=0)
    store.put("_deltactl/leases/optimize.00000001.json", leases._encode(expired))
    barrier, inside, most = threading.Barrier(4), list[str](), list[int]()

    def run(name: str) -> None:
        barrier.wait(10)
        try:
            with scene.hold(store, name):
                inside.append(name)
                barrier.wait(10)
                most.append(len(inside))
        except LeaseHeldError:
            barrier.wait(10)

    threads = [threading.Thread(target=run, args=(f"run{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most in ([], [1])
    assert scene.warnings == []


def test_a_name_that_was_free_again_does_not_make_two_holders() -> None:
    """Between our look and our file another run came, with a number that we did not see."""
    scene, store = Scene(), new_store()
    rival = leases._encode(holder_at(scene.clock, "rival"))

    class Late(FaultyStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            store.put("_deltactl/leases/optimize.00000005.json", rival)
            super().put_if_absent(name, data)

    with pytest.raises(LeaseHeldError, match="run rival"), scene.hold(Late(store)):
        pass
    assert list(store.contents().values()) == [rival]


def test_a_name_that_another_user_took_meanwhile_is_respected() -> None:
    scene, memory = Scene(), new_store()

    class Late(Unreadable):
        def put_if_absent(self, name: str, data: bytes) -> None:
            memory.put(self.name, b"{")
            memory.set_modified(self.name, scene.clock._now_ms)
            super().put_if_absent(name, data)

    with pytest.raises(LeaseHeldError, match="run unknown"), scene.hold(Late(memory)):
        pass
    assert list(memory.contents()) == [Unreadable.name]


def test_an_exists_that_is_our_own_first_try() -> None:
    scene, store = Scene(), new_store()

    class Twice(FaultyStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            store.put_if_absent(name, data)
            super().put_if_absent(name, data)

    with scene.hold(Twice(store)):
        assert len(store.contents()) == 1
    assert store.contents() == {}


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("expired", [False, True])
def test_a_put_that_fails_or_whose_answer_is_lost_is_sent_again(
    when: Literal["before", "after"], expired: bool
) -> None:
    scene, store = Scene(), new_store()
    if expired:
        left = replace(holder_at(scene.clock), expires_ms=0)
        store.put("_deltactl/leases/optimize.00000001.json", leases._encode(left))
    faulty = FaultyStore(store, Fault(1, "error", when, "put_if_absent"))
    with scene.hold(faulty):
        [name] = store.contents()
        assert name == f"_deltactl/leases/optimize.0000000{1 + expired}.json"
        with pytest.raises(LeaseHeldError, match="run one"), scene.hold(store, "two"):
            pass
    assert store.contents() == {}
    assert scene.warnings == []


@pytest.mark.usefixtures("short_pauses")
def test_a_put_that_fails_while_another_run_takes_the_number() -> None:
    scene, store = Scene(), new_store()
    rival = leases._encode(holder_at(scene.clock, "rival"))

    class Late(ForwardingStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            if not store.contents():
                store.put(name, rival)
                raise TransientStorageError("busy")
            super().put_if_absent(name, data)

    with pytest.raises(LeaseHeldError, match="run rival"), scene.hold(Late(store)):
        pass
    assert list(store.contents().values()) == [rival]


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("error", [TransientStorageError("busy"), StorageError("I/O error")])
@pytest.mark.parametrize("fails_on_read", [False, True])
def test_a_lease_that_was_written_in_spite_of_an_error_is_deleted(
    error: StorageError, fails_on_read: bool
) -> None:
    """At once, or if the store does not say whose file it is, at the end of the run."""
    scene, store = Scene(), new_store()

    class Unclear(FaultyStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            store.put(name, data)
            raise error

    faults = [Fault(1, "error", method="read")] if fails_on_read else []
    with scene.hold(Unclear(store, *faults)):
        assert len(store.contents()) == fails_on_read
    assert store.contents() == {}
    assert scene.warnings == [
        f"this run had no lease, so another run may have overlapped it: {error.message}"
    ]


@pytest.mark.parametrize("call", range(1, 5))
def test_an_exception_of_a_signal_leaves_no_lease(call: int) -> None:
    """It arrives when a call of the store has had its effect, but has not returned."""
    scene, store, count = Scene(), new_store(), 0

    class Signalled(FaultyStore):
        def _raise(self) -> None:
            nonlocal count
            count += 1
            if count == call:
                raise KeyboardInterrupt

        def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
            yield from super().list_from(prefix, start)
            self._raise()

        def put_if_absent(self, name: str, data: bytes) -> None:
            super().put_if_absent(name, data)
            self._raise()

        def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
            failed = super().delete_many(names)
            self._raise()
            return failed

    with pytest.raises(KeyboardInterrupt), scene.hold(Signalled(store)):
        pytest.fail("the lease is held")
    assert count >= call
    assert store.contents() == {}


@pytest.mark.parametrize("starts", [False, True])
def test_an_exception_of_a_signal_ends_the_renewal(
    monkeypatch: pytest.MonkeyPatch, starts: bool
) -> None:
    scene, store = Scene(), new_store()
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if starts:
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt), scene.hold(store):
        pytest.fail("the lease is held")
    assert store.contents() == {}
    assert "deltactl-lease" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("error", [StorageError("no exclusive create"), AccessDeniedError("no")])
def test_a_store_that_cannot_goes_without(error: StorageError) -> None:
    scene, store = Scene(), new_store()

    class Unable(FaultyStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            raise error

    with pytest.raises(ZeroDivisionError), scene.hold(Unable(store)):
        raise ZeroDivisionError
    assert scene.warnings == []  # the run says why it failed
    with scene.hold(Unable(store)):
        assert store.contents() == {}
    assert scene.warnings == [
        f"this run had no lease, so another run may have overlapped it: {error.message}"
    ]


@pytest.mark.parametrize("faults", [(), (Fault(1, "error", method="put"),)])
def test_a_long_run_renews(monkeypatch: pytest.MonkeyPatch, faults: tuple[Fault, ...]) -> None:
    """Also where the store fails once."""
    scene, store = Scene(), new_store()
    monkeypatch.setattr(leases, "_RENEWALS", LEASE_MS)  # a thousand times a second
    with scene.hold(FaultyStore(store, *faults)):
        scene.clock.advance(LEASE_MS * 2)
        name = "_deltactl/leases/optimize.00000001.json"
        for _ in range(1000):
            if str(scene.clock._now_ms + LEASE_MS).encode() in store.read(name):
                break
            threading.Event().wait(0.01)
        with pytest.raises(LeaseHeldError), scene.hold(store, "two"):
            pass
    assert scene.warnings == []


def test_a_lease_that_was_taken_over_is_left_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, store = Scene(), new_store()
    holder = holder_at(scene.clock)
    lease = leases._Lease(store, "optimize", holder, scene.clock, print, "gone")
    assert not lease.renew()
    assert store.contents() == {}
    monkeypatch.setattr(leases, "_RENEWALS", LEASE_MS)
    with scene.hold(store):
        for _ in range(1000):
            if scene.warnings:
                break
            # Each time again: it may be renewed just between the look and the removal.
            store.delete_many(list(store.contents()))
            threading.Event().wait(0.01)
    assert scene.warnings == [
        "the lease of this run is gone, so another run of the same command may work on this table "
        "too. This run continues"
    ]


@pytest.mark.parametrize("renews", [False, True])
def test_a_suspended_run_leaves_a_later_lease_of_the_same_number(renews: bool) -> None:
    """It was taken over and released; then a third run created a lease of the same number."""
    scene, store = Scene(), new_store()
    lease = leases._Lease(store, "optimize", holder_at(scene.clock), scene.clock, print)
    assert lease._create(1)
    scene.clock.advance(LEASE_MS * 2)
    store.delete_many([lease.name])
    with scene.hold(store, "three"):
        before = store.contents()
        assert list(before) == [lease.name]
        if renews:
            assert not lease.renew()
        lease.release()
        assert store.contents() == before
