"""A round: kill a real process while others write; look at the table; let the next run finish.

A round is given by (seed, number): it says when the process is killed, what the writers do, and
which variant of the command runs. Times of the machine are no part of it, so that a replay of a
round is another round of the same kind.
"""

import os
import random
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.table import Table
from tests.faults.delta_rs import DeltaRs
from tests.faults.scenes import Scene, ids_at_start
from tests.faults.starter import Running, Starter
from tests.faults.victims import ITSELF, Victim, kill_unless_over

_CHECKS = CheckOptions(depth=Depth.DATA, checkpoints=True)
_SECONDS_TO_END = 120
_MOST_FINISHES = 2
_CONFLICT, _PARTIAL = 4, 5
# What an optimize says that lost some of its bins to another writer, and failed at none.
_LOST_SOME = re.compile(r"^error: .* left as (it was|they were): .*another writer", re.MULTILINE)
# Outputs of optimize carry the number of their bin and of the try.
_OURS = re.compile(r"\.checkpoint\.|^part-\d{5}-.*-\d\.c000\.")


@dataclass(frozen=True)
class Team:
    """Who is needed for rounds: writers of delta-rs, and who starts deltactl."""

    writers: Sequence[DeltaRs]
    starter: Starter


@dataclass
class Outcome:
    """What a round was like: whether the process was still alive, and had written anything."""

    alive: bool = False
    had_written: bool = False
    acknowledged: int = 0
    refused: int = 0
    retries: int = 0
    left_over: int = 0


@dataclass
class Promises:
    """The ids that must be in the table, each once."""

    ids: set[int] = field(default_factory=lambda: set(ids_at_start()))
    outcome: Outcome = field(default_factory=Outcome)

    @contextmanager
    def writing(self, writers: Sequence[DeltaRs], root: Path, seed: int) -> Iterator[None]:
        """Let delta-rs write while the context lasts; then take over what it was promised."""
        for number, writer in enumerate(writers):
            writer.order("work", root=str(root), seed=seed * 10 + number)
        try:
            yield
        finally:
            for writer in writers:
                writer.order("stop")
            answers = [writer.answer() for writer in writers]
        for answer in answers:
            self.ids |= set(answer["added"])
            self.ids -= set(answer["deleted"])
            self.outcome.acknowledged += len(answer["added"]) + len(answer["deleted"])
            self.outcome.refused += len(answer["refused"])

    def ensure_kept(self, reader: DeltaRs, root: Path) -> None:
        """By delta-rs every row is there once; by us nothing is wrong with the table."""
        if not (root / "_delta_log").is_dir() or not any((root / "_delta_log").glob("0*.json")):
            assert self.ids == set(ids_at_start()), "acknowledged by a table that is not there"
            return
        reader.order("read", root=str(root))
        found = reader.answer()
        assert found["wrong"] == 0, f"{found['wrong']} rows with values of others"
        missing, extra = self.ids - set(found["ids"]), set(found["ids"]) - self.ids
        assert not missing and not extra, f"lost {sorted(missing)}, came back {sorted(extra)}"
        assert len(found["ids"]) == len(self.ids), "a row is there twice"
        report = Table(str(root)).check(_CHECKS)
        assert report.is_sound, report.findings.to_pylist()


@dataclass(frozen=True)
class Pace:
    """How long a run takes once its victim is up, and the part after its first write, in s."""

    seconds: float
    writing: float


def rehearse(scene: Scene, template: Path, root: Path, team: Team, victim: Victim = ITSELF) -> Pace:
    """A run that nobody disturbs.

    Raises:
        AssertionError: it does not complete.
    """
    shutil.copytree(template, root)
    running = team.starter.start([*scene.arguments(root, 0), *victim.arguments])
    victim.find(running)
    started = time.monotonic()
    _await_write(running, root, _own_files(root))
    wrote = time.monotonic()
    code, said = _end(running)
    assert code == 0, f"exit {code}: {said}"
    ended = time.monotonic()
    shutil.rmtree(root)
    return Pace(ended - started, ended - wrote)


