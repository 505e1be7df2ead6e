"""``make faults``: kill deltactl at random moments while delta-rs writes, a few hundred times."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.faults.delta_rs import delta_rs
from tests.faults.rounds import Outcome, Team, run_round
from tests.faults.scenes import SCENES, Scene
from tests.faults.starter import opened_starter

_WRITERS = 2
_FIRST_GUESS_S = 1.0


def _run_scene(
    scene: Scene, scratch: Path, seeds: range, team: Team
) -> tuple[list[Outcome], list[str]]:
    """All rounds of a scene; the folder of a failed one is kept."""
    template = scratch / scene.name
    scene.build(template)
    outcomes: list[Outcome] = []
    failures: list[str] = []
    for seed in seeds:
        root = scratch / f"{scene.name}-{seed}"
        seconds = [outcome.seconds for outcome in outcomes[-9:]]
        usual = median(seconds) if seconds else _FIRST_GUESS_S
        try:
            outcomes.append(run_round(scene, template, root, seed, team, usual))
            shutil.rmtree(root)
        except AssertionError as error:
            failures.append(f"{scene.name} {seed}: {error}")
            print(failures[-1], f"(kept in {root})", flush=True)
    return outcomes, failures


def _describe(scene: Scene, outcomes: list[Outcome], seconds: float) -> str:
    return (
        f"{scene.name}: {len(outcomes)} rounds sound, killed alive "
        f"{sum(o.alive for o in outcomes)} (after its first write "
        f"{sum(o.alive and o.had_written for o in outcomes)}), rows acknowledged "
        f"{sum(o.acknowledged for o in outcomes)}, writes of delta-rs refused "
        f"{sum(o.refused for o in outcomes)}, lost races {sum(o.retries for o in outcomes)}, "
        f"hidden files left {sum(o.left_over for o in outcomes)}, {seconds:.0f} s"
    )


def main(words: list[str]) -> int:
    """Run what was asked for; tell whether anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each command")
    parser.add_argument("--seed", type=int, default=0, help="the first round")
    parser.add_argument("--only", choices=[scene.name for scene in SCENES])
    parser.add_argument("--scratch", type=Path, help="where tables are made")
    arguments = parser.parse_args(words)
    broken: list[str] = []
    scratch = Path(tempfile.mkdtemp(prefix="faults-", dir=arguments.scratch))
    seeds = range(arguments.seed, arguments.seed + arguments.rounds)
    with delta_rs(_WRITERS) as writers, opened_starter(scratch) as starter:
        team = Team(writers, starter)
        for scene in SCENES:
            if arguments.only in (None, scene.name):
                started = time.monotonic()
                outcomes, failures = _run_scene(scene, scratch, seeds, team)
                broken += failures
                print(_describe(scene, outcomes, time.monotonic() - started), flush=True)
    if not broken:
        shutil.rmtree(scratch)
    print(f"{len(broken)} rounds failed")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
