"""Searches to be carried out, and their schedules in words."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from tests.explorer.bugs import Bug
from tests.explorer.scenarios import SCENARIOS, one_thread
from tests.explorer.search import (
    Found,
    Machine,
    Schedule,
    Step,
    explore,
    find_shortest,
    replay,
    walk,
)
from tests.explorer.world import Call, Model, Violation


@dataclass(frozen=True)
class Job:
    """One search: of everything, or of ``seeds`` by lot."""

    scenario: str
    model: Model
    faults: int = 0
    seeds: range | None = None

    def __str__(self) -> str:
        what = "all schedules" if self.seeds is None else "by lot"
        wrong = f", {self.faults} fault" if self.faults else ""
        return f"{self.scenario} ({self.model}{wrong}; {what})"


@dataclass(frozen=True)
class Answer:
    """What a search found, in words, and how much it looked at; ``seconds`` are those of CPU."""

    job: Job
    seconds: float
    states: int = 0
    schedules: float = 0
    depth: int = 0
    runs: int = 0
    violation: str = ""

    def __str__(self) -> str:
        if self.violation:
            return f"{self.job}: {self.violation}"
        states = f"{self.states:,} states, " if self.states else ""
        count = f"{self.schedules:,.0f}" if self.schedules < 1e9 else f"{self.schedules:.1e}"
        return (
            f"{self.job}: {states}{count} schedules, depth {self.depth}, "
            f"{self.runs:,} runs of the code, {self.seconds:.1f} s of CPU"
        )


@contextmanager
def opened(job: Job, bug: Bug | None = None) -> Iterator[Machine]:
    """The machine of a job, over the code as it is or with a bug in it."""
    kinds = bug.kinds if bug is not None else None
    with one_thread(), bug.apply() if bug is not None else nullcontext():
        machine = SCENARIOS[job.scenario].on(job.model, job.faults, kinds)
        try:
            yield machine
        finally:
            machine.close()


def search(job: Job) -> Answer:
    """Carry a job out; a violation is part of the answer, with the shortest way there."""
    started = time.process_time()
    try:
        with opened(job) as machine:
            if job.seeds is not None:
                return _search_by_lot(job, machine, started)
            counts = explore(machine)
    except Violation as violation:
        with opened(job) as machine:
            found = find_shortest(machine)
        where = "" if found is None else f"\n  replay: {replay_command(job, found.schedule)}"
        return Answer(job, time.process_time() - started, violation=f"{violation}{where}")
    seconds = time.process_time() - started
    return Answer(job, seconds, counts.states, counts.schedules, counts.depth, counts.runs)


def _search_by_lot(job: Job, machine: Machine, started: float) -> Answer:
    depth = 0
    for seed in job.seeds or ():
        try:
            depth = max(depth, len(walk(machine, seed)))
        except Violation as violation:
            command = replay_command(job, Schedule.parse(str(violation.args[-1])))
            text = f"{violation.args[0]} (seed {seed})\n  replay: {command}"
            return Answer(job, time.process_time() - started, violation=text)
    seconds = time.process_time() - started
    return Answer(job, seconds, schedules=len(job.seeds or ()), depth=depth, runs=machine.runs)


def replay_command(job: Job, schedule: Schedule) -> str:
    """What to type to see a schedule again."""
    faults = f" --faults {job.faults}" if job.faults else ""
    return (
        f"python -m tests.explorer --only '{job.scenario}' --model {job.model}{faults} "
        f"--replay '{schedule}'"
    )


def tell(machine: Machine, schedule: Schedule) -> Iterator[str]:
    """A schedule in words: who asked what, and in the end what broke."""
    names = [program.name for program in machine.setting.programs]
    try:
        for step, call, _ in replay(machine, schedule):
            yield _describe(names, step, call)
    except Violation as violation:
        yield f"=> {violation}"
    else:
        yield "=> all invariants hold"


def _describe(names: Sequence[str], step: Step, call: Call | None) -> str:
    if call is None:
        return f"*  {step.choice}"
    who = f"{chr(ord('A') + step.program)}  {names[step.program]}"
    wrong = f"  [{step.choice}]" if step.choice else ""
    return f"{who:26}  {call.op} {call.name}{wrong}"


def summarise(lines: Sequence[str]) -> Iterator[str]:
    """The same with steps of one program between writes left out."""
    held: list[str] = []
    for line in lines:
        if _is_quiet(line) and held and held[-1][:26] == line[:26]:
            held.append(line)
            continue
        yield from _fold(held)
        held = [line] if _is_quiet(line) else []
        if not held:
            yield line
    yield from _fold(held)


def _is_quiet(line: str) -> bool:
    quiet = ("read", "stat", "list", "walk", "clock", "sync")
    return "[" not in line and line[28:].split(" ", maxsplit=1)[0] in quiet


def _fold(held: Sequence[str]) -> Iterator[str]:
    if len(held) == 1:
        yield held[0]
    elif held:
        yield f"{held[0][:26]}  {held[0][28:]} ... {held[-1][28:]} ({len(held)} calls)"


def find_bug(bug: Bug) -> Found | None:
    """The shortest schedule that shows a bug."""
    with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
        return find_shortest(machine)
