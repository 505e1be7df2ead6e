"""Two updates of manifests at once, of which one may be killed: the next update finds all of it."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import pytest

from deltactl.errors import ConflictError, NotATableError, StorageError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.run import generate_manifests, refresh_manifests
from deltactl.operations.run_context import RunContext
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.store import Store
from deltactl.units import DAY_MS
from tests.support.forwarding import Call, InterceptingStore
from tests.support.stores import Crash, MemoryStore, fresh_store
from tests.support.table_builder import LOG, Column, TableBuilder

ALL = 1000
COLUMNS = (Column("id"), Column("p", "string"))
RECORD = "_deltactl/runs/manifests.json"
PROPERTIES = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}


def opened(store: Store) -> tuple[DeltaLog, RunContext]:
    return DeltaLog(store, ignore_warning), RunContext(warn=ignore_warning)


def refresh(store: Store, before: int = 1) -> None:
    log, context = opened(store)
    refresh_manifests(log, before, context)


def generate(store: Store, output: Store | None = None, **options: Any) -> bool:
    log, context = opened(store)
    parsed = ManifestOptions(**options)
    return generate_manifests(log, parsed, context, output=output).plan.is_empty


class Stepped(InterceptingStore):
    """Refreshes the manifests in a thread of its own, call by call of the store."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._go, self._waits, self._is_killed = threading.Event(), threading.Event(), False
        self._lock, self._is_over = threading.Lock(), False
        threading.Thread(target=self._run, daemon=True).start()
        self._waits.wait()

    def _run(self) -> None:
        try:
            refresh(self)
        except Crash:
            pass
        finally:
            self._is_over = True
            self._waits.set()

    def _intercept(self, call: Call) -> Any:
        with self._lock:
            self._waits.set()
            self._go.wait()
            self._go.clear()
            if self._is_killed:
                raise Crash
            return call.do()

    def do(self, calls: int) -> int:
        """Do up to so many calls; return how many there were."""
        for number in range(calls):
            if self._is_over:
                return number
            self._waits.clear()
            self._go.set()
            self._waits.wait()
        return calls

    def kill(self) -> None:
        self._is_killed = True
        self.do(ALL)


def scene(*features: str) -> tuple[MemoryStore, TableBuilder, str]:
    """Return a table with manifests of version 1, and a file of its version 2 in ``p=a``."""
    store = fresh_store()
    builder = TableBuilder(
        store, COLUMNS, partition_by=["p"], features=features, properties=PROPERTIES
    )
    builder.append(*([{"id": 1, "p": p}] for p in "ab"))
    generate(store)
    (path,) = builder.append([{"id": 2, "p": "a"}])
    return store, builder, path


def recorded(store: MemoryStore) -> int | None:
    found: int | None = json.loads(store.read(RECORD))["caught_up_version"]
    return found


def marks(store: MemoryStore) -> list[str]:
    return [name for name in store.contents() if name.startswith("_deltactl/manifests/")]


def meet(first: int, second: int, killed_after: int | None) -> None:
    """Refresh beside another run for a later version; check the manifests, also after the next.

    The other run begins after the ``first`` calls, and waits after its ``second`` calls.
    """
    store, builder, path = scene()
    slow = Stepped(store)
    slow.do(first)
    builder.commit(builder.remove_action(path), builder.write_file([{"id": 3, "p": "a"}]))
    other = Stepped(store)
    other.do(second)
    slow.do(ALL if killed_after is None else killed_after)
    if killed_after is not None:
        slow.kill()
    other.do(ALL)
    case = (first, second, killed_after)
    if killed_after is None:
        assert generate(store, check=True), case
        assert not marks(store), case
    builder.append([{"id": 4, "p": "b"}])
    refresh(store, 3)
    assert generate(store, check=True), case


@pytest.mark.parametrize("killed_after", [None, 2, 6, 10])
def test_the_manifests_are_right_after_two_runs_at_once(killed_after: int | None) -> None:
    for first, second in itertools.product((4, 8, 12), (6, 10, 14, ALL)):
        meet(first, second, killed_after)


def test_the_mark_of_a_killed_run_counts_for_a_day() -> None:
    store, builder, _ = scene()
    store.put("_deltactl/manifests/killed", b"")
    for _ in range(2):
        refresh(store)
        assert generate(store, check=True)
        assert recorded(store) == 1
        builder.append([{"id": 4, "p": "b"}])
    store.advance(2 * DAY_MS)
    refresh(store)
    assert (recorded(store), marks(store)) == (builder.version, [])


def test_a_run_that_was_taken_for_killed_keeps_the_record() -> None:
    class Slow(InterceptingStore):
        def _intercept(self, call: Call) -> Any:
            if call.method == "put" and call.names[0].startswith(MANIFEST_DIR):
                store.delete_many(marks(store))
            return call.do()

    store, _, _ = scene()
    refresh(Slow(store))
    assert recorded(store) == 1
    assert generate(store, check=True)


def test_a_run_that_fails_leaves_no_version_in_the_record() -> None:
    class Failing(InterceptingStore):
        def _intercept(self, call: Call) -> Any:
            found = call.do()
            if call.method == "put" and call.names[0].startswith(MANIFEST_DIR):
                raise StorageError("no")
            return found

    store, builder, _ = scene()
    told: list[str] = []
    refresh_manifests(DeltaLog(Failing(store), ignore_warning), 1, RunContext(warn=told.append))
    assert "the manifests were not refreshed" in told[0]
    assert (recorded(store), marks(store)) == (None, [])
    refresh(store)
    assert recorded(store) == builder.version


