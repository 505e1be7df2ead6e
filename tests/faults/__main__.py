"""``make faults``: kill deltactl at random moments while delta-rs writes, a few hundred times."""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from tests.faults.delta_rs import delta_rs
from tests.faults.rounds import Outcome, Team, rehearse, run_round
from tests.faults.scenes import SCENES, Scene
from tests.faults.starter import opened_starter
from tests.faults.victims import ITSELF, Victim, victims_on_spark
from tests.support.spark_servers import worker_environ

_WRITERS = 2


def _run_scene(
    scene: Scene, scratch: Path, seeds: range, team: Team, victim: Victim
) -> tuple[list[Outcome], list[str]]:
    """All rounds of a scene; the folder of a failed one is kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"{scene.name}-", dir=scratch))
    template = folder / "template"
    scene.build(template)
    pace = rehearse(scene, template, folder / "rehearsal", team, victim)
    outcomes: list[Outcome] = []
    failures: list[str] = []
    for seed in seeds:
        root = folder / str(seed)
        try:
            outcomes.append(run_round(scene, template, root, seed, team, pace, victim))
            shutil.rmtree(root)
        except AssertionError as error:
            failures.append(f"{scene.name} {seed}: {error}")
            print(failures[-1], f"(kept in {root})", flush=True)
    return outcomes, failures


def _describe(scene: Scene, victim: Victim, outcomes: list[Outcome], seconds: float) -> str:
    return (
        f"{scene.name}, {victim.name}: {len(outcomes)} rounds sound, killed alive "
        f"{sum(o.alive for o in outcomes)} (after its first write "
        f"{sum(o.alive and o.had_written for o in outcomes)}), rows acknowledged "
        f"{sum(o.acknowledged for o in outcomes)}, writes of delta-rs refused "
        f"{sum(o.refused for o in outcomes)}, lost races {sum(o.retries for o in outcomes)}, "
        f"hidden files left {sum(o.left_over for o in outcomes)}, {seconds:.0f} s"
    )


@contextmanager
def _victims(on_spark: bool, scratch: Path) -> Iterator[list[Victim]]:
    if not on_spark:
        yield [ITSELF]
        return
    os.environ.update(worker_environ())
    with victims_on_spark(scratch) as victims:
        yield victims


def main(words: list[str]) -> int:
    """Run what was asked for; tell whether anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each command and victim")
    parser.add_argument("--seed", type=int, default=0, help="the first round")
    parser.add_argument("--only", choices=[scene.name for scene in SCENES])
    parser.add_argument("--spark", action="store_true", help="kill processes of Spark instead")
    parser.add_argument("--scratch", type=Path, help="where tables are made")
    arguments = parser.parse_args(words)
    broken: list[str] = []
    scratch = Path(tempfile.mkdtemp(prefix="faults-", dir=arguments.scratch))
    seeds = range(arguments.seed, arguments.seed + arguments.rounds)
    scenes = [s for s in SCENES if s.has_tasks or not arguments.spark]
    with (
        _victims(arguments.spark, scratch) as victims,
        delta_rs(_WRITERS) as writers,
        opened_starter(scratch) as starter,
    ):
        for scene, victim in product(scenes, victims):
            if arguments.only in (None, scene.name):
                started = time.monotonic()
                team = Team(writers, starter)
                outcomes, failures = _run_scene(scene, scratch, seeds, team, victim)
                broken += failures
                print(_describe(scene, victim, outcomes, time.monotonic() - started), flush=True)
    if not broken:
        shutil.rmtree(scratch)
    print(f"{len(broken)} rounds failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
