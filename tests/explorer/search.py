"""All interleavings of a machine, the shortest way to a violation, or some schedules at random.

States met twice are searched once.
"""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.explorer.commuting import Meetings, Reliance
from tests.explorer.machine import Machine, State
from tests.explorer.schedule import ENVIRONMENT, Schedule, Step
from tests.explorer.shrink import way_to
from tests.explorer.world import Call, Violation

_MOST_PLACES: Final = 400_000
_PLAIN_SHARE: Final = 0.97


@dataclass
class Found:
    """A violation, and how one gets there."""

    violation: Violation
    schedule: Schedule


@dataclass
class Counts:
    """How much was looked at."""

    states: int = 0
    steps: int = 0
    schedules: float = 0
    ends: int = 0
    depth: int = 0
    runs: int = 0
    worlds: int = 0


class _Graph:
    """States by number, and the numbers of those that may follow; few bytes for each state."""

    def __init__(self) -> None:
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._following: list[array[int] | None] = []
        self._earlier: dict[int, array[int]] = {}  # what followed before it was searched again

    def number(self, state: State) -> int:
        """The number of a state; a new one if it was not met before."""
        found = self._numbers.setdefault(state, len(self.states))
        if found == len(self.states):
            self.states.append(state)
            self._following.append(None)
        return found

    def follow(self, number: int, following: Iterable[int]) -> None:
        """Take what may follow a state, also if it was searched before."""
        before = self._following[number]
        if before is not None:
            self._earlier.setdefault(number, array("I")).extend(before)
        self._following[number] = array("I", following)

    def is_searched(self, number: int) -> bool:
        return self._following[number] is not None

    def following(self, number: int) -> Sequence[int]:
        return self._following[number] or ()

    def all_following(self) -> dict[State, list[State]]:
        """What may follow each state, also what was found before it was searched again."""
        return {
            self.states[number]: [
                self.states[it] for it in (*self._earlier.get(number, ()), *following)
            ]
            for number, following in enumerate(self._following)
            if following is not None
        }

    def count_up(self, counts: Counts) -> None:
        """Count states and steps, the ways from the first state to an end, and the longest."""
        found = [it for it in self._following if it is not None]
        counts.states, counts.steps = len(found), sum(map(len, found))
        counts.ends = sum(1 for it in found if not it)
        ways, depth = (
            array("d", bytes(8 * len(self.states))),
            array("I", bytes(4 * len(self.states))),
        )
        stack = [0]
        while stack:
            following = self.following(stack[-1])
            missing = [it for it in following if not ways[it]]
            if missing:
                stack += missing
                continue
            number = stack.pop()
            ways[number] = sum(ways[it] for it in following) or 1.0
            depth[number] = max((depth[it] + 1 for it in following), default=0)
        counts.schedules, counts.depth = ways[0], depth[0]


def explore(machine: Machine) -> Counts:
    """Search every world that an invariant can tell from others, and every end.

    What commutes is found out on the way. Where something that was let pass turns out not to, the
    states in which it was are searched again, with all their steps: see ``commuting``.

    Raises:
        Violation: in one of them an invariant does not hold; with a schedule that leads there as
            its second argument.
    """
    meetings = machine.meetings = Meetings(machine.worlds)
    graph = _Graph()
    relying: dict[Reliance, list[int]] = {}
    stale: set[int] = set()
    number = graph.number(machine.start())
    waiting = [number]
    try:
        while waiting:
            number = waiting.pop()
            if graph.is_searched(number) and number not in stale:
                continue
            found = [graph.number(it) for it in _enter(machine, graph.states[number])]
            graph.follow(number, found)
            stale.discard(number)
            for reliance in meetings.take_reliances():
                relying.setdefault(reliance, []).append(number)
            again = [it for wrong in meetings.take_wrong() for it in relying.pop(wrong, ())]
            stale.update(again)
            waiting += [it for it in found if not graph.is_searched(it)]
            waiting += again
    except Violation as violation:
        way = way_to(machine, graph.all_following(), graph.states[number])
        violation.args = (*violation.args, str(way))
        raise
    finally:
        machine.meetings = None
    counts = Counts(runs=machine.runs, worlds=len(machine.worlds))
    graph.count_up(counts)
    return counts


