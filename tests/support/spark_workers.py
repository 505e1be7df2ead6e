"""Worker functions for any engine: they act as their payload says, and leave marks in a folder.

Imports nothing but the standard library: Spark's workers load it by name.
"""

import os
import signal
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Act:
    """What a task does; ``folder`` gets a file for each try of it."""

    folder: str
    number: int
    fault: str = "none"
    times: int = 0


def perform(act: Act, attempt: int) -> int:
    """Give ten times the number, after so many faults."""
    tries = mark(act.folder, act.number, attempt)
    if tries <= act.times:
        FAULTS[act.fault](act, attempt)
    return act.number * 10


def mark(folder: str, number: int, attempt: int) -> int:
    """Leave a file for this try, and count all of them."""
    Path(folder, f"{number}-{attempt}-{time.monotonic_ns()}").touch()
    return len(list(Path(folder).glob(f"{number}-*")))


def count_marks(folder: Path, number: int | None = None) -> int:
    """How many tries there were, of one task or of all."""
    return len(list(folder.glob("*" if number is None else f"{number}-*")))


def _raise(act: Act, attempt: int) -> None:
    raise ValueError(f"number {act.number}")


def _die(act: Act, attempt: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_executor(act: Act, attempt: int) -> None:
    """Kill the Java process above the daemon that forked this worker."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    executor = int(daemon[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)
    time.sleep(60)


def _linger(act: Act, attempt: int) -> None:
    time.sleep(60)


FAULTS: dict[str, Callable[[Act, int], None]] = {
    "raise": _raise,
    "die": _die,
    "kill executor": _kill_executor,
    "linger": _linger,
}


@dataclass(frozen=True)
class AfterWork:
    """A worker that does its work and then, the first ``times`` times, meets a fault.

    What it has written is there by then, and its result is lost.
    """

    worker: Callable[[Any, int], Any]
    folder: str
    fault: str
    number: int
    times: int

    def __call__(self, payload: Any, attempt: int) -> Any:
        """Work, then fall."""
        result = self.worker(payload, attempt)
        # Other tasks of a run, such as those of a checkpoint, have no number.
        if getattr(payload, "number", None) == self.number:
            act = Act(self.folder, payload.number, self.fault, self.times)
            perform(act, attempt)
        return result


@dataclass(frozen=True)
class AfterCopy:
    """A worker that copies the files of a payload, leaves a mark, and dies once after one file."""

    worker: Callable[[Any, int], Any]
    folder: str
    dies_after: str

    def __call__(self, payload: Any, attempt: int) -> Any:
        """Work, then fall."""
        result = self.worker(payload, attempt)
        tries = mark(self.folder, zlib.crc32(payload.sources[0].encode()), attempt)
        if self.dies_after in payload.sources and tries == 1:
            _die(Act(self.folder, 0), attempt)
        return result
