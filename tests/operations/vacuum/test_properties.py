"""Random lives of tables: no file that a version worth keeping needs is ever in a plan."""

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deltactl.errors import SafetyError
from tests.support.table_builder import commit_path
from tests.support.vacuum_scenes import DAY, NOW, Scene

pytestmark = pytest.mark.thorough


class Life:
    """A table to which things happened, on days that go by; the newest thing is a day old."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = random.Random(seed)
        self.scene = Scene("deletionVectors")
        self.days = 99.0
        self.gone: list[dict[str, Any]] = []
        self.oldest = 0
        for left in range(steps, 0, -1):  # no two commits in the same millisecond
            passed = self.random.choice([0, 0.5, 3, 8]) + 1e-6
            self.days = max(1 + left * 1e-6, self.days - passed)
            self.step()

    def step(self) -> None:
        scene, live = self.scene, list(self.scene.builder.state.files.values())
        match self.random.randrange(8):
            case 0 | 1:
                scene.append(self.days, *self.random.sample("abc", self.random.randint(1, 2)))
            case 2 | 3 if live:
                add = self.random.choice(live)
                self.gone.append(add)
                scene.remove(self.days, add["path"])
            case 4 | 5 if live:
                add = self.random.choice(live)
                kind = self.random.choice("uupi")
                scene.delete_rows(self.days, add["path"], self.random.randrange(3), kind=kind)
            case 6 if self.gone:
                add = self.gone.pop(self.random.randrange(len(self.gone)))
                if add["path"] not in {a["path"] for a in live}:
                    scene.restore_file(self.days, add)
            case _:
                self.plant_or_forget()

    def plant_or_forget(self) -> None:
        scene = self.scene
        version = scene.builder.version
        match self.random.randrange(3):
            case 0:
                scene.plant(self.days, f"p=a/orphan{self.random.random()}.parquet")
            case 1:
                self.checkpoint_as_writers_do(version)
            case _ if self.random.random() < 0.5:
                self.checkpoint_as_writers_do(version)
                self.oldest = self.random.randint(self.oldest, version)
                scene.builder.forget_commits(self.oldest)
                if commit_path(self.oldest) in scene.store.contents():
                    scene.ago(self.days, lambda: scene.builder.checkpoint(self.oldest))
            case _:
                scene.plant(self.days, f"_change_data/c{self.random.random()}.parquet")

    def checkpoint_as_writers_do(self, version: int) -> None:
        """Without the tombstones that the table's own retention has let go of by then."""
        scene = self.scene
        whole = scene.builder.state_at

        def expired(version: int | None = None) -> Any:
            state = whole(version)
            limit = NOW - (self.days + 7) * DAY
            state.tombstones = {
                key: remove
                for key, remove in state.tombstones.items()
                if remove["deletionTimestamp"] >= limit
            }
            return state

        scene.builder.state_at = expired  # type: ignore[method-assign]
        try:
            scene.ago(self.days, lambda: scene.builder.checkpoint(version))
        finally:
            scene.builder.state_at = whole  # type: ignore[method-assign]

    def times(self) -> list[int]:
        """When each version was committed, by the files' own times."""
        found, last = [], 0
        for version in range(self.scene.builder.version + 1):
            (info,) = self.scene.store.stat_many([commit_path(version)])
            last = max(last + 1, info.modified_ms if info else 0)
            found.append(last)
        return found

    def versions_to_keep(self, cutoff: int, kept: set[int]) -> set[int]:
        """Versions that the log can rebuild and that were current at the cutoff or later."""
        times = self.times()
        latest = self.scene.builder.version
        after = {v for v in range(latest + 1) if times[v] > cutoff}
        before = [v for v in range(latest + 1) if times[v] <= cutoff]
        current = set(before[-1:])
        return {v for v in after | current | kept | {latest} if v >= self.oldest}


SEEDS = st.integers(0, 2**32)


@settings(max_examples=6)
@given(SEEDS, st.integers(3, 25), st.sampled_from([1, 7, 10, 30]), st.booleans())
@example(68980, 47, 30, False)  # a checkpoint of the run let go of tombstones that it had kept
@example(8929354, 12, 1, False)  # log cleanup after the run took the commit of a kept version
def test_no_plan_holds_what_a_version_needs(
    seed: int, steps: int, days: int, keeps_last: bool
) -> None:
    life = Life(seed, steps)
    scene, latest = life.scene, life.scene.builder.version
    options: dict[str, Any] = {"retain_ms": days * DAY, "force_retention": True}
    kept: set[int] = set()
    if keeps_last:
        options["keep_last"] = 3
        kept = {v for v in range(latest - 2, latest + 1) if v >= life.oldest}
    else:
        kept = {life.random.randint(life.oldest, latest)}
        options["keep_versions"] = tuple(kept)
    keep = life.versions_to_keep(NOW - days * DAY, kept)
    needed = set().union(*(scene.needed(version) for version in keep))
    plan = set(scene.plan(**options))
    assert not plan & needed
    rows, checkpoints = scene.live_rows(), count_checkpoints(scene)
    assert not set(lite_plan(scene, **options)) & needed
    scene.vacuum(**options)
    assert needed <= scene.names()
    assert scene.live_rows() == rows
    if not keeps_last:  # the START and END of the run are versions too
        again = set(scene.plan(**options))
        assert not again & needed
        # A checkpoint of the run lets go of tombstones by the table's own retention. Where the run
        # was told to keep them for longer they are orphans to the next, which no version needs.
        assert not again or count_checkpoints(scene) > checkpoints


def count_checkpoints(scene: Scene) -> int:
    return sum(".checkpoint" in name for name in scene.store.contents())


def lite_plan(scene: Scene, **options: Any) -> dict[str, str]:
    """What lite would remove; nothing where it cannot see enough."""
    try:
        return scene.plan(mode="lite", **options)
    except SafetyError:
        return {}


@settings(max_examples=5)
@given(SEEDS, st.integers(3, 25))
def test_what_is_old_and_not_needed_goes(seed: int, steps: int) -> None:
    """All there is, but what some version in the log and inside the retention speaks of."""
    life = Life(seed, steps)
    scene = life.scene
    cutoff = NOW - 7 * DAY
    spared = scene.needed(scene.builder.version)
    for version, (actions, time) in enumerate(
        zip(scene.builder.commits, life.times(), strict=True)
    ):
        young = time > cutoff
        for action in actions:
            body = action.get("add") or action.get("remove")
            if body and (young or body.get("deletionTimestamp", 0) >= cutoff):
                spared.add(body["path"])
        if young or version == scene.builder.version:
            spared |= scene.needed(version)
    names = scene.names()
    old = {i.name for i in scene.store.stat_many(sorted(names)) if i and i.modified_ms < cutoff}
    vectors = {name for name in old if name.endswith(".bin")}
    assert old - spared - vectors <= set(scene.plan())


@pytest.mark.slow
@settings(max_examples=1500)
@given(SEEDS, st.integers(3, 60), st.sampled_from([0, 1, 7, 10, 30]), st.booleans())
def test_no_plan_holds_what_a_version_needs_explored(
    seed: int, steps: int, days: int, keeps_last: bool
) -> None:
    test_no_plan_holds_what_a_version_needs.hypothesis.inner_test(  # type: ignore[attr-defined]
        seed, steps, days, keeps_last
    )
