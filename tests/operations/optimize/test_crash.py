"""What dies or fails at any store call of an optimize, and what is left behind.

Calls are counted over the whole run, those of the workers included: the store is put behind its
address, which is how workers open it.
"""

import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import CommitOutcomeUnknownError, DeltactlError, StorageError
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.support.clock import FixedClock
from tests.support.run import run_on
from tests.support.stores import (
    Crash,
    Fault,
    FaultyStore,
    MemoryStore,
    States,
    fault_points,
    fresh_store,
    opened_as,
)
from tests.support.table_builder import LOG, Column, TableBuilder, canonical, multiset

pytestmark = pytest.mark.thorough

OPTIONS = OptimizeOptions()
IN_BATCHES = OptimizeOptions(commit_every_bytes=1)
PLACED = OptimizeOptions(commit_every_bytes=1, cluster_by="id", target_bytes=1500)


@dataclass
class Scene:
    """A table, its content before, and its rows."""

    store: MemoryStore
    before: dict[str, bytes]
    rows: Counter[Any]
    version: int
    states: States

    def reset(self) -> None:
        self.store.restore(self.before)


def set_scene(*features: str) -> Scene:
    """Two partitions, of two and of three small files; one with deleted rows; a checkpoint."""
    store = fresh_store()
    builder = TableBuilder(
        store,
        [Column("id"), Column("p", "string")],
        partition_by=["p"],
        features=["deletionVectors", *features],
    )
    files = [[{"id": 10 * i + row, "p": "ab"[i % 2]} for row in range(4)] for i in range(5)]
    paths = builder.append(*files)
    builder.checkpoint()
    builder.hint(builder.version)
    builder.delete_rows(paths[0], [1, 3])
    return Scene(store, store.contents(), multiset(builder.rows()), builder.version, States(store))


def optimize(store: Store, options: OptimizeOptions = OPTIONS) -> OptimizeReport:
    return run_on(store, optimize_table, options, engine=LocalEngine(workers=1), clock=FixedClock())


def read_rows(store: Store) -> Counter[Any]:
    return Counter(map(canonical, Table(store.uri, store=store).scan().read_all().to_pylist()))


def count_calls(scene: Scene, options: OptimizeOptions) -> list[tuple[str, str]]:
    faulty = FaultyStore(scene.store)
    with opened_as(faulty):
        assert optimize(faulty, options).versions
    calls = faulty.calls
    scene.reset()
    return calls


def assert_whole(scene: Scene) -> None:
    """The table reads as before or after; and every commit after the start is an optimize."""
    assert read_rows(scene.store) == scene.rows
    snapshot = Table(scene.store.uri, store=scene.store).snapshot()
    paths = snapshot.files["path"].to_pylist()
    assert len(set(paths)) == len(paths)
    assert None not in scene.store.stat_many(paths)


def finish(scene: Scene, options: OptimizeOptions = OPTIONS) -> None:
    """The next run completes, and leaves nothing to do."""
    optimize(scene.store, options)
    assert read_rows(scene.store) == scene.rows
    assert optimize(scene.store, options).plan.is_empty


def data_files(store: MemoryStore) -> set[str]:
    return {name for name in store.contents() if name.endswith(".parquet") and LOG not in name}


def live_or_old(scene: Scene) -> set[str]:
    """Data files that some version names."""
    names = {name for name in scene.before if name.endswith(".parquet") and LOG not in name}
    return names | set(
        Table(scene.store.uri, store=scene.store).snapshot().files["path"].to_pylist()
    )


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "options",
    # What is placed is committed in batches too.
    [OPTIONS, pytest.param(IN_BATCHES, marks=pytest.mark.slow), PLACED],
    ids=["one-commit", "in-batches", "placed"],
)
def test_a_crash_at_any_call_leaves_before_or_after(options: OptimizeOptions, when: Any) -> None:
    scene = set_scene()
    calls = count_calls(scene, options)
    for at in fault_points(calls, when, "crash"):
        faulty = FaultyStore(scene.store, Fault(at, "crash", when))
        with opened_as(faulty), pytest.raises(Crash):
            optimize(faulty, options)
        if scene.states.is_new():
            assert_whole(scene)
            finish(scene, options)
        scene.reset()


