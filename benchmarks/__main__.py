"""`python -m benchmarks`: deltactl beside delta-rs, whole processes in turn on this machine."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from benchmarks import layout
from benchmarks.cases import CASES, Case
from benchmarks.measure import run_in_turn
from benchmarks.report import Result, render
from benchmarks.shapes import Shape
from benchmarks.tables import default_cache, ensure_table


def main(arguments: list[str]) -> int:
    """Run the chosen cases and print their table; `layout` has a table of its own."""
    if arguments[:1] == ["layout"]:
        return layout.main(arguments[1:])
    options = _parse(arguments)
    results = []
    for case in _choose(options.names):
        print(f"{case.name}: {case.what}", file=sys.stderr, flush=True)
        for shape in options.shape or Shape:
            results.append(run_case(case, shape, options.runs, options.scale, options.cache))
            print(render(results[-1:], markdown=False), file=sys.stderr, flush=True)
    print(f"deltactl {version('deltactl')}, deltalake {version('deltalake')}; ratios are ours /")
    print(f"theirs, medians of {options.runs} runs in turn; seconds of processor, peak memory.\n")
    print(render(results, markdown=options.markdown))
    return 0


def run_case(case: Case, shape: Shape, runs: int, scale: float, cache: Path) -> Result:
    """Measure both sides of a case.

    Raises:
        RuntimeError: a side failed, or the sides disagree on the answer.
    """
    table = ensure_table(case.table, scale, cache, shape)
    with ExitStack() as ends:
        ours = case.prepare(table, case.ours, ends)
        theirs = case.prepare(table, case.theirs, ends)
        pair = run_in_turn(ours, theirs, runs)
    for our_run, their_run in zip(pair.ours, pair.theirs, strict=True):
        answers = case.our_answer(our_run.output), case.their_answer(their_run.output)
        if answers[0] != answers[1]:
            raise RuntimeError(f"{case.name}, {shape}: ours says {answers[0]}, theirs {answers[1]}")
    return Result(case, pair, shape)


def _choose(names: list[str]) -> list[Case]:
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no case is named {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in names or known]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases to run; all if none")
    parser.add_argument(
        "--shape", action="append", type=Shape, choices=list(Shape), help="may be given again [all]"
    )
    parser.add_argument("--runs", type=int, default=3, help="counted runs of a side [3]")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the tables [1]")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="where tables are kept [%(default)s]"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
