"""Measure whole processes from the start to the last byte of output, imports included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from ast import literal_eval
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Run:
    """One process: wall and processor time, the most memory it held, what it printed."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Runs of both sides in turn: ``ours[i]`` was followed or preceded by ``theirs[i]``."""

    ours: tuple[Run, ...]
    theirs: tuple[Run, ...]

    def ratio(self, figure: Callable[[Run], float]) -> float:
        """The median of the ratios ours / theirs, neighbour by neighbour."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return median(figure(ours) / max(figure(theirs), 1e-9) for ours, theirs in pairs)


Command = Sequence[str]
Prepare = Callable[[], AbstractContextManager[Command]]

# The kernel counts the peak of a child from what its parent held when it was started: so a small
# process starts it, and not this one, which may have grown.
_STARTER = """
import os, sys, time
started = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
wall = time.perf_counter() - started
figures = wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status)
os.write(3, repr(figures).encode())
"""


def run_process(command: Command) -> Run:
    """Run a command, given by its path, to its end.

    Raises:
        RuntimeError: it failed; the message has what it wrote to stderr.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        receive, send = os.pipe()
        starter = [sys.executable, "-I", "-S", "-c", f"import os; os.dup2({send}, 3){_STARTER}"]
        try:
            subprocess.run(
                [*starter, *command],
                stdout=out,
                stderr=err,
                pass_fds=[send],
                env=_environ(),
                check=True,
            )
            wall, cpu, peak, status = literal_eval(os.read(receive, 1000).decode())
        finally:
            os.close(send)
            os.close(receive)
        out.seek(0)
        err.seek(0)
        if status != 0:
            text = err.read().decode(errors="replace")
            raise RuntimeError(f"{' '.join(command)} ended with {status}:\n{text}")
        # Linux counts in KiB, macOS in bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        return Run(wall, cpu, peak * unit, out.read().decode())


def _environ() -> dict[str, str]:
    """That of this process, with bytecode kept, as that of an installed package is."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def run_in_turn(ours: Prepare, theirs: Prepare, runs: int) -> Pair:
    """Run both sides in turn, after one run of each that is not counted.

    Who goes first changes from turn to turn. What a run left to be written is on the disk before
    the next one starts.
    """
    found: dict[int, list[Run]] = {0: [], 1: []}
    for turn in range(runs + 1):
        order = (0, 1) if turn % 2 else (1, 0)
        for side in order:
            with (ours, theirs)[side]() as command:
                os.sync()
                run = run_process(command)
            if turn:
                found[side].append(run)
    return Pair(tuple(found[0]), tuple(found[1]))
