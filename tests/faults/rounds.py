"""A round: kill the real process while others write; look at the table; let the next run finish.

A round is given by (seed, number): it says when the process is killed, what the writers do, and
which variant of the command runs. Times of the machine are no part of it, so that a replay of a
round is another round of the same kind.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deltactl.operations.check_options import CheckOptions, Depth
from deltactl.table import Table
from tests.faults.delta_rs import DeltaRs
from tests.faults.scenes import Scene, ids_at_start
from tests.faults.starter import Running, Starter

_CHECKS = CheckOptions(depth=Depth.DATA, checkpoints=True)
_SECONDS_TO_END = 120
_MOST_FINISHES = 2
_CONFLICT = 4
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
    seconds: float = 0.0
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


def run_round(
    scene: Scene, template: Path, root: Path, seed: int, team: Team, usual: float
) -> Outcome:
    """One round on a copy of ``template``; ``usual`` is how long the command takes, in s.

    Raises:
        AssertionError: a row is lost or there twice, something is wrong with the table, or the
            next run does not complete.
    """
    chance = random.Random(seed)
    shutil.copytree(template, root)
    promises, arguments = Promises(), scene.arguments(root, seed)
    with promises.writing(team.writers, root, seed):
        _kill(team.starter.start(arguments), root, chance, usual, promises.outcome)
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
    running: Running, root: Path, chance: random.Random, usual: float, outcome: Outcome
) -> None:
    """Kill it at a random time, counted from the start or from what it first writes."""
    started, before = time.monotonic(), _own_files(root)
    wait = chance.uniform(0, 1.1) * usual
    if chance.random() < 0.5:
        while not running.is_over(1) and _own_files(root) == before:
            pass
        wait = time.monotonic() - started + chance.uniform(0, 0.5) * usual
    running.is_over(max(0.0, started + wait - time.monotonic()) * 1000)
    running.kill()
    outcome.alive = running.wait() == -signal.SIGKILL
    outcome.had_written = _own_files(root) != before


def _own_files(root: Path) -> set[str]:
    """Files that only deltactl makes or takes away; those of delta-rs are left out."""
    return {
        f"{folder}/{name}"
        for folder, _, names in os.walk(root)
        for name in names
        if _OURS.search(name) or not (name.startswith("part-") or folder.endswith("_delta_log"))
    }


def _finish(starter: Starter, arguments: Sequence[str], outcome: Outcome) -> bool:
    """Let the next run end well; lost races may be tried again. Tells whether it did."""
    for _ in range(_MOST_FINISHES):
        started = time.monotonic()
        running = starter.start(arguments)
        assert running.is_over(_SECONDS_TO_END * 1000), "the next run hangs"
        code, said = running.wait(), running.said.read_text()
        outcome.seconds = time.monotonic() - started
        if code == 0:
            return True
        assert code == _CONFLICT, f"exit {code}: {said}"
        assert "at work on this table" not in said, f"kept away by who is dead: {said}"
        outcome.retries += 1
    return False
