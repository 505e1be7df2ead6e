"""The printed commands end a search if nobody else writes, night by night, by a clock."""

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from deltactl.operations.alter.options import AlterOptions
from deltactl.operations.alter.run import alter_table
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.erased.report import ErasedReport, Place
from deltactl.operations.erased.run import search_erased
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.run import vacuum_table
from tests.support.parameters import in_turn
from tests.support.run import run_on
from tests.support.vacuum_scenes import DAY, Scene

PROPERTIES = {
    "delta.deletedFileRetentionDuration": "interval 2 days",
    "delta.logRetentionDuration": "interval 3 days",
}


class Nights:
    """Tables that only printed commands change, one night after the other."""

    def __init__(self, *scenes: Scene) -> None:
        self.scenes = {scene.store.uri: scene for scene in scenes}
        self.clock = scenes[0].clock
        self.commands: list[list[str]] = []

    def run(self, scene: Scene, operation: Callable[..., Any], options: Any, **more: Any) -> Any:
        def call(log: Any, given: Any, context: Any) -> Any:
            return operation(log, given, context, **more)

        return run_on(scene.store, call, options, clock=self.clock)

    def search(self, predicate: str) -> ErasedReport:
        found: ErasedReport = self.run(next(iter(self.scenes.values())), search_erased, predicate)
        return found

    def follow(self, command: str) -> None:
        _, name, uri, *words = shlex.split(command)
        scene = self.scenes[uri]
        match name, words:
            case "alter", ["--set", pair]:
                key, value = pair.split("=")
                report = self.run(scene, alter_table, AlterOptions({key: value}))
                assert report.versions
            case "checkpoint", ["--cleanup", *_]:
                self.run(scene, checkpoint_table, CheckpointOptions(cleanup=True))
            case "vacuum", ["--mode", "full"]:
                self.run(scene, vacuum_table, VacuumOptions(mode="full"))
            case _:
                pytest.fail(command)
        self.commands.append([name, uri])

    def delete_journals(self, place: Place) -> None:
        store = self.scenes[place.table].store
        store.delete_many([name for name in store.contents() if name.startswith(place.parts)])

    def pass_day(self) -> None:
        self.clock.advance(DAY)
        for scene in self.scenes.values():
            scene.store.advance(DAY)


def erase(predicate: str, nights: Nights) -> None:
    """Follow what is printed until nothing is found."""
    for _ in range(20):
        report = nights.search(predicate)
        if report.is_erased:
            return
        assert report.is_found
        for place in report.places:
            assert place.until_ms is None or place.name != "latest commit"
        for command in report.commands:
            nights.follow(command)
        for place in report.places:
            if place.name == "journals of vacuums":  # "delete the directories"
                nights.delete_journals(place)
        nights.pass_day()
    pytest.fail(repr(report.places))


@pytest.mark.parametrize(
    ("predicate", "has_checkpoint"), in_turn(["p = 'a'", "id = 1"], [True, False])
)
def test_a_value_that_the_newest_commits_removed_is_erased(
    predicate: str, has_checkpoint: bool
) -> None:
    source = Scene(properties=PROPERTIES)
    used, _ = source.append(60, "a", "b")
    clone = source.clone(50, used)
    clone.ago(40, lambda: clone.builder.change_metadata(properties=PROPERTIES))
    (absolute,) = (path for path, _ in clone.builder.state.files)
    source.remove(0, used)
    clone.remove(0, absolute)
    if has_checkpoint:
        for scene in (source, clone):
            scene.ago(0, scene.builder.checkpoint)
    nights = Nights(source, clone)
    erase(predicate, nights)
    assert used not in source.names()
    # A commit while the tombstone must stay, and one after it.
    assert nights.commands.count(["alter", clone.store.uri]) <= 2
    assert nights.commands.count(["alter", source.store.uri]) <= 2


def test_the_predicate_in_the_newest_commit_is_erased() -> None:
    scene = Scene(properties=PROPERTIES)
    scene.append(60, "b")
    scene.ago(0, lambda: scene.builder.commit(operation="DELETE", userMetadata="for zebra"))
    nights = Nights(scene)
    erase("p = 'zebra'", nights)
    assert nights.commands.count(["alter", scene.store.uri]) == 1


@pytest.mark.parametrize("kind", ["classic", "v2-parquet"])
@pytest.mark.parametrize(("days", "is_next"), [(1, False), (3, True)])
def test_the_latest_checkpoint_ends_with_a_later_version(
    kind: str, days: float, is_next: bool
) -> None:
    """A later version is made only when its checkpoint leaves out what was removed."""
    scene = Scene("v2Checkpoint", properties=PROPERTIES)
    (used, _) = scene.append(60, "a", "b")
    scene.remove(days, used)
    scene.ago(days, scene.builder.commit)
    scene.ago(days, lambda: scene.builder.checkpoint(kind=kind))
    report = Nights(scene).search("p = 'a'")
    (checkpoints,) = (it for it in report.places if it.name == "checkpoints")
    assert checkpoints.until_ms is None
    alter = f"deltactl alter {scene.store.uri} --set deltactl.versionAfter=3"
    assert (alter in report.commands) == is_next
