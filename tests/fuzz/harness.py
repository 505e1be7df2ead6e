"""One execution of a target, judged: typed errors only, within a second, within its memory."""

from __future__ import annotations

import mmap
import re
import resource
import struct
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from deltactl.errors import DeltactlError, InternalError
from tests.fuzz.target import Target

MAX_SECONDS = 1.0
MAX_TIMES_INPUT = 10
OWN_BYTES = 8 << 20
"""What a call may take besides: room that the allocator keeps, lists of fields and the like."""

ARROW_BYTES = 64 << 20
"""The same where Arrow's readers are at work: those of JSON and Parquet hold blocks of 4 MiB per
thread and column, a checkpoint's batch up to 64 MiB of uncompressed rows, whatever the input."""

_PACKAGE = "/deltactl/"
_PEAK = re.compile(rb"VmHWM:\s*(\d+) kB")


@dataclass(frozen=True, slots=True)
class Find:
    """What must not be: ``key`` is the same for finds of one cause."""

    kind: str
    key: str
    detail: str

    @property
    def name(self) -> str:
        return f"{self.kind}-{sha256(self.key.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Run:
    """One execution: seconds, how much the peak of the process grew, and what is wrong."""

    seconds: float
    grown_bytes: int
    find: Find | None


def peak_bytes() -> int:
    """The most memory that this process held since ``forget_peak``, or ever where it cannot."""
    with suppress(OSError):
        # Not ``ru_maxrss``: that begins with the peak of whoever started the process.
        found = _PEAK.search(Path("/proc/self/status").read_bytes())
        if found:
            return int(found[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def forget_peak() -> None:
    """Let the peak begin again at what is held now (Linux: proc(5), ``clear_refs``)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_bytes(b"5")


def execute(target: Target, data: bytes) -> Run:
    """Run a target once. A slow one is run again: a busy machine is no find."""
    _warm_up(target)
    forget_peak()
    peak = peak_bytes()
    started = time.perf_counter()
    find = _call(target, data)
    seconds = time.perf_counter() - started
    for _ in range(2 if seconds > MAX_SECONDS else 0):
        started = time.perf_counter()
        _call(target, data)
        seconds = min(seconds, time.perf_counter() - started)
    grown = peak_bytes() - peak
    if find is None and seconds > MAX_SECONDS:
        find = Find("slow", target.name, f"{seconds:.1f} s for {len(data)} bytes")
    constant = ARROW_BYTES if target.by_arrow else OWN_BYTES
    if find is None and grown > MAX_TIMES_INPUT * len(data) + constant:
        find = Find("memory", target.name, f"{grown >> 20} MiB for {len(data)} bytes")
    return Run(seconds, grown, find)


@cache
def _warm_up(target: Target) -> None:
    """Modules that are imported when they are first needed are not the input's memory."""
    for data in target.seeds()[:1]:
        _call(target, data)


def _call(target: Target, data: bytes) -> Find | None:
    try:
        target.run(data)
    except InternalError as error:
        return _of_error(error)
    except DeltactlError:
        return None
    except Exception as error:  # noqa: BLE001 - that is the question
        return _of_error(error)
    return None


def _of_error(error: Exception) -> Find:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _PACKAGE in frame.filename] or list(frames)
    last = own[-1]
    place = f"{last.filename.rpartition(_PACKAGE)[2]}:{last.name}"
    kind = type(error).__name__
    return Find("error", f"{kind} {place}", f"{kind} in {place}:{last.lineno}: {str(error)[:300]}")


_TALLY = struct.Struct("<QdddQQ")
_TALLY_BYTES = 1 << 17


@dataclass(slots=True)
class Tally:
    """Figures of a worker in a file that outlives it, and the input that it is at work on."""

    memory: mmap.mmap
    executions: int = 0
    since: float = 0.0
    slowest: float = 0.0
    busy: float = 0.0
    grown: int = 0

    @classmethod
    def open(cls, path: Path) -> Tally:
        """The tally in a file, zero where there is none yet."""
        if not path.exists():
            path.write_bytes(bytes(_TALLY_BYTES))
        with path.open("r+b") as opened:
            memory = mmap.mmap(opened.fileno(), _TALLY_BYTES)
        found = cls(memory)
        found.load()
        return found

    def load(self) -> bytes:
        """Take in what the worker wrote; gives the input that it is at work on."""
        values = _TALLY.unpack_from(self.memory)
        self.executions, self.since, self.slowest, self.busy, self.grown, length = values
        return self.memory[_TALLY.size : _TALLY.size + length] if self.since else b""

    def begin(self, data: bytes) -> None:
        """Note the input: a process that dies cannot tell any more."""
        self.since = time.time()
        self.memory[_TALLY.size : _TALLY.size + len(data)] = data
        self._save(len(data))

    def end(self, run: Run) -> None:
        """Count an execution."""
        self.executions, self.since = self.executions + 1, 0.0
        self.slowest, self.busy = max(self.slowest, run.seconds), self.busy + run.seconds
        self.grown = max(self.grown, run.grown_bytes)
        self._save(0)

    def pause(self) -> None:
        """Say that nothing is being executed."""
        self.since = 0.0
        self._save(0)

    def _save(self, length: int) -> None:
        _TALLY.pack_into(
            self.memory, 0, self.executions, self.since, self.slowest, self.busy, self.grown, length
        )
