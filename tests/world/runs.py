"""How a command runs: by a clock that may be wrong, and with what happens meanwhile."""

from functools import partial
from typing import Final, get_args

from tests.world.stores import Ran, run_deltactl
from tests.world.upkeep import DAY_MS
from tests.world.world import Action, Chance, Fault, Point, PointKind, Run, World

_MEANWHILE: Final = {
    "pass": 16,
    "write": 24,
    "vacuum": 16,
    "copy": 16,
    "maintain": 7,
    "optimize": 4,
    "alter": 10,
    "land": 2,
    "vacuum by spark": 12,
    "checkpoint": 4,
    "restore": 8,
    "clone": 5,
    "sync clone": 3,
    "add address": 3,
    "undo": 1,
    "purge quarantine": 1,
}
"""What may happen while a run is in progress, by weight."""


def run_command(
    world: World, chance: Chance, command: str, place: str, words: list[str], run: Run
) -> Ran:
    """Run a command on a place, at one of its addresses."""
    where = " on a terminal" if run.is_attended else ""
    at_ms = f" by a clock {run.offset_ms / DAY_MS:+.3g} days off" if run.offset_ms else ""
    shown = " ".join([command, place, *(w.rpartition("/")[2] if "://" in w else w for w in words)])
    world.say(f"{shown}{where}{at_ms}")
    ran = run_deltactl(world, [command, address_of(world, chance, place), *words], run)
    _judge(world, run, ran)
    world.say(f"... {command}: {'killed' if run.is_dead else int(ran.code)}")
    return ran


def _judge(world: World, run: Run, ran: Ran) -> None:
    """What holds of each run, however it ended."""
    if run.is_dead:
        world.model.accept_killed(run)
        return
    if '"INTERNAL"' in ran.text:
        world.fail("internal error", ran.text[-600:])
    if ran.code:
        world.model.accept_reported(ran.text)
    if ran.code == 0 and run.replaced in run.acknowledged:
        world.fail("commit acknowledged, but replaced", str(run.replaced))
    if ran.code == 0 and run.is_unsynced:
        world.fail("commit acknowledged, but not durable", ran.text[:200])


def address_of(world: World, chance: Chance, place: str) -> str:
    others = [name for name, where in world.seconds.items() if where == place]
    name = chance.choice(others) if others and chance.random() < 0.5 else place
    return world.space.address(name)


def random_run(world: World, chance: Chance, place: str) -> Run:
    """How a run on a place goes."""
    run = Run(place, world.now_ms, _random_offset(world, chance))
    if world.runs:  # one thing inside another is enough
        return run
    if chance.random() < 0.5 and "meanwhile" not in world.without:
        point = _random_point(world, chance)
        names = [name for name in _MEANWHILE if name not in world.without]
        weights = [_MEANWHILE[name] for name in names]
        first = ["pass"] if chance.random() < 0.5 else []  # a run that takes long
        for name in (*first, *chance.choices(names, weights, k=chance.choice((1, 2, 3, 4)))):
            run.meanwhile.append((point, partial(world.take, name, chance.getrandbits(32))))
    if chance.random() < 0.35 and "faults" not in world.without:
        run.fault = Fault(_random_point(world, chance), chance.choice(get_args(Action)))
    return run


def _random_offset(world: World, chance: Chance) -> int:
    """Most clocks are right. On one machine's disk, one that was wrong is right from then on.

    There, files are also kept for a day less: nothing else shows that the clock is ahead.
    """
    days = chance.choice((0, 0, 0, 0, 0.1, 2, 40, 40))
    if "clocks" in world.without:
        return 0
    if not world.is_one_machine:
        return int(days * chance.choice((1, 1, -1)) * DAY_MS)
    if world.clock_was_wrong or not days:
        return 0
    world.clock_was_wrong = True
    world.model.slack_ms = DAY_MS
    return int(days * DAY_MS)


def _random_point(world: World, chance: Chance) -> Point:
    kinds: list[PointKind] = ["call", "write", "write", "commit", "later", "later"]
    if world.kind == "objects":
        kinds.append("commit")
    else:
        kinds += ["link", "link", "link", "link", "sync", "copy", "copy", "copy"]
    kind = chance.choice(kinds)
    last = {"call": 40, "write": 9, "commit": 1, "later": 6, "link": 1, "sync": 6, "copy": 2}[kind]
    return Point(kind, chance.randint(1, last) + (kind == "commit" and chance.random() < 0.2))
