"""What dies or fails at any store call of a vacuum, those of its workers included."""

from typing import Any

import pytest

from deltactl.errors import DeltactlError
from deltactl.operations.vacuum.journal import list_runs
from deltactl.operations.vacuum.undo import undo_vacuum
from tests.support.clock import FixedClock
from tests.support.parameters import in_turn
from tests.support.stores import Crash, Fault, FaultyStore, States, fault_points
from tests.support.vacuum_scenes import NOW, Scene

pytestmark = pytest.mark.thorough

MODES: list[dict[str, Any]] = [{"mode": "full"}, {"mode": "lite"}, {"quarantine": True}]


class Stage:
    """A table with all kinds of work, that can be put back to where it was."""

    def __init__(self) -> None:
        self.scene = Scene("deletionVectors")
        scene = self.scene
        path, *gone, cloned = scene.append(60, *"abcd")
        scene.delete_rows(50, path, 0)
        self.clone = scene.clone(48, path, cloned)
        (vector,) = (name for name in scene.names() if name.endswith(".bin"))
        scene.delete_rows(45, path, 1)
        scene.delete_rows(44, path, 2)
        scene.remove(40, *gone, cloned)
        scene.plant(30, "p=a/orphan.parquet", "_change_data/c.parquet")
        scene.ago(20, scene.builder.checkpoint)
        self.before = scene.store.contents()
        self.times = {i.name: i.modified_ms for i in scene.store.stat_many([*self.before]) if i}
        self.rows = scene.live_rows()
        self.cloned_rows = len(self.clone.live_rows())
        self.needed = scene.needed(scene.builder.version) | {cloned, vector}
        self.planned = set(scene.plan())
        self.states = States(scene.store)

    def reset(self) -> None:
        self.scene.clock = FixedClock(NOW)  # for the same ids again
        self.scene.store.restore(self.before)
        for name, modified_ms in self.times.items():
            self.scene.store.set_modified(name, modified_ms)

    def count_calls(self, options: dict[str, Any]) -> list[tuple[str, str]]:
        faulty = FaultyStore(self.scene.dated())
        assert self.scene.vacuum(faulty, **options).files_removed
        calls = faulty.calls
        self.reset()
        return calls

    def assert_valid(self) -> None:
        """The table reads as before, nothing it needs is gone, nothing but the plan is."""
        assert self.scene.live_rows() == self.rows
        names = self.scene.names()
        assert self.needed <= names
        assert len(self.clone.live_rows()) == self.cloned_rows
        before = {n for n in self.before if not n.startswith(("_delta_log/", "_deltactl/"))}
        assert before - names <= self.planned


def points(calls: list[tuple[str, str]], when: Any, action: Any) -> list[int]:
    """Each call from the first that changes anything; those before it only look."""
    first = [method for method, _ in calls].index("put") + 1
    return [at for at in fault_points(calls, when, action) if at >= first]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("options", MODES, ids=str)
def test_a_crash_at_any_call_harms_nothing(options: dict[str, Any], when: Any) -> None:
    stage = Stage()
    calls = stage.count_calls(options)
    for at in points(calls, when, "crash"):
        with pytest.raises(Crash):
            stage.scene.vacuum(
                FaultyStore(stage.scene.dated(), Fault(at, "crash", when)), **options
            )
        if stage.states.is_new():
            stage.assert_valid()
            if not options.get("quarantine"):
                stage.scene.vacuum()
                assert stage.planned.isdisjoint(stage.scene.names())
            elif list_runs(stage.scene.store):
                undo_vacuum(stage.scene.store, "last")
                assert stage.planned <= stage.scene.names()
        stage.reset()


@pytest.mark.parametrize(("options", "when"), in_turn(MODES, ["before", "after"]))
def test_an_error_at_any_call_is_reported_and_harms_nothing(
    options: dict[str, Any], when: Any
) -> None:
    stage = Stage()
    calls = stage.count_calls(options)
    for at in points(calls, when, "error"):
        try:
            report = stage.scene.vacuum(
                FaultyStore(stage.scene.dated(), Fault(at, "error", when)), **options
            )
        except DeltactlError:
            assert stage.planned <= stage.scene.names(), (
                f"{calls[at - 1]}: told as if all were there"
            )
        else:
            gone = {n for n in stage.before if n not in stage.scene.store.contents()}
            assert report.files_removed <= len(gone), calls[at - 1]
        if stage.states.is_new():
            stage.assert_valid()
        stage.reset()


@pytest.mark.parametrize("options", [{"mode": "full"}, {"quarantine": True}], ids=str)
def test_half_a_batch_harms_nothing(options: dict[str, Any]) -> None:
    stage = Stage()
    method = "move_many" if options.get("quarantine") else "delete_many"
    with pytest.raises(Crash):
        stage.scene.vacuum(
            FaultyStore(stage.scene.dated(), Fault(1, "tear", method=method)), **options
        )
    stage.assert_valid()
    assert stage.scene.vacuum().files_removed
    assert stage.planned.isdisjoint(stage.scene.names())


def test_nothing_goes_before_the_journal_and_the_start_are_there() -> None:
    stage = Stage()
    for options in MODES:
        methods = [method for method, _ in stage.count_calls(options)]
        first = min(
            methods.index(method) for method in ("delete_many", "move_many") if method in methods
        )
        assert methods.index("put") < methods.index("put_if_absent") < first
        assert "put" not in methods[methods.index("put_if_absent") : first]
