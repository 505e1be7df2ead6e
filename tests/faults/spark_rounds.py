"""Rounds on Spark: its driver or an executor is killed while delta-rs writes.

``python -m tests.faults.spark_rounds --rounds 4`` takes minutes: each round starts Spark.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.faults.delta_rs import delta_rs
from tests.faults.rounds import Promises, Team
from tests.faults.scenes import SCENES, Scene
from tests.faults.starter import Running, opened_starter
from tests.support.spark_servers import standalone_cluster, worker_environ

_VICTIMS = {"driver program": "", "driver": "org.apache.spark.deploy.SparkSubmit",
            "executor": "CoarseGrainedExecutorBackend"}  # fmt: skip
_SECONDS_TO_START = 120


def _find(victim: str, running: Running) -> int | None:
    """The process to kill, once it is there: ours, the Java of it, or one of the cluster's."""
    if not _VICTIMS[victim]:
        return running.pid
    start = os.getpid() if victim == "executor" else running.pid
    for process in psutil.Process(start).children(recursive=True):
        try:
            if any(_VICTIMS[victim] in word for word in process.cmdline()):
                return int(process.pid)
        except psutil.Error:
            continue
    return None


def _kill(victim: str, running: Running, wait: float) -> bool:
    """Kill it some time after it has come up; tells whether the run was still going on."""
    deadline = time.monotonic() + _SECONDS_TO_START
    while not running.is_over(20) and time.monotonic() < deadline:
        if (pid := _find(victim, running)) is not None:
            over = running.is_over(wait * 1000)
            if not over:
                os.kill(pid, signal.SIGKILL)
            return not over
    return False


def run_round(
    scene: Scene, template: Path, root: Path, seed: int, team: Team, master: str, victim: str
) -> str:
    """One round; gives a line about it.

    Raises:
        AssertionError: a row is lost or there twice, or the next run does not complete.
    """
    chance = random.Random(seed)
    shutil.copytree(template, root)
    promises = Promises()
    words = [*scene.arguments(root, seed), "--engine", "spark", "--master", master,
             "--spark-conf", "spark.executor.memory=512m"]  # fmt: skip
    with promises.writing(team.writers, root, seed):
        running = team.starter.start(words)
        alive = _kill(victim, running, chance.uniform(0, 12))
        assert running.is_over(_SECONDS_TO_START * 1000), "the run hangs once its Spark is dead"
        code = running.wait()
    promises.ensure_kept(team.writers[0], root)
    running = team.starter.start(words)
    assert running.is_over(_SECONDS_TO_START * 1000), "the next run hangs"
    next_code = running.wait()
    assert next_code == 0, f"exit {next_code}: {running.said.read_text()}"
    promises.ensure_kept(team.writers[0], root)
    scene.ensure_done(root, sorted(promises.ids))
    return f"{scene.name} {seed}: {victim} killed {'alive' if alive else 'late'}, exit {code}"


def main(words: list[str]) -> int:
    """Run what was asked for; tell whether anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.spark_rounds")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each victim")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(words)
    scratch = Path(tempfile.mkdtemp(prefix="faults-spark-"))
    os.environ.update(worker_environ())
    scene, broken = SCENES[0], 0
    scene.build(scratch / "template")
    with (
        standalone_cluster(scratch) as cluster,
        delta_rs(2) as writers,
        opened_starter(scratch) as starter,
    ):
        team = Team(writers, starter)
        for number in range(arguments.rounds * len(_VICTIMS)):
            victim = list(_VICTIMS)[number % len(_VICTIMS)]
            master = cluster if victim == "executor" else "local[2]"
            seed = arguments.seed + number
            root = scratch / f"t{seed}"
            try:
                print(
                    run_round(scene, scratch / "template", root, seed, team, master, victim),
                    flush=True,
                )
            except AssertionError as error:
                broken += 1
                print(f"{victim} {seed}: {error} (kept in {root})", flush=True)
    if not broken:
        shutil.rmtree(scratch)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
