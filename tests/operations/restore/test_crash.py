"""What dies or fails at any store call of a restore."""

from typing import Any

import pytest

from deltactl.errors import CommitOutcomeUnknownError, DeltactlError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.report import RestoreReport
from deltactl.operations.restore.run import restore_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.support.clock import FixedClock
from tests.support.parameters import all_pairs
from tests.support.stores import Crash, Fault, FaultyStore, MemoryStore, States, fault_points
from tests.support.table_builder import START_MS, Column, TableBuilder

pytestmark = pytest.mark.thorough

OPTIONS: list[dict[str, Any]] = [
    {},
    {"where": "p = 'a'"},
    {"ignore_missing": True, "expect_files": 1},
]


class Stage:
    """A table with vectors, a checkpoint, manifests and a checkpoint that is due."""

    def __init__(self, uri: str, is_whole: bool) -> None:
        self.store = MemoryStore(uri)
        self.store.delete_many([name for batch in self.store.walk() for name in batch])
        properties = {
            "delta.checkpointInterval": "2",
            "delta.enableExpiredLogCleanup": "false",
            "delta.compatibility.symlinkFormatManifest.enabled": "true",
        }
        builder = TableBuilder(
            self.store,
            [Column("p", "string"), Column("id")],
            partition_by=["p"],
            features=["deletionVectors"],
            properties=properties,
        )
        path, gone = builder.append(
            [{"p": "a", "id": 1}, {"p": "a", "id": 2}], [{"p": "b", "id": 3}]
        )
        builder.delete_rows(path, [0])
        builder.checkpoint()
        builder.remove(path, gone)
        builder.append([{"p": "a", "id": 4}])
        if not is_whole:
            self.store.delete_many([gone])
        self.version = builder.version
        self.before = self.store.contents()
        self.rows = self.read()

    def read(self) -> list[dict[str, Any]]:
        rows = Table("x", store=self.store).scan().read_all().to_pylist()
        return sorted(rows, key=lambda row: row["id"])

    def restore(self, store: Store, options: dict[str, Any]) -> RestoreReport:
        clock = FixedClock(START_MS + 60_000)
        context = RunContext(warn=lambda _: None, sleep=lambda _: None, clock=clock)
        return restore_table(DeltaLog(store, context.warn), RestoreOptions(2, **options), context)

    @property
    def latest(self) -> int:
        return Table("x", store=self.store).snapshot().version


@pytest.mark.parametrize(
    ("options", "kind", "when"), all_pairs(OPTIONS, ["error", "crash"], ["before", "after"])
)
def test_the_table_is_as_before_or_as_after(options: dict[str, Any], kind: Any, when: Any) -> None:
    stage = Stage(f"memory://restore-crash-{kind}-{when}", "ignore_missing" not in options)
    counted = FaultyStore(stage.store)
    assert stage.restore(counted, options).version_after == stage.version + 1
    after = stage.read()
    assert after != stage.rows
    stage.store.restore(stage.before)
    seen, states = set(), States(stage.store)
    for at in fault_points(counted.calls, when, kind):
        report: RestoreReport | None = None
        error: BaseException | None = None
        try:
            report = stage.restore(FaultyStore(stage.store, Fault(at, kind, when)), options)
        except (Crash, DeltactlError) as raised:
            error = raised
        left = stage.store.contents()
        if left == stage.before:
            assert report is None, counted.calls[at - 1]
            seen.add(False)
            continue  # the same bytes: what is read, and what a second run does, is shown above
        is_done = stage.latest > stage.version
        assert stage.latest <= stage.version + 1
        assert stage.read() == (after if is_done else stage.rows), counted.calls[at - 1]
        if report is not None:
            assert (report.version_after is not None) == is_done
        elif isinstance(error, DeltactlError) and not isinstance(error, CommitOutcomeUnknownError):
            assert not is_done, (counted.calls[at - 1], error)
        seen.add(is_done)
        if states.is_new():
            assert stage.before.keys() <= left.keys()
            again = stage.restore(stage.store, options)
            assert (again.version_after is None) == is_done
            assert stage.read() == after
        stage.store.restore(stage.before)
    # A first call that changes the table is the commit itself.
    assert seen == ({False, True} if when == "before" else {True})
