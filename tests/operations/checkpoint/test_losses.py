"""A log cleanup would delete the versions from which the rows of a lost file can be restored."""

from collections.abc import Callable

import pytest

from deltactl.errors import SafetyError
from deltactl.operations.checkpoint.run import (
    CheckpointOptions,
    CheckpointReport,
    checkpoint_table,
)
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.storage.store import Store
from tests.support.run import run_on
from tests.support.stores import CountingStore
from tests.support.vacuum_scenes import Scene

LOSS = "1 live file does not exist, such as"
RESIZED = "1 live file has another size than in the log, such as"
ALL = [CheckpointOptions(cleanup=True), CheckpointOptions(cleanup_only=True)]


def set_scene() -> tuple[Scene, str, str]:
    """Return a table, a file, and the file that has its rows since version 2.

    Versions 0 and 1 have expired, and version 2 has a checkpoint.
    """
    scene = Scene(properties={"delta.checkpointInterval": "1"})
    (old,) = scene.append(90, "b")
    add = scene.ago(80, lambda: scene.builder.write_file(scene.rows("b")))
    removed = scene.builder.remove_action(old)
    scene.ago(80, lambda: scene.builder.commit(removed, add, operation="OPTIMIZE"))
    scene.ago(50, lambda: scene.builder.checkpoint(2))
    scene.append(10, "a", "a")
    return scene, old, add["add"]["path"]


def clean(scene: Scene, options: CheckpointOptions, store: Store | None = None) -> CheckpointReport:
    chosen = store or scene.store
    return run_on(chosen, checkpoint_table, options, warn=pytest.fail, clock=scene.clock)


def lose(scene: Scene, path: str) -> None:
    scene.store.delete_many([path])


def truncate(scene: Scene, path: str) -> None:
    scene.store.put(path, scene.store.read(path)[:-9])


@pytest.mark.parametrize("options", ALL)
@pytest.mark.parametrize(("harm", "text"), [(lose, LOSS), (truncate, RESIZED)])
def test_it_is_refused(
    options: CheckpointOptions, harm: Callable[[Scene, str], None], text: str
) -> None:
    scene, _, new = set_scene()
    harm(scene, new)
    before = scene.store.contents()
    with pytest.raises(SafetyError, match=f"{text} '{new}'") as caught:
        clean(scene, options)
    assert "--fix missing-files" in str(caught.value.hint)
    assert scene.store.contents() == before


def test_the_automatic_cleanup_is_left_out() -> None:
    scene, _, new = set_scene()
    lose(scene, new)
    before, said = set(scene.store.contents()), list[str]()
    options = OptimizeOptions()
    run_on(scene.store, optimize_table, options, warn=said.append, clock=scene.clock)
    (warning,) = said
    assert "the log was not cleaned up: " + LOSS in warning
    assert before < set(scene.store.contents())


@pytest.mark.parametrize("options", ALL)
def test_few_files_are_looked_up(options: CheckpointOptions) -> None:
    """These are the live files of the commits that are deleted."""
    scene, old, new = set_scene()
    lose(scene, old)  # as by a vacuum
    counting = CountingStore(scene.store)
    report = clean(scene, options, counting)
    assert report.cleanup is not None
    assert report.cleanup.lost == ((0, 1),)
    assert {name for name in scene.names() | {old} if counting.touched(name)} == {new}


def test_all_versions_need_the_lost_file() -> None:
    """No version has its rows, so the cleanup takes nothing away."""
    scene = Scene()
    (lost,) = scene.append(90)
    scene.ago(85, lambda: scene.builder.checkpoint(1))
    scene.builder.forget_commits(1)
    scene.append(80)
    scene.ago(50, lambda: scene.builder.checkpoint(2))
    scene.append(10)
    lose(scene, lost)
    report = clean(scene, ALL[1])
    assert report.cleanup is not None
    assert report.cleanup.lost == ((1, 1),)