def test_a_write_truncated_at_any_call_leaves_before_or_after() -> None:
    scene = set_scene()
    calls = count_calls(scene, OPTIONS)
    for at, (method, _) in enumerate(calls, 1):
        if method == "close":
            faulty = FaultyStore(scene.store, Fault(at, "tear"))
            with opened_as(faulty), pytest.raises(Crash):
                optimize(faulty)
            assert_whole(scene)
            finish(scene)
            scene.reset()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "options",
    # What is placed is committed in batches too.
    [OPTIONS, pytest.param(IN_BATCHES, marks=pytest.mark.slow), PLACED],
    ids=["one-commit", "in-batches", "placed"],
)
def test_an_error_at_any_call_is_reported_and_leaves_before_or_after(
    options: OptimizeOptions, when: Any
) -> None:
    """One failing call, whichever: a report or an error of ours; nothing lost, nothing twice."""
    scene = set_scene()
    calls = count_calls(scene, options)
    for at in fault_points(calls, when, "error"):
        faulty = FaultyStore(scene.store, Fault(at, "error", when))
        told: OptimizeReport | DeltactlError
        with opened_as(faulty):
            try:
                told = optimize(faulty, options)
            except DeltactlError as error:
                told = error
        if scene.states.is_new():
            assert_whole(scene)
        method, name = calls[at - 1]
        committed = Table(scene.store.uri, store=scene.store).snapshot().version - scene.version
        if isinstance(told, OptimizeReport):
            assert committed == len(told.versions), (method, name)
            strays = data_files(scene.store) - live_or_old(scene)
            assert strays <= set(told.strays), (at, method, name)
        else:
            assert committed == 0, (at, method, name)
            assert data_files(scene.store) == live_or_old(scene), (at, method, name)
        scene.reset()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(1, "error", "after", "put_if_absent"),
        Fault(1, "error", "before", "put_if_absent"),
        Fault(1, "lie", method="put_if_absent"),
    ],
    ids=["landed", "did-not-land", "lie"],
)
def test_an_ambiguous_put_is_settled_and_commits_once(fault: Fault) -> None:
    scene = set_scene()
    faulty = FaultyStore(scene.store, fault)
    with opened_as(faulty):
        report = optimize(faulty)
    assert report.versions == (scene.version + 1,)
    assert Table(scene.store.uri, store=scene.store).snapshot().version == scene.version + 1
    assert_whole(scene)
    assert data_files(scene.store) == live_or_old(scene)
    assert optimize(scene.store).plan.is_empty


class ForeignCommitFirst(FaultyStore):
    """Somebody else takes the version, right before our put; the store tells of a lost reply."""

    def __init__(self, inner: MemoryStore, answer: Callable[[str], StorageError]) -> None:
        super().__init__(inner)
        self._memory, self._answer, self._done = inner, answer, False

    def put_if_absent(self, name: str, data: bytes) -> None:
        if not self._done:
            self._done = True
            self._memory.put_if_absent(name, b'{"commitInfo":{"operation":"WRITE","txnId":"x"}}\n')
            raise self._answer(name)
        super().put_if_absent(name, data)


def test_an_ambiguous_put_that_another_writer_won_is_rebased() -> None:
    scene = set_scene()
    store = ForeignCommitFirst(scene.store, lambda name: StorageError("connection reset"))
    with opened_as(store):
        report = optimize(store)
    assert report.versions == (scene.version + 2,)
    assert_whole(scene)


def test_outputs_are_kept_while_the_outcome_is_unknown() -> None:
    """The store takes the second commit, says nothing, and then goes away altogether."""
    scene = set_scene()
    calls = count_calls(scene, IN_BATCHES)
    put = [at for at, (method, _) in enumerate(calls, 1) if method == "put_if_absent"][1]
    faults = [Fault(put, "error", "after")]
    faults += [Fault(at, "error", "before") for at in range(put + 1, put + 200)]
    faulty = FaultyStore(scene.store, *faults)
    named = f"; committed before this: version {scene.version + 1}$"
    with opened_as(faulty), pytest.raises(CommitOutcomeUnknownError, match=named):
        optimize(faulty, IN_BATCHES)
    assert Table(scene.store.uri, store=scene.store).snapshot().version == scene.version + 2
    assert_whole(scene)


def test_an_interrupt_right_after_the_commit_keeps_its_files() -> None:
    """Ctrl-C in a program that uses the library arrives where it likes."""
    scene = set_scene()

    class Interrupted(FaultyStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            super().put_if_absent(name, data)
            raise KeyboardInterrupt

    store = Interrupted(scene.store)
    with opened_as(store), pytest.raises(KeyboardInterrupt):
        optimize(store)
    assert_whole(scene)


def test_the_commit_names_only_durable_files() -> None:
    scene = set_scene()
    calls = count_calls(scene, OPTIONS)
    methods = [method for method, _ in calls]
    assert methods.index("sync_directories") < methods.index("put_if_absent")
    assert max(at for at, method in enumerate(methods) if method == "close") < methods.index(
        "sync_directories"
    )
    assert "delete_many" not in methods


def test_row_ids_and_times_survive_every_crash_around_the_commit() -> None:
    scene = set_scene("rowTracking")
    calls = count_calls(scene, IN_BATCHES)
    for at, (method, _) in enumerate(calls, 1):
        if method != "put_if_absent":
            continue
        for when in ("before", "after"):
            faulty = FaultyStore(scene.store, Fault(at, "error", when))
            with opened_as(faulty):
                optimize(faulty, IN_BATCHES)
            assert_whole(scene)
            snapshot = Table(scene.store.uri, store=scene.store).snapshot()
            bases = sorted(
                (row["base_row_id"], json.loads(row["stats"])["numRecords"])
                for row in snapshot.files.to_pylist()
            )
            for (base, rows), (later, _) in itertools.pairwise(bases):
                assert base + rows <= later
            mark = json.loads(snapshot.domains["delta.rowTracking"].configuration)
            assert mark["rowIdHighWaterMark"] == sum(bases[-1]) - 1
            scene.reset()