def _enter(machine: Machine, state: State) -> list[State]:
    """Check a state, and give those that may follow."""
    machine.look(state)
    steps = machine.steps(state)
    if not steps:
        machine.checks.end(state)
    return [machine.follow(state, step) for step in steps]


def find_shortest(machine: Machine, most_states: int = 2_000_000) -> Found | None:
    """The violation with the fewest switches and faults, if it is not too deep."""
    start = machine.start()
    came: dict[tuple[State, int], tuple[tuple[State, int], Step] | None] = {(start, -2): None}
    cost = {(start, -2): 0}
    queue: deque[tuple[State, int]] = deque([(start, -2)])
    while queue and len(came) < most_states:
        place = queue.popleft()
        state, last = place
        try:
            machine.look(state)
            steps = machine.steps(state)
            if not steps:
                machine.checks.end(state)
        except Violation as violation:
            return Found(violation, _trace(came, place))
        for step in steps:
            try:
                after = (machine.follow(state, step), step.program)
            except Violation as violation:
                return Found(violation, Schedule((*_trace(came, place), step)))
            price = cost[place] + (step.program != last) + bool(step.choice)
            if after not in cost or price < cost[after]:
                cost[after], came[after] = price, (place, step)
                (queue.append if price > cost[place] else queue.appendleft)(after)
    return None


def _trace(
    came: Mapping[tuple[State, int], tuple[tuple[State, int], Step] | None],
    place: tuple[State, int],
) -> Schedule:
    steps: list[Step] = []
    while (before := came[place]) is not None:
        place = before[0]
        steps.append(before[1])
    return Schedule(reversed(steps))


def replay(machine: Machine, schedule: Schedule) -> Iterator[tuple[Step, Call | None, State]]:
    """Take the steps of a schedule: each with the call it was about and the state after it.

    Raises:
        Violation: where the schedule leads to.
    """
    state = machine.start()
    machine.look(state)
    for step in schedule:
        call = None if step.program == ENVIRONMENT else state.nodes[step.program].call
        state = machine.follow(state, step)
        yield step, call, state
        machine.look(state)
    if not machine.steps(state):
        machine.checks.end(state)


@dataclass(eq=False, slots=True)
class _Place:
    """A state that was visited: what may happen there, and where it leads as far as known."""

    state: State
    steps: Sequence[Step]
    plain: Sequence[int]
    after: list[_Place | None]


class Walker:
    """Takes schedules at random. What was seen is remembered, so that most steps cost a look-up."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._places: dict[State, _Place] = {}
        self._start: _Place | None = None

    def walk(self, seed: int) -> Schedule:
        """One schedule; the same seed gives the same one.

        Raises:
            Violation: with the schedule so far as its second argument.
        """
        rng = random.Random(seed)
        taken: list[Step] = []
        try:
            place = self._start = self._start or self._visit(self._machine.start())
            while place.steps:
                index = _draw(rng, place)
                taken.append(place.steps[index])
                place = place.after[index] or self._go(place, index)
        except Violation as violation:
            violation.args = (*violation.args, str(Schedule(taken)))
            raise
        return Schedule(taken)

    def _go(self, place: _Place, index: int) -> _Place:
        state = self._machine.follow(place.state, place.steps[index])
        found = place.after[index] = self._places.get(state) or self._visit(state)
        return found

    def _visit(self, state: State) -> _Place:
        self._machine.look(state)
        steps = self._machine.steps(state)
        if not steps:
            self._machine.checks.end(state)
        plain = [index for index, step in enumerate(steps) if not step.choice]
        if len(self._places) >= _MOST_PLACES:
            self._forget()
        found = self._places[state] = _Place(state, steps, plain, [None] * len(steps))
        return found

    def _forget(self) -> None:
        for place in self._places.values():
            place.after = [None] * len(place.steps)
        self._places.clear()


def _draw(rng: random.Random, place: _Place) -> int:
    """Mostly a plain step: a schedule of faults alone would not get far."""
    plain, count = place.plain, len(place.steps)
    if plain and (len(plain) == count or rng.random() < _PLAIN_SHARE):
        return plain[int(rng.random() * len(plain))]
    return int(rng.random() * count)