def test_a_run_that_writes_nothing_keeps_the_record() -> None:
    store, builder, _ = scene("deletionVectors")
    (path,) = builder.append([{"id": n, "p": "a"} for n in range(2)])
    builder.delete_rows(path, [0])
    refresh(store)
    assert (recorded(store), marks(store)) == (1, [])


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ({"version": 1}, 1),
        ({"version": 1, "where": "p = 'a'"}, None),
        ({"where": "p = 'a'"}, 1),
        ({"since": 1}, 3),
        ({"since": 3}, 3),
        ({"since": 3, "where": "p = 'a'"}, 1),
    ],
    ids=str,
)
def test_manifests_of_an_earlier_version_are_updated_by_the_next_refresh(
    options: dict[str, Any], version: int | None
) -> None:
    """Those of some partitions are no version of all manifests."""
    store, builder, _ = scene()
    if "version" in options:
        refresh(store)
        assert recorded(store) == 2
    builder.append([{"id": 3, "p": "a"}], [{"id": 3, "p": "b"}])
    generate(store, **options)
    assert recorded(store) == version
    builder.append([{"id": 4, "p": "b"}])
    refresh(store, 3)
    assert generate(store, check=True)


def test_writers_that_commit_all_the_time_do_not_hold_up_a_refresh() -> None:
    class Busy(InterceptingStore):
        def _intercept(self, call: Call) -> Any:
            if call.method == "put" and call.names[0].startswith(MANIFEST_DIR):
                builder.append([{"id": 5, "p": "a"}])
            return call.do()

    store, builder, _ = scene()
    refresh(Busy(store))
    assert (recorded(store), marks(store)) == (None, [])
    refresh(store)
    assert generate(store, check=True)


class Dropping(InterceptingStore):
    """Drops the table behind the first put there, and creates one with so many more versions."""

    def __init__(
        self, inner: Store, table: MemoryStore, versions: int | None, behind: str = MANIFEST_DIR
    ) -> None:
        super().__init__(inner)
        self._table, self._versions, self._behind = table, versions, behind
        self._is_done = False

    def _intercept(self, call: Call) -> Any:
        found = call.do()
        if call.method == "put" and call.names[0].startswith(self._behind) and not self._is_done:
            self._is_done = True
            self._table.delete_many([it for it in self._table.contents() if it.startswith(LOG)])
            if self._versions is not None:
                other = TableBuilder(
                    self._table, COLUMNS, partition_by=["p"], properties={**PROPERTIES, "a": "b"}
                )
                for number in range(self._versions):
                    other.append([{"id": number, "p": "a"}], [{"id": number, "p": "other"}])
        return found


@pytest.mark.parametrize("versions", [None, 0, 2, 3])
@pytest.mark.parametrize(
    ("options", "is_elsewhere"),
    [
        ({}, False),
        ({"since": 1}, False),
        ({"version": 1}, False),
        ({"where": "p = 'a'"}, False),
        ({}, True),
    ],
)
def test_a_table_that_is_replaced_while_its_manifests_are_written(
    options: dict[str, Any], is_elsewhere: bool, versions: int | None
) -> None:
    store, builder, _ = scene()
    builder.append([{"id": 3, "p": "a"}])
    if options.get("version") is not None:
        refresh(store)
    output = fresh_store() if is_elsewhere else store
    dropping = Dropping(output, store, versions)
    log, context = opened(store if is_elsewhere else dropping)
    error = NotATableError if versions is None else ConflictError
    with pytest.raises(error, match="during the run") as caught:
        generate_manifests(log, ManifestOptions(**options), context, output=dropping)
    assert caught.value.hint is not None
    assert marks(store) == []
    if versions is not None:
        generate(store, output)
        assert generate(store, output, check=True)


def test_a_refresh_notices_that_its_table_is_replaced() -> None:
    store, _, _ = scene()
    told: list[str] = []
    log = DeltaLog(Dropping(store, store, 3), ignore_warning)
    refresh_manifests(log, 1, RunContext(warn=told.append))
    assert "the manifests were not refreshed" in told[0]
    assert (recorded(store), marks(store)) == (None, [])


@pytest.mark.parametrize("options", [{}, {"since": 1}], ids=str)
def test_a_longer_table_that_replaced_this_one_is_not_taken_for_its_later_versions(
    options: dict[str, Any],
) -> None:
    store, _, _ = scene()
    log, context = opened(Dropping(store, store, 9, behind="_deltactl/manifests/"))
    with pytest.raises(ConflictError, match="during the run"):
        generate_manifests(log, ManifestOptions(**options), context)
    assert marks(store) == []


@pytest.mark.parametrize("since", [1, 2, 3])
def test_since_a_version_after_that_of_the_manifests_is_limited(since: int) -> None:
    store, builder, _ = scene()
    builder.append([{"id": 3, "p": "b"}])
    told: list[str] = []
    context = RunContext(warn=told.append)
    options = ManifestOptions(since=since)
    report = generate_manifests(DeltaLog(store, ignore_warning), options, context)
    assert {it.folder for it in report.plan.partitions} == {"p=a", "p=b"}
    assert [text.partition(",")[0] for text in told] == ["the manifests are of version 1"] * (
        since > 1
    )
    assert generate(store, check=True)
    assert recorded(store) == 3
