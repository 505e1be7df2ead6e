"""A slice of what ``make explore`` does, small enough for every run of the tests."""

from argparse import Namespace
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.explorer import scenarios
from tests.explorer.__main__ import MODELS, stages_of
from tests.explorer.jobs import Job, opened, search, tell, trusted_clock
from tests.explorer.machine import Machine, State
from tests.explorer.programs import Outcome, Program
from tests.explorer.scenarios import LOST, PAIRS, SCENARIOS, STATS, one_thread
from tests.explorer.schedule import Schedule, Step
from tests.explorer.search import Walker, explore
from tests.explorer.world import COMMIT, DECISIONS, LOG, Model, Rules, Violation

# Complete within a second or two each, on one core.
_QUICK = [s.name for s in PAIRS if not (s.shared_data or s.only or "checkpoint" in s.name)]


@pytest.mark.parametrize("scenario", [*_QUICK, *(it.name for it in (*LOST, *STATS))])
def test_every_schedule_of_two_writers(scenario: str) -> None:
    answer = search(Job(scenario, "conditional"))
    assert not answer.violation, answer.violation
    assert answer.schedules >= (2 if scenario.startswith("clone") else 4)  # it only reads
    assert answer.states > 50


@pytest.mark.parametrize(
    ("scenario", "model", "faults"),
    [
        ("append against append", "conditional", 1),
        ("append against append", "dynamodb", 0),
        ("optimize against append", "dynamodb", 0),
        ("append against append", "staged", 0),
        ("optimize against publication", "staged", 0),
        ("optimize against a writer that never publishes", "staged", 0),
        ("checkpoint and cleanup against publication", "staged", 0),
        ("optimize against delete of the same file", "conditional", 1),
        pytest.param("optimize against deletion vector", "link", 1, marks=pytest.mark.slow),
        ("append against vacuum full", "conditional", 0),
        ("optimize against vacuum lite", "conditional", 0),
        ("append against checkpoint and cleanup", "conditional", 0),
        ("optimize against the first checkpoint and cleanup", "conditional", 0),
        ("optimize against checkpoint of a quiet log", "conditional", 0),
        ("optimize against append, and a reader", "link", 0),
        ("clone against vacuum full", "link", 0),
        ("shallow clone against vacuum full", "link", 0),
        ("shallow clone against vacuum lite", "conditional", 0),
        ("clone against checkpoint and cleanup", "conditional", 0),
        ("restore against append", "conditional", 1),
        ("restore against vacuum full", "conditional", 0),
    ],
)
def test_with_what_may_go_wrong_and_who_else_is_there(
    scenario: str, model: Model, faults: int
) -> None:
    answer = search(Job(scenario, model, faults))
    assert not answer.violation, answer.violation
    assert answer.states > 200


def test_what_takes_hours_is_left_to_who_asks_for_it() -> None:
    asked = {"model": None, "only": None, "first_seed": 0, "random": 1000}
    usual = stages_of(Namespace(stage=None, **asked))
    assert set(usual) == {"two", "three", "random"}
    assert stages_of(Namespace(stage="two", **asked)) == {"two": usual["two"]}
    rest = stages_of(Namespace(stage="long", **asked))["long"]
    with_faults = {(job.scenario, job.model) for job in (*usual["two"], *rest) if job.faults}
    assert with_faults == {
        (pair.name, model) for pair in PAIRS for model in MODELS if pair.is_for(model)
    }
    assert not set(usual["two"]) & set(rest)
    for model in {job.model for job in rest}:
        assert {job.kind for job in rest if job.model == model} == Rules(model).fault_kinds


def test_three_writers_at_random() -> None:
    name = "optimize, append and delete of the same file, and a reader"
    answer = search(Job(name, "conditional", 1, range(300)))
    assert not answer.violation, answer.violation
    assert answer.depth > 60


def test_a_seed_gives_the_same_schedule_and_replays() -> None:
    job = Job("optimize against append", "conditional", 1)
    with opened(job) as machine:
        first = Walker(machine).walk(7)
    with opened(job) as machine:
        walker = Walker(machine)
        assert walker.walk(8) != first
        assert walker.walk(7) == first
    with opened(job) as machine:
        told = list(tell(machine, Schedule.parse(str(first))))
    assert told[-1] == "=> all invariants hold"
    assert len(told) == len(first) + 1


def test_schedules_are_written_and_read() -> None:
    steps = [
        Step(0),
        Step(0),
        Step(1),
        Step(0, "lie"),
        Step(0),
        Step(-1, "tick"),
        Step(-1, "land0"),
    ]
    schedule = Schedule(steps)
    assert str(schedule) == "A2 B1 A:lie A1 *:tick *:land0"
    assert Schedule.parse(str(schedule)) == schedule
    assert schedule.switches == 3


