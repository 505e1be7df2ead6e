"""Searches to be carried out, and their schedules in words."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from unittest.mock import patch

from deltactl.operations import trusted_time
from tests.explorer.bug import Bug
from tests.explorer.machine import Machine
from tests.explorer.scenarios import SCENARIOS, one_thread
from tests.explorer.schedule import Schedule, Step, letter_of
from tests.explorer.search import Found, Walker, explore, find_shortest, replay
from tests.explorer.shrink import shrink
from tests.explorer.world import Call, Model, Violation

_FEW_STATES: Final = 100_000
_QUIET: Final = ("read", "stat", "list", "walk", "clock", "sync")


@dataclass(frozen=True)
class Job:
    """One search: of everything, or of ``seeds`` at random; with one ``kind`` of faults, or all."""

    scenario: str
    model: Model
    faults: int = 0
    seeds: range | None = None
    kind: str = ""

    def __str__(self) -> str:
        seeds = self.seeds
        what = "all schedules" if seeds is None else f"seeds {seeds.start} to {seeds.stop - 1}"
        wrong = f", {self.faults} fault" if self.faults else ""
        wrong += f": {self.kind}" if self.kind else ""
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


def trusted_clock() -> AbstractContextManager[object]:
    """What a wrong clock does is not explored, and the newest commit of a scene is old."""
    return patch.object(trusted_time, "_find_proven_ms", lambda *args: args[-1])


@contextmanager
def opened(job: Job, bug: Bug | None = None) -> Iterator[Machine]:
    """The machine of a job, over the code as it is or with a bug in it."""
    kinds = frozenset({job.kind}) if job.kind else None
    kinds = kinds if bug is None else bug.kinds
    with one_thread(), trusted_clock(), bug.apply() if bug is not None else nullcontext():
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
        text = f"{violation.args[0]}{_shortened(job, violation)}"
        return Answer(job, time.process_time() - started, violation=text)
    seconds = time.process_time() - started
    return Answer(job, seconds, counts.states, counts.schedules, counts.depth, counts.runs)


def _search_by_lot(job: Job, machine: Machine, started: float) -> Answer:
    depth, walker = 0, Walker(machine)
    for seed in job.seeds or ():
        try:
            depth = max(depth, len(walker.walk(seed)))
        except Violation as violation:
            text = f"{violation.args[0]} (seed {seed}){_shortened(job, violation)}"
            return Answer(job, time.process_time() - started, violation=text)
    seconds = time.process_time() - started
    return Answer(job, seconds, schedules=len(job.seeds or ()), depth=depth, runs=machine.runs)


def _shortened(job: Job, violation: Violation) -> str:
    """How to replay the shortest schedule, or where it is deep one that is short."""
    with opened(job) as machine:
        found = find_shortest(machine, _FEW_STATES)
        if found is not None:
            schedule = found.schedule
        else:
            schedule = shrink(machine, Schedule.parse(violation.args[-1]), violation.rule)
    return f"\n  replay: {replay_command(job, schedule)}"


def replay_command(job: Job, schedule: Schedule) -> str:
    """What to type to see a schedule again."""
    faults = f" --faults {job.faults}" if job.faults else ""
    return (
        f"python -m tests.explorer --only '{job.scenario}' --model {job.model}{faults} "
        f"--replay '{schedule}'"
    )


def tell(machine: Machine, schedule: Schedule) -> Iterator[str]:
    """A schedule in words: who asked what, and in the end what broke."""
    try:
        for step, call, _ in replay(machine, schedule):
            yield _describe(step, call)
    except Violation as violation:
        yield f"=> {violation}"
    else:
        yield "=> all invariants hold"


def _describe(step: Step, call: Call | None) -> str:
    wrong = f" [{step.choice}]" if step.choice else ""
    if call is None:
        return f"{letter_of(step.program)}{wrong}"
    target = f" {call.name}" if call.name else ""
    to = f" to {call.other}" if call.op == "move" else ""
    return f"{letter_of(step.program)} {call.op}{target}{to}{wrong}"


def summarise(lines: Sequence[str]) -> list[str]:
    """The same for people: reads in a row are one line, long names are short."""
    runs = groupby(lines, lambda line: line[:2] if _is_quiet(line) else line)
    told: list[str] = []
    for _, run in runs:
        first, *rest = run
        if rest and _is_quiet(first):
            told.append(f"{first} ... {rest[-1][2:]} ({len(rest) + 1} calls)")
        else:
            told += [first, *rest]
    return [_shorten(line) for line in told]


def _is_quiet(line: str) -> bool:
    return line[2:].split(" ", maxsplit=1)[0] in _QUIET and "[" not in line


def _shorten(line: str) -> str:
    line = re.sub(r"0{12,}(?=\d)", "", line)
    return re.sub(r"0*(\d+)-0000-4000-8000-0*(\d+?)0{6,}\d+", r"#\1.\2", line)


def find_bug(bug: Bug) -> Found | None:
    """The shortest schedule that shows a bug."""
    with opened(Job(bug.scenario, bug.model, bug.faults), bug) as machine:
        return find_shortest(machine)