def run_round(
    scene: Scene,
    template: Path,
    root: Path,
    seed: int,
    team: Team,
    pace: Pace,
    victim: Victim = ITSELF,
) -> Outcome:
    """One round on a copy of ``template``; ``pace`` is that of the command.

    Raises:
        AssertionError: a row is lost or there twice, something is wrong with the table, the run
            goes on without its victim, or the next run does not complete.
    """
    chance = random.Random(seed)
    shutil.copytree(template, root)
    promises, arguments = Promises(), scene.arguments(root, seed)
    with promises.writing(team.writers, root, seed):
        running = team.starter.start([*arguments, *victim.arguments])
        _kill(running, victim, root, chance, pace, promises.outcome)
    promises.ensure_kept(team.writers[0], root)
    with promises.writing(team.writers, root, seed + 1):
        is_done = _finish(team.starter, arguments, promises.outcome)
    if not is_done:  # no more races to lose
        assert _finish(team.starter, arguments, promises.outcome)
    promises.ensure_kept(team.writers[0], root)
    scene.ensure_done(root, sorted(promises.ids))
    promises.outcome.left_over = len(list(root.rglob(".deltactl-*")))
    return promises.outcome


def _kill(
    running: Running,
    victim: Victim,
    root: Path,
    chance: random.Random,
    pace: Pace,
    outcome: Outcome,
) -> None:
    """Kill at a random time, counted from the victim's start or from what the run first writes."""
    process, before = victim.find(running), _own_files(root)
    wait = chance.uniform(0, 1.1) * pace.seconds
    if chance.random() < 0.5:
        _await_write(running, root, before)
        wait = chance.uniform(0, 1.1) * pace.writing
    running.is_over(wait * 1000)
    descendants = psutil.Process(running.pid).children(recursive=True)
    outcome.alive = kill_unless_over(process, running)
    code, said = _end(running)
    outcome.had_written = _own_files(root) != before
    if outcome.alive and (victim.java_class or code >= 0):  # who was killed itself says nothing
        assert "Traceback" not in said, said
        ended_well = code == 0 or _has_lost_race(code, said)
        assert not victim.is_replaced or ended_well, f"exit {code}: {said}"
    left = psutil.wait_procs(descendants, timeout=_SECONDS_TO_END)[1]
    assert not left, f"still there: {left}"


def _await_write(running: Running, root: Path, before: set[str]) -> None:
    while not running.is_over(2) and _own_files(root) == before:
        pass


def _end(running: Running) -> tuple[int, str]:
    """Wait for the end of it; give its exit code and what it said."""
    assert running.is_over(_SECONDS_TO_END * 1000), "the run hangs"
    return running.wait(), running.said.read_text()


def _has_lost_race(code: int, said: str) -> bool:
    """Whether a run ended as one that other writers were faster than, in all or in a part of it."""
    return code == _CONFLICT or (code == _PARTIAL and _LOST_SOME.search(said) is not None)


def _own_files(root: Path) -> set[str]:
    """Files that only deltactl makes or takes away; those of delta-rs are left out."""
    return {
        f"{folder}/{name}"
        for folder, _, names in os.walk(root)
        for name in names
        if _OURS.search(name) or not (name.startswith("part-") or folder.endswith("_delta_log"))
    }


def _finish(starter: Starter, arguments: Sequence[str], outcome: Outcome) -> bool:
    """Let the next run end well; lost races can be retried. Tells whether it did."""
    for _ in range(_MOST_FINISHES):
        code, said = _end(starter.start(arguments))
        if code == 0:
            return True
        assert _has_lost_race(code, said), f"exit {code}: {said}"
        assert "is running on this table" not in said, f"kept away by who is dead: {said}"
        outcome.retries += 1
    return False
