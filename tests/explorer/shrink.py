"""A way to a violation, made shorter: fewer changes of program, fewer faults, fewer steps."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby

from tests.explorer.machine import Machine, State
from tests.explorer.schedule import Schedule, Step
from tests.explorer.world import Violation


def shrink(machine: Machine, schedule: Schedule, rule: str) -> Schedule:
    """A schedule that breaks the rule too, and that no single change makes simpler.

    Raises:
        ValueError: the schedule given does not break it.
    """
    best = _until_broken(machine, schedule, rule)
    if best is None:
        raise ValueError(f"{schedule} does not lead to a violation of: {rule}")
    while True:
        tried = (_until_broken(machine, steps, rule) for steps in _simpler(best))
        better = next((t for t in tried if t is not None and _cost(t) < _cost(best)), None)
        if better is None:
            return best
        best = better


def _cost(schedule: Schedule) -> tuple[int, int, int]:
    return schedule.switches, sum(1 for step in schedule if step.choice), len(schedule)


def _simpler(schedule: Schedule) -> Iterator[Sequence[Step]]:
    """Without the steps of a program in a row, with two such rows exchanged, without a fault."""
    rows = [list(run) for _, run in groupby(schedule, lambda step: step.program)]
    for at in range(len(rows)):
        yield list(chain(*rows[:at], *rows[at + 1 :]))
    for at in range(len(rows) - 1):
        yield list(chain(*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]))
    for at, step in enumerate(schedule):
        if step.choice and step.program >= 0:
            yield [*schedule[:at], Step(step.program), *schedule[at + 1 :]]


def _until_broken(machine: Machine, steps: Sequence[Step], rule: str) -> Schedule | None:
    """The steps up to the violation; ``None`` if there is none, or a step cannot be taken."""
    state, taken = machine.start(), list[Step]()
    try:
        machine.look(state)
        for step in steps:
            if step not in machine.possible(state):
                return None
            taken.append(step)
            state = machine.follow(state, step)
            machine.look(state)
        if not machine.possible(state):
            machine.checks.end(state)
    except Violation as violation:
        return Schedule(taken) if violation.rule == rule else None
    return None


def way_to(machine: Machine, after: Mapping[State, Sequence[State]], state: State) -> Schedule:
    """One of the ways on which a search came to a state, and the step there that breaks a rule."""
    came: dict[State, State | None] = {machine.start(): None}
    queue = list(came)
    for place in queue:
        if place == state:
            break
        for child in after.get(place, ()):
            if child not in came:
                came[child] = place
                queue.append(child)
    places = [state]
    while (before := came[places[-1]]) is not None:
        places.append(before)
    places.reverse()
    pairs = zip(places, places[1:], strict=False)
    steps = [_step_between(machine, first, second) for first, second in pairs]
    return Schedule([*steps, *_breaking(machine, state)])


def _step_between(machine: Machine, first: State, second: State) -> Step:
    for step in machine.possible(first):
        try:
            if machine.follow(first, step) == second:
                return step
        except Violation:
            continue
    raise AssertionError("no step leads from one state to the next")


def _breaking(machine: Machine, state: State) -> list[Step]:
    """The step from a state that itself breaks a rule, if the state does not."""
    try:
        machine.look(state)
    except Violation:
        return []
    for step in machine.possible(state):
        try:
            machine.follow(state, step)
        except Violation:
            return [step]
    return []
