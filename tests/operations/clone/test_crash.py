"""What dies or fails at any store call of a clone, in the source or in the target."""

from collections.abc import Iterator
from typing import Any

import pytest

from deltactl.errors import CommitDamagedError, CommitOutcomeUnknownError, DeltactlError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.report import CloneReport
from deltactl.operations.clone.run import clone_table
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.support.clock import FixedClock
from tests.support.stores import Crash, Fault, FaultyStore, MemoryStore, States, fault_points
from tests.support.table_builder import START_MS, Column, TableBuilder, commit_path

pytestmark = pytest.mark.thorough

KINDS = ("deep", "shallow", "sync")
AFTER_COMMIT = (CommitOutcomeUnknownError, CommitDamagedError)


class Stage:
    """A source with vectors, and a target; for a sync, an earlier clone of it."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.source = MemoryStore(f"memory://{name}-source")
        self.target = MemoryStore(f"memory://{name}-target")
        for store in (self.source, self.target):
            store.delete_many([name for batch in store.walk() for name in batch])
        builder = TableBuilder(self.source, [Column("id")], features=["deletionVectors"])
        (path,) = builder.append([{"id": 1}, {"id": 2}])
        builder.append([{"id": 3}])
        if kind == "sync":
            self.clone(self.source, self.target)
        builder.delete_rows(path, [0])
        builder.append([{"id": 4}])
        self.before = self.source.contents(), self.target.contents()
        self.version = 0 if kind == "sync" else None

    def clone(self, source: Store, target: Store) -> CloneReport:
        context = RunContext(
            warn=lambda _: None, sleep=lambda _: None, clock=FixedClock(START_MS + 60_000)
        )
        options = CloneOptions(self.kind != "shallow", sync=self.kind == "sync")
        return clone_table(
            DeltaLog(source, context.warn), DeltaLog(target, context.warn), options, context
        )

    def rewind(self) -> None:
        if self.source.contents() != self.before[0]:  # with new times, which a sync notices
            self.source.restore(self.before[0])
        self.target.restore(self.before[1])

    def read(self) -> list[int] | None:
        """The rows of the target; ``None`` if there is no table."""
        if self.target.stat_many([commit_path(0)]) == [None]:
            return None
        rows = Table("x", store=self.target).scan().read_all()
        return sorted(rows["id"].to_pylist())

    def leave_no_lease(self) -> None:
        """A run that died holds its lease until it expires, unless it was on this machine."""
        names = [info.name for info in self.target.list_from("_deltactl/leases")]
        self.target.delete_many(names)


def faults(stage: Stage, kind: Any, when: Any) -> Iterator[tuple[FaultyStore, FaultyStore, str]]:
    """A pair of stores for each call to one of them, with a fault at that call."""
    counted = FaultyStore(stage.source), FaultyStore(stage.target)
    stage.clone(*counted)
    stage.rewind()
    for side in (0, 1):
        calls = counted[side].calls
        for at in fault_points(calls, when, kind):
            stores = [FaultyStore(stage.source), FaultyStore(stage.target)]
            stores[side] = FaultyStore((stage.source, stage.target)[side], Fault(at, kind, when))
            yield stores[0], stores[1], f"{('source', 'target')[side]}: {calls[at - 1]}"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fault", ["crash", "error"])
@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_table_or_the_whole(kind: str, fault: Any, when: Any) -> None:
    stage = Stage(kind, f"clone-crash-{kind}-{fault}-{when}")
    old = stage.read()
    seen, states = set(), States(stage.source, stage.target)
    for source, target, call in faults(stage, fault, when):
        report: CloneReport | None = None
        error: BaseException | None = None
        try:
            report = stage.clone(source, target)
        except (Crash, DeltactlError) as raised:
            error = raised
        found = stage.read()
        is_done = found == [2, 3, 4]
        assert is_done or found == old, call
        if report is not None:
            assert is_done, call
        elif isinstance(error, DeltactlError) and not isinstance(error, AFTER_COMMIT):
            # After the commit, only the record of the run could not be deleted.
            assert not is_done or "clone.json" in str(error), (call, error)
        before = stage.before[0]
        if kind == "shallow" and is_done:
            assert len(read_notes(stage.source)) == 1, call
        elif kind != "shallow":
            assert stage.source.contents() == before, call
        seen.add(is_done)
        stage.leave_no_lease()
        if states.is_new() and not (kind == "shallow" and is_done):
            stage.clone(stage.source, stage.target)
            assert stage.read() == [2, 3, 4], call
        stage.rewind()
    # The last write of a shallow clone is its commit.
    assert seen == {False, True} or (seen == {False} and (fault, when) == ("crash", "before"))
