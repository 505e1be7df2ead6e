"""`python -m benchmarks.scale`: time and memory of deltactl alone on tables that grow tenfold.

Tables name 0.1, 1 and 10 million files. Those of vacuum have a fifth of that, because their files
exist: 4 million empty ones for the largest. Tables are kept for the next run.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import sides
from benchmarks.cases import CASES, Case
from benchmarks.measure import Command, Run, run_process
from benchmarks.report import render_rows
from benchmarks.tables import default_cache, ensure_table

SIZES: Final = {"0.1M": 0.1, "1M": 1.0, "10M": 10.0}

_HEADINGS: Final = ("case", "size", "wall", "processor", "memory", "result")
_NAMED: Final = {case.name: case for case in CASES}


def _detail(table: str) -> Command:
    return sides.deltactl("describe-detail", table, "-o", "json")


def _search(table: str) -> Command:
    predicate = "id = 42 AND date = '2000-01-01'"
    return sides.deltactl("check", table, "--erased", predicate, "--engine", "local", "-o", "json")


def _num_files(output: str) -> object:
    return json.loads(output)["result"]["numFiles"]


SCALED: Final = (
    replace(
        _NAMED["load-checkpoint"],
        name="load",
        ours=_detail,
        our_answer=_num_files,
        what="describe-detail, all files from a checkpoint",
    ),
    replace(_NAMED["checkpoint"], what="a checkpoint after a tail of ten commits, read back"),
    replace(
        _NAMED["manifest-10000"],
        name="manifest",
        table="manifest",
        what="manifests of all files in 10,000 partitions",
    ),
    replace(
        _NAMED["vacuum"],
        what="full vacuum dry run of a fifth of the files, named by a checkpoint, and a tenth more",
    ),
    replace(
        _NAMED["vacuum-json"],
        what="full vacuum dry run of 0.19 of the files, named by JSON commits, and a 20th more",
    ),
    replace(
        _NAMED["vacuum"],
        name="storage",
        ours=lambda table: sides.deltactl("describe-detail", table, "--storage", "-o", "json"),
        our_answer=lambda output: json.loads(output)["result"]["files"],
        what="describe-detail --storage of a fifth of the files, and a tenth more",
    ),
    replace(
        _NAMED["load-checkpoint"],
        name="erased",
        table="read",
        ours=_search,
        our_answer=lambda output: json.loads(output)["result"]["counts"]["files_skipped"],
        what="check --erased, all files from a checkpoint, the footer of each read",
    ),
    replace(
        _NAMED["load-json"],
        name="replay",
        ours=_detail,
        our_answer=_num_files,
        what="describe-detail, JSON commits of 1,000 adds, no checkpoint",
    ),
)


def main(arguments: list[str]) -> int:
    """Run the chosen cases at the chosen sizes and print one table."""
    options = _parse(arguments)
    rows = [list(_HEADINGS)]
    for case in SCALED:
        if options.names and case.name not in options.names:
            continue
        print(f"{case.name}: {case.what}", file=sys.stderr, flush=True)
        for size in options.size or SIZES:
            rows.append(_measure(case, size, options.runs, options.cache))
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(render_rows(rows, markdown=options.markdown))
    return 0


def _measure(case: Case, size: str, runs: int, cache: Path) -> list[str]:
    """Return a row: medians of some runs after one that is not counted.

    Raises:
        RuntimeError: a run failed.
    """
    table = ensure_table(case.table, SIZES[size], cache)
    found: list[Run] = []
    with ExitStack() as ends:
        prepare = case.prepare(table, case.ours, ends)
        for _ in range(runs + 1):
            with prepare() as command:
                found.append(run_process(command))
    counted = found[1:]
    return [
        case.name,
        size,
        f"{median(run.wall_seconds for run in counted):.2f} s",
        f"{median(run.cpu_seconds for run in counted):.2f} s",
        f"{median(run.peak_bytes for run in counted) / 2**20:,.0f} MiB",
        str(case.our_answer(found[-1].output)),
    ]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    names = [case.name for case in SCALED]
    parser.add_argument(
        "names", nargs="*", choices=[*names, []], metavar="CASE", help="; ".join(names)
    )
    parser.add_argument(
        "--size", action="append", choices=SIZES, help="may be given again; all if none"
    )
    parser.add_argument("--runs", type=int, default=1, help="counted runs of a case [1]")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="[%(default)s]")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
