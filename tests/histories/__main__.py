"""``make histories``: random histories of tables, read by all after each step.

python -m tests.histories                          an hour of histories, delta-rs and Delta on Spark
python -m tests.histories --writers delta-rs --minutes 10
python -m tests.histories --seed 42 --count 1      one history
python -m tests.histories --seed 42 --steps 1,4,7  the same with these steps alone
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.histories.plan import WRITERS, History, make_history
from tests.histories.run import Outcome, Tally, run_history
from tests.histories.shrink import shrink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(words: Sequence[str]) -> int:
    """Run histories until the time is over; gives 1 if any failed."""
    arguments = _parse(words)
    with ExitStack() as stack:
        spark: SparkSession | None = None
        if arguments.writers != "delta-rs":
            from tests.support.delta_spark import delta_session

            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            spark = stack.enter_context(delta_session(Path(scratch)))
        return _run_all(arguments, spark)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.histories")
    parser.add_argument("--writers", choices=WRITERS, default="both")
    parser.add_argument("--seed", type=int, default=1, help="of the first history")
    parser.add_argument("--count", type=int, help="most histories; no limit unless given")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin none after this time")
    parser.add_argument("--length", type=int, default=16, help="most steps of a history")
    parser.add_argument("--steps", help="of one history: the steps to take, as 1,4,7")
    parser.add_argument("--traits", help="of one history: the traits to keep, as cdf,vectors")
    parser.add_argument("--shrink-seconds", type=float, default=120.0, help="of each failure")
    parser.add_argument("--keep", action="store_true", help="keep tables of failures")
    parser.add_argument("--folder", type=Path, help="where tables are made")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every history")
    return parser.parse_args(words)


def _histories(arguments: argparse.Namespace) -> Iterator[History]:
    is_one = arguments.steps is not None or arguments.traits is not None
    until = time.monotonic() + 60 * arguments.minutes
    number = 0
    while number < (1 if is_one else arguments.count or sys.maxsize):
        if time.monotonic() > until:
            return
        history = make_history(arguments.seed + number, arguments.writers, arguments.length)
        if arguments.steps is not None:
            history = history.with_steps([int(n) for n in arguments.steps.split(",")])
        if arguments.traits is not None:
            history = history.with_traits(arguments.traits.split(","))
        yield history
        number += 1


def _run_all(arguments: argparse.Namespace, spark: SparkSession | None) -> int:
    tally, kinds = Tally(), Counter[str]()
    shortest: dict[str, Outcome] = {}
    started = time.monotonic()
    for history in _histories(arguments):
        outcome = run_history(history, spark, folder=arguments.folder, keep=arguments.keep)
        tally.add(outcome.tally)
        if outcome.failure is None:
            if arguments.verbose:
                print(f"seed {history.seed}", *outcome.lines, sep="\n", flush=True)
            continue
        kinds[outcome.failure.kind] += 1
        _show(outcome, arguments)
        # One of a kind is enough: a bug that is found may end every history.
        if outcome.failure.kind not in shortest and arguments.shrink_seconds:
            smaller = shrink(outcome, spark, arguments.shrink_seconds, arguments.folder)
            shortest[outcome.failure.kind] = smaller
            print("shrunk:")
            _show(smaller, arguments)
    _summarise(tally, kinds, shortest, time.monotonic() - started)
    return 1 if kinds else 0


def _show(outcome: Outcome, arguments: argparse.Namespace) -> None:
    assert outcome.failure is not None
    print(f"\nFAILURE seed {outcome.history.seed}: {outcome.failure.kind}")
    print(*outcome.lines, sep="\n")
    print(f"    {outcome.failure.detail}")
    if outcome.kept:
        print(f"    the table: {outcome.kept}")
    print(f"    {_command(outcome.history, arguments.length)}", flush=True)


def _command(history: History, length: int) -> str:
    steps = ",".join(str(step.number) for step in history.steps)
    return (
        f"python -m tests.histories --writers {history.writers} --length {length} "
        f"--seed {history.seed} --steps {steps} --traits '{','.join(history.traits)}'"
    )


def _summarise(
    tally: Tally, kinds: Counter[str], shortest: dict[str, Outcome], seconds: float
) -> None:
    print(f"\n{tally.histories} histories in {seconds:.0f} s, {sum(kinds.values())} failed")
    print(f"{tally.unchanged} steps changed no file, so that nothing was read after them")
    for title, counted in (
        ("steps", tally.steps),
        ("comparisons", tally.comparisons),
        ("refused", tally.refused),
        ("readers left out", tally.left_out),
        ("failures", kinds),
    ):
        print(f"\n{title}: {sum(counted.values())}")
        for name, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
            print(f"  {count:7,} {name}")
    for kind, outcome in shortest.items():
        print(f"\nshortest of: {kind} (seed {outcome.history.seed})")
        print(*outcome.lines, sep="\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
