"""A log cleanup removes commits right after somebody listed them."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import ConflictError, NotATableError, ObjectNotFoundError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.manifest.run import ManifestOptions, generate_manifests
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import FileInfo, Store
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.run import run_on
from tests.support.stores import opened_as
from tests.support.table_builder import LOG
from tests.support.vacuum_scenes import DAY, NOW, Scene


class CleanedUp(ForwardingStore):
    """Somebody checkpoints and cleans up the log, once, behind the n-th listing of it."""

    def __init__(self, scene: Scene, at: int) -> None:
        super().__init__(scene.dated())
        self._scene, self._left = scene, at

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        found = list(super().list_from(prefix, start))
        if prefix == LOG:
            self._left -= 1
            if self._left == 0:
                self._scene.ago(40, self._scene.builder.checkpoint)
                self._scene.builder.forget_commits(self._scene.builder.version)
        return iter(found)


def set_scene(*features: str) -> Scene:
    scene = Scene(*features)
    paths = scene.append(60, *"aaaaaa")
    scene.append(50, "b")
    scene.remove(45, paths[2])
    return scene


def _load(store: Store, scene: Scene) -> None:
    assert DeltaLog(store, pytest.fail).snapshot().version == scene.builder.version


def _optimize(store: Store, scene: Scene) -> None:
    report = run_on(
        store,
        optimize_table,
        OptimizeOptions(),
        warn=pytest.fail,
        engine=LocalEngine(workers=1),
        clock=FixedClock(NOW),
    )
    assert report.files_removed == 5


def _vacuum(store: Store, scene: Scene) -> None:
    assert scene.vacuum(store, retain_ms=7 * DAY).files_removed == 1


@pytest.mark.parametrize(("run", "at"), [(_load, 1), (_optimize, 1), (_vacuum, 1)])
def test_the_log_is_listed_again(run: Callable[[Store, Scene], None], at: int) -> None:
    scene = set_scene()
    rows = scene.live_rows()
    store = CleanedUp(scene, at)
    run(store, scene)
    assert store._left <= 0
    assert scene.live_rows() == rows


class Superseded(ForwardingStore):
    """Somebody checkpoints a quiet table and cleans up, just before a sidecar is read."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.dated())
        self._scene = scene
        self.happened = False

    def open_input(self, name: str) -> pa.NativeFile:
        if "/_sidecars/" in name and not self.happened:
            self.happened = True
            old = [n for n in self._scene.store.contents() if "checkpoint" in n]
            self._scene.builder.checkpoint()
            self._scene.builder.forget_commits(self._scene.builder.version)
            self._scene.store.delete_many(old)
        return super().open_input(name)


def _checkpoint(store: Store, scene: Scene) -> None:
    with opened_as(store):
        run_on(
            store,
            checkpoint_table,
            CheckpointOptions(cleanup=True),
            warn=pytest.fail,
            clock=scene.clock,
        )


def _manifests(store: Store, scene: Scene) -> None:
    report = run_on(
        store, generate_manifests, ManifestOptions(), warn=pytest.fail, clock=scene.clock
    )
    assert report.plan.count("new") == 2


def _refresh_manifests(store: Store, scene: Scene) -> None:
    snapshot = DeltaLog(store, pytest.fail).snapshot()
    report = generate_manifests(
        DeltaLog(store, ignore_warning),
        ManifestOptions(),
        RunContext(warn=pytest.fail),
        snapshot=snapshot,
    )
    assert report.plan.count("new") == 2


@pytest.mark.parametrize("run", [_optimize, _vacuum, _checkpoint, _manifests, _refresh_manifests])
def test_the_checkpoint_that_was_read_is_gone(run: Callable[[Store, Scene], None]) -> None:
    scene = set_scene("v2Checkpoint")
    scene.ago(45, lambda: scene.builder.checkpoint(2, "v2-json"))
    rows = scene.live_rows()
    store = Superseded(scene)
    run(store, scene)
    assert store.happened
    assert scene.live_rows() == rows


def test_what_is_missing_time_and_again_is_an_error() -> None:
    looks = []

    def look() -> None:
        looks.append(1)
        raise ObjectNotFoundError("it is gone")

    log = DeltaLog(set_scene().builder.store, ignore_warning)
    with pytest.raises(ObjectNotFoundError):
        log.retry_after_cleanup(lambda: log.retry_after_cleanup(look))
    assert len(looks) == 4


class Replaced(ForwardingStore):
    """Another table takes the place of this one, once, behind the n-th listing of the log."""

    def __init__(self, scene: Scene, at: int = -1) -> None:
        super().__init__(scene.dated())
        self._scene, self.num_listings, self._at = scene, 0, at
        self.other: dict[str, bytes] | None = None

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        if prefix.startswith(LOG):
            if self.num_listings == self._at:
                self._replace()
            self.num_listings += 1
        return super().list_from(prefix, start)

    def _replace(self) -> None:
        other = expired_scene("cc")
        self.other = other.store.contents()
        self._scene.store.restore(self.other)
        for info in filter(None, other.store.stat_many(list(self.other))):
            self._scene.store.set_modified(info.name, info.modified_ms)


def expired_scene(partitions: str = "c") -> Scene:
    scene = set_scene()
    scene.ago(40, scene.builder.checkpoint)
    scene.append(35, *partitions)
    scene.append(1, *partitions)
    return scene


def test_the_log_of_a_table_that_replaced_this_one_is_kept() -> None:
    counting = Replaced(expired_scene())
    _clean(counting, counting._scene)
    assert counting.num_listings > 2
    for at in range(1, counting.num_listings):
        scene = expired_scene()
        store = Replaced(scene, at)
        with pytest.raises((ConflictError, NotATableError)):
            _clean(store, scene)
        assert store.other is not None
        assert scene.store.contents() == store.other


def _clean(store: Store, scene: Scene) -> None:
    options = CheckpointOptions(cleanup_only=True)
    report = run_on(store, checkpoint_table, options, warn=pytest.fail, clock=scene.clock)
    assert report.cleanup is not None
    assert report.cleanup.commits
