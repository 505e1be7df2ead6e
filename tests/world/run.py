"""Histories of worlds: made from a seed, run step by step, and made shorter when they fail."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.world.checks import Checks
from tests.world.commands import EVERYTHING, begin_with_commands, take
from tests.world.spaces import Bucket, Disk, Kind, Space, set_store_time
from tests.world.steps import found_world
from tests.world.stores import entered
from tests.world.upkeep import DAY_MS
from tests.world.world import START_MS, Chance, Failed, World

KINDS: tuple[Kind, ...] = ("disk", "disk", "folding", "folding", "shared", "objects", "objects")
LENGTH = 20
_MINUTE_MS = 60_000
_BETWEEN = (_MINUTE_MS, _MINUTE_MS, DAY_MS // 8, DAY_MS, 2 * DAY_MS)


@dataclass(frozen=True)
class History:
    """Steps by number, name and the seed of what is chance in them."""

    seed: int
    kind: Kind
    steps: tuple[tuple[int, str, int], ...]
    without: frozenset[str] = frozenset()

    def only(self, numbers: Sequence[int]) -> History:
        """The same with some of its steps."""
        return replace(self, steps=tuple(step for step in self.steps if step[0] in numbers))


@dataclass
class Outcome:
    """What happened, line by line, and the failure, if there is one."""

    history: History
    lines: list[str] = field(default_factory=list)
    failure: Failed | None = None
    taken: int = 0


def make_history(seed: int, length: int = LENGTH, without: frozenset[str] = frozenset()) -> History:
    """The history of a seed: always the same."""
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    names = [name for name in EVERYTHING if name not in without]
    weights = [EVERYTHING[name][0] for name in names]
    chosen = chance.choices(names, weights, k=length)
    steps = ((n, name, chance.getrandbits(32)) for n, name in enumerate(chosen))
    return History(seed, kind, tuple(steps), without)


def run_history(history: History, *, keep: Path | None = None) -> Outcome:
    """Take all steps, and check the world after each."""
    outcome = Outcome(history)
    set_store_time(START_MS)
    space: Space
    if history.kind == "objects":
        space = Bucket(f"world-{history.seed}")
    else:
        root = Path(tempfile.mkdtemp(prefix="world-"))
        space = Disk(root, folds=history.kind == "folding")
    world = World(space, history.kind, history.seed, take, history.without)
    try:
        with entered(world):
            _take_all(world, outcome)
        if outcome.failure is not None and keep is not None and isinstance(space, Disk):
            shutil.copytree(space.root, keep / str(history.seed), symlinks=True)
    finally:
        space.close()
    outcome.lines = world.lines
    return outcome


def _take_all(world: World, outcome: Outcome) -> None:
    history, checks = outcome.history, Checks(world, world.model)
    first = Chance(f"first of {history.seed}")
    world.say(f"{history.kind}: {found_world(world, first)}")
    begin_with_commands(world, first)
    for number, name, seed in history.steps:
        world.pass_time(_BETWEEN[seed % len(_BETWEEN)])
        world.lines.append(f"{number}.")
        before = len(world.lines)
        world.take(name, seed)
        world.lines[before - 1 :] = [f"{number:2} {line}" for line in world.lines[before:]]
        outcome.taken += 1
        if world.model.is_over:
            world.say("a run reported that others deleted what it committed")
            return
        checks.check()
        if number % 10 == history.seed % 10 == 0 and history.kind == "disk":
            checks.ask_others()
        if world.failure is not None:
            outcome.failure = world.failure
            return


def shrink(failed: Outcome, most: int = 60) -> Outcome:
    """Leave steps out, one at a time from the end, as long as it fails in the same way."""
    assert failed.failure is not None
    best, kind = failed, failed.failure.kind
    numbers = [step[0] for step in failed.history.steps][: failed.taken]
    for number in reversed(numbers[:-1]):
        most -= 1
        if most < 0:
            break
        outcome = run_history(best.history.only([n for n in numbers if n != number]))
        if outcome.failure is not None and outcome.failure.kind == kind:
            best = outcome
            numbers = [step[0] for step in outcome.history.steps][: outcome.taken]
    return best
