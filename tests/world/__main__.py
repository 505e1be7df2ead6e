"""``make world``: random histories of a world around tables, checked after each step.

python -m tests.world                          an hour of seeds
python -m tests.world --seed 42 --count 1      one of them
python -m tests.world --seed 42 --steps 1,4,7  the same with these steps alone
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.world.run import LENGTH, Outcome, make_history, run_history, shrink


def main(words: Sequence[str]) -> int:
    """Run histories until the time is over; gives 1 if any failed."""
    options = _parse(words)
    kinds: Counter[str] = Counter()
    first: dict[str, int] = {}
    number, began = 0, time.monotonic()
    until = began + 60 * options.minutes
    while number < (options.count or sys.maxsize) and time.monotonic() < until:
        seed = options.seed + number
        number += 1
        history = make_history(seed, options.length, frozenset(options.without.split(",")))
        if options.steps is not None:
            history = history.only([int(n) for n in options.steps.split(",")])
        try:
            outcome = run_history(history, keep=options.keep)
        except Exception as error:
            error.add_note(f"in the world of seed {seed}")
            raise
        if outcome.failure is None:
            if options.verbose:
                print(f"seed {seed}", *outcome.lines, sep="\n", flush=True)
            continue
        kinds[outcome.failure.kind] += 1
        if first.setdefault(outcome.failure.kind, seed) == seed:
            show(outcome if options.steps else shrink(outcome))
    print(f"\n{number} worlds in {time.monotonic() - began:.0f} s, {kinds.total()} failed")
    for kind, count in kinds.most_common():
        print(f"{count:5} {kind}, first with seed {first[kind]}")
    return 1 if kinds else 0


def show(outcome: Outcome) -> None:
    """Print what happened, and how to see it again."""
    assert outcome.failure is not None
    steps = ",".join(str(step[0]) for step in outcome.history.steps[: outcome.taken])
    print(f"\nFAILURE seed {outcome.history.seed}: {outcome.failure.kind}")
    print(*outcome.lines, sep="\n")
    print(f"    {outcome.failure.detail}")
    print(f"    python -m tests.world --seed {outcome.history.seed} --steps {steps}", flush=True)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.world")
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--count", type=int, help="most histories; no limit unless given")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin none after this time")
    parser.add_argument("--length", type=int, default=LENGTH, help="steps of a history")
    parser.add_argument("--steps", help="of one history: the steps to take, as 1,4,7")
    parser.add_argument("--without", default="", help="leave these out, as land,clocks")
    parser.add_argument("--keep", type=Path, help="copy the disk of a failure here")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every history")
    parsed = parser.parse_args(words)
    if parsed.steps is not None:
        parsed.count = 1
    return parsed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
