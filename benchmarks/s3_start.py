"""Whole processes on a small table in an S3 server: most of their time is the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.measure import Command, Pair, Prepare, Run, run_in_turn
from benchmarks.sides import deltactl, python

_COMMITS: Final = 5
_OPEN: Final = "import sys; from deltalake import DeltaTable; table = DeltaTable(sys.argv[1])"
_FILES: Final = f"{_OPEN}; print(table.get_add_actions().num_rows)"
_VACUUM: Final = f"{_OPEN}; print(table.vacuum(retention_hours=168, dry_run=True))"
# Where delta-rs has no such call, it opens the table and gets its files.
_CASES: Final[Mapping[str, tuple[Sequence[str], str]]] = {
    "describe-detail": ((), _OPEN),
    "describe-history": ((), f"{_OPEN}; print(table.history())"),
    "check": ((), _FILES),
    "vacuum": (("--dry-run",), _VACUUM),
    "optimize": (("--dry-run",), _FILES),
    "checkpoint": (("--check",), _FILES),
    "generate-manifest": (("--dry-run",), _FILES),
}


def write_small(address: str, options: Mapping[str, str]) -> None:
    """Write a table of five commits and files by delta-rs, with its storage options."""
    for number in range(_COMMITS):
        rows = pa.table({"id": [number, number + 1], "name": ["a", "b"]})
        write_deltalake(address, rows, mode="append", storage_options=dict(options))


def measure_start(address: str, runs: int) -> Iterator[str]:
    """Run each command in turn with delta-rs; yield the lines of a table as they are known.

    The least of the runs counts: other work on the machine only adds to it.
    """
    yield "| command | processor: ours | delta-rs | ratio | wall: ours | delta-rs | memory |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, (flags, theirs) in _CASES.items():
        ours = deltactl(name, address, *flags)
        pair = run_in_turn(_prepare(ours), _prepare(python(theirs, address)), runs)
        yield _line(" ".join((name, *flags)), pair)


def _line(name: str, pair: Pair) -> str:
    cpu = [min(run.cpu_seconds for run in side) for side in (pair.ours, pair.theirs)]
    wall = [_least_wall(side) for side in (pair.ours, pair.theirs)]
    memory = min(run.peak_bytes for run in pair.ours) >> 20
    return (
        f"| `{name}` | {cpu[0]:.2f} s | {cpu[1]:.2f} s | {cpu[0] / cpu[1]:.1f}"
        f" | {wall[0]:.2f} s | {wall[1]:.2f} s | {memory} MiB |"
    )


def _least_wall(side: Sequence[Run]) -> float:
    return min(run.wall_seconds for run in side)


def _prepare(command: Command) -> Prepare:
    @contextmanager
    def prepared() -> Iterator[Command]:
        yield command

    return prepared
