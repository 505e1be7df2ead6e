"""``make explore``: everything, on all cores, with a report."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import cast, get_args

from tests.explorer.bugs import BUGS
from tests.explorer.jobs import Job, find_bug, opened, search, summarise, tell
from tests.explorer.scenarios import PAIRS, SCENARIOS, TRIPLES, Scenario, with_reader
from tests.explorer.schedule import Schedule, letter_of
from tests.explorer.world import Model, Rules

MODELS: tuple[Model, ...] = ("conditional", "link", "dynamodb", "staged")
RANDOM, LONG = "random", "long"
STAGES = {
    "two": "two writers, and a reader beside them",
    "three": "three writers, without faults",
    RANDOM: "three writers and a reader, at random",
    LONG: "what the first leaves out, kind of fault by kind; hours, or with --only one encounter",
}


def stages_of(arguments: argparse.Namespace) -> dict[str, list[Job]]:
    """The searches that were asked for, by what they are: all stages but ``long``, or one."""
    models = (arguments.model,) if arguments.model else MODELS
    if arguments.only:
        chosen = [model for model in models if SCENARIOS[arguments.only].is_for(model)]
        return {arguments.only: [job for model in chosen for job in _jobs_of_one(arguments, model)]}
    # The longest first: nobody should wait for one that was begun last.
    ordered = sorted(PAIRS, key=lambda s: (-s.weight, not s.shared_data))
    each = [(s, model) for s in ordered for model in models if s.is_for(model)]
    pairs = [
        Job(s.name, model, faults)
        for s, model in each
        if (faults := _most_faults(s, model)) is not None
    ]
    pairs += [Job(with_reader(s).name, model) for s, model in each if s.weight < 2]
    stages = {
        "two": pairs,
        "three": [
            Job(s.name, model)
            for s in TRIPLES
            for model in models
            if s.is_for(model) and not s.shared_data
        ],
        RANDOM: random_jobs(models, arguments.first_seed, arguments.random),
        LONG: [
            part
            for s, model in each
            if _most_faults(s, model) != 1
            for part in in_parts(s.name, model)
        ],
    }
    asked = {arguments.stage} if arguments.stage else stages.keys() - {LONG}
    return {name: jobs for name, jobs in stages.items() if name in asked}


def _jobs_of_one(arguments: argparse.Namespace, model: Model) -> list[Job]:
    """One encounter: at random, in parts, or whole with the faults that were asked for."""
    if arguments.stage == LONG:
        return in_parts(arguments.only, model)
    if arguments.stage == RANDOM:
        seeds = range(arguments.first_seed, arguments.first_seed + arguments.random)
        return [Job(arguments.only, model, 1, seeds)]
    return [Job(arguments.only, model, arguments.faults)]


def _most_faults(scenario: Scenario, model: Model) -> int | None:
    """One, but where that would take hours; ``None`` where even none would.

    A commit of ``dynamodb`` alone is nine calls, and a vacuum makes two.
    """
    if model == "conditional":
        return int(scenario.weight < 5)
    if model == "link":
        return int(scenario.weight < 2)
    return None if scenario.weight >= 3 else int(scenario.weight < 1 and not scenario.shared_data)


def in_parts(scenario: str, model: Model) -> list[Job]:
    """A search for each kind of fault: together all with one fault, in less memory."""
    return [Job(scenario, model, 1, kind=kind) for kind in sorted(Rules(model).fault_kinds)]


def random_jobs(models: Sequence[Model], first_seed: int, count: int) -> list[Job]:
    """Schedules of three writers and a reader: each of all encounters takes the same seeds."""
    share = -(-count // (len(TRIPLES) * len(models)))
    seeds = range(first_seed, first_seed + share)
    return [
        Job(with_reader(scenario).name, model, 1, seeds)
        for scenario in TRIPLES
        for model in models
        if share and scenario.is_for(model)
    ]


def _explore(name: str, jobs: Sequence[Job], say: Callable[[str], None]) -> int:
    """Carry a stage out; gives how many searches ended with a violation."""
    started, broken, schedules, states, seconds = time.monotonic(), 0, 0.0, 0, 0.0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done in as_completed([pool.submit(search, job) for job in jobs]):
            answer = done.result()
            say(str(answer))
            broken += bool(answer.violation)
            states += answer.states
            seconds += answer.seconds
            schedules += answer.schedules if answer.job.seeds is not None else 0
    say(
        f"{name}: {len(jobs)} searches, {states:,} states exhausted, "
        f"{schedules:,.0f} schedules at random, {broken} violations, "
        f"{seconds:.0f} s of CPU, {time.monotonic() - started:.0f} s"
    )
    return broken


def _show_bugs(say: Callable[[str], None]) -> int:
    """Each bug and its shortest schedule, as ``schedules.toml`` has them."""
    missed = 0
    say("# The seeded bugs, and for each a short schedule that shows it.")
    say("# `python -m tests.explorer --bugs` prints this file.")
    for bug in BUGS:
        found = find_bug(bug)
        if found is None:
            missed += 1
            say(f"\n# {bug.title}: not found")
            continue
        with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
            programs = [program.name for program in machine.setting.programs]
            lines = summarise(list(tell(machine, found.schedule)))
        who = ", ".join(f"{letter_of(n)} = {name}" for n, name in enumerate(programs))
        say(f'\n["{bug.title}"]\nstore = "{bug.model}"\nprograms = "{who}"')
        say(f'schedule = "{found.schedule}"')
        say("\n".join(["calls = '''", *lines, "'''"]))
    return 1 if missed else 0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explorer", description=__doc__)
    parser.add_argument("--only", choices=sorted(SCENARIOS), metavar="SCENARIO")
    parser.add_argument("--model", choices=get_args(Model))
    parser.add_argument("--faults", type=int, default=0, help="how much may go wrong at once")
    parser.add_argument("--random", type=int, default=1_000_000, help="schedules at random in all")
    parser.add_argument("--first-seed", type=int, default=0, help="of the schedules at random")
    told = "; ".join(f"{name}: {what}" for name, what in STAGES.items())
    parser.add_argument("--stage", choices=STAGES, help=f"one alone, not all but {LONG} ({told})")
    parser.add_argument("--replay", metavar="SCHEDULE", help="take these steps of --only")
    parser.add_argument("--bugs", action="store_true", help="show how each seeded bug is found")
    parser.add_argument("--list", action="store_true", help="name the scenarios")
    arguments = parser.parse_args(words)
    if arguments.list:
        print("\n".join(SCENARIOS))
        return 0
    if arguments.bugs:
        return _show_bugs(print)
    if arguments.replay:
        model = cast("Model", arguments.model or MODELS[0])
        with opened(Job(arguments.only, model, arguments.faults)) as machine:
            print("\n".join(tell(machine, Schedule.parse(arguments.replay))))
        return 0
    stages = stages_of(arguments)
    broken = [_explore(name, jobs, partial(print, flush=True)) for name, jobs in stages.items()]
    return 1 if any(broken) else 0


if __name__ == "__main__":
    sys.exit(main())