def _all_ends(machine: Machine) -> set[object]:
    """Worlds and outcomes where nobody goes on; every order is tried."""
    ends: set[object] = set()
    seen, waiting = set[State](), [machine.start()]
    while waiting:
        state = waiting.pop()
        if state not in seen:
            seen.add(state)
            steps = machine.steps(state)
            waiting += [machine.follow(state, step) for step in steps]
            if not steps:
                ends.add(_end(machine, state))
    return ends


def _stored(machine: Machine, world: int) -> object:
    files = machine.worlds.files(world).items()
    return frozenset((name, machine.worlds.data(entry.data)) for name, entry in files)


def _end(machine: Machine, state: State) -> object:
    stored = _stored(machine, state.world)
    return stored, state.dead, tuple(node.outcome for node in state.nodes)


@pytest.mark.parametrize(
    ("scenario", "model", "faults"),
    [
        ("append against append", "conditional", 1),
        ("append against append", "dynamodb", 0),
        ("append against publication", "staged", 1),
        ("optimize against deletion vector", "link", 0),
        ("append against append, and a reader", "link", 0),
        ("append against vacuum full", "conditional", 0),
        ("append against checkpoint and cleanup", "conditional", 0),
        ("optimize against the first checkpoint and cleanup", "conditional", 0),
    ],
)
def test_the_reduction_leaves_nothing_out(scenario: str, model: Model, faults: int) -> None:
    """Where every call is a meeting point, the same ends are reached as where few are."""
    with one_thread():
        machine = replace(SCENARIOS[scenario], shared_data=True).on(model, faults)
        expected = _all_ends(machine)
        machine.close()
        machine = SCENARIOS[scenario].on(model, faults)
        found: set[object] = set()
        with patch.object(machine.checks, "end", lambda state: found.add(_end(machine, state))):
            explore(machine)
        machine.close()
    assert found == expected


@pytest.mark.parametrize(
    ("scenario", "model", "faults"),
    [
        ("optimize against publication", "staged", 0),
        ("optimize against append", "dynamodb", 0),
    ],
)
def test_histories_that_become_one_had_the_same_future(
    scenario: str, model: Model, faults: int
) -> None:
    with patch.object(scenarios, "SECTIONS", ()):
        expected, runs = _ends_of(scenario, model, faults)
    found, fewer = _ends_of(scenario, model, faults)
    assert found == expected
    assert fewer < runs


def _ends_of(scenario: str, model: Model, faults: int) -> tuple[set[object], int]:
    """Where nobody goes on, and the worlds on the way; how often real code ran."""
    found: set[object] = set()
    with one_thread(), trusted_clock():
        machine = SCENARIOS[scenario].on(model, faults)
        with (
            patch.object(machine.checks, "end", lambda state: found.add(_end(machine, state))),
            patch.object(machine.checks, "world", lambda world: found.add(_stored(machine, world))),
        ):
            runs = explore(machine).runs
        machine.close()
    return found, runs


def _seen(machine: Machine, world: int) -> object:
    """What invariants look at: not at journals, nor at a new data file that no commit names."""
    files = machine.worlds.files(world)
    data = {name: machine.worlds.data(entry.data) for name, entry in files.items()}
    said = b"".join(text for name, text in data.items() if COMMIT.fullmatch(name))

    def counts(name: str) -> bool:
        if name.startswith("_deltactl/"):
            return False
        is_log = name.startswith((LOG, *DECISIONS))
        return is_log or name in machine.setting.files or name.rpartition("/")[2].encode() in said

    return frozenset(item for item in data.items() if counts(item[0]))


@pytest.mark.parametrize(
    ("scenario", "model", "faults"),
    [
        ("append against append", "dynamodb", 0),
        ("append against publication", "staged", 1),
        ("optimize against deletion vector", "link", 0),
        ("append against vacuum full", "conditional", 0),
        ("append against checkpoint and cleanup", "conditional", 0),
        ("append against append, and a reader", "link", 0),
    ],
)
def test_no_world_is_passed_by(scenario: str, model: Model, faults: int) -> None:
    """Invariants see what they would where every call's order is tried."""
    with one_thread(), trusted_clock():
        found = _seen_worlds(SCENARIOS[scenario].on(model, faults))
        machine = SCENARIOS[scenario].on(model, faults)
        with patch.object(machine, "_goes_on", return_value=False):
            expected = _seen_worlds(machine)
    assert found == expected


def _seen_worlds(machine: Machine) -> set[object]:
    found: set[object] = set()
    with patch.object(machine.checks, "world", lambda world: found.add(_seen(machine, world))):
        explore(machine)
    machine.close()
    return found


def test_a_program_that_is_not_deterministic_is_not_explored() -> None:
    calls = iter(range(1000))

    def run(store: object, clock: object) -> Outcome:
        store.read(f"_delta_log/{next(calls)}")  # type: ignore[attr-defined]
        return Outcome("done")

    scenario = SCENARIOS["append against append"]
    wild = Program("wild", run)
    with one_thread():
        machine = replace(scenario, programs=(lambda scene: wild,) * 2).on("conditional", 1)
        with pytest.raises(Violation, match="not deterministic"):
            explore(machine)
        machine.close()
