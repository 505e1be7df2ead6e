"""Define the interface of engines, which run one worker function for many tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Task(Generic[P]):
    """A unit of work: a small ``payload`` that can be pickled, and the memory that it may need."""

    id: int
    payload: P
    weight_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """The result of a task. ``attempt`` is the attempt number that the worker got."""

    task_id: int
    attempt: int
    result: R


@dataclass(frozen=True, slots=True)
class Failed:
    """A task whose last attempt raised an error, or whose process ended."""

    task_id: int
    attempt: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: ended tasks, all tasks, and how many bytes they process."""

    tasks_done: int
    tasks_total: int
    bytes_done: int
    bytes_total: int


CancelToken = threading.Event
OnProgress = Callable[[Progress], None]
Worker = Callable[[P, int], R]
"""``worker(payload, attempt) -> result``.

A worker is a top-level function, so that it can be sent to other processes. ``attempt`` is
different for all attempts of a task, also for attempts at the same time, so that file names that
contain it are unique. It is 0 if the engine tries each task once.
"""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The name of an engine and the reason for it, for reports and commitInfo."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return a text such as ``spark engine: requested with --engine``."""
        return f"{self.name} engine: {self.reason}"


class Engine(Protocol):
    """Run tasks.

    Each task has exactly one outcome. The engine yields outcomes when tasks end, in any order.
    """

    @property
    def name(self) -> str:
        """``local`` or ``spark``, for reports and commitInfo."""
        ...

    @property
    def reason(self) -> str:
        """Return why this engine was chosen."""
        ...

    @property
    def leaves_orphans(self) -> bool:
        """Return whether an attempt can be lost or repeated, which leaves orphaned outputs."""
        ...

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        """Run ``worker`` for each of ``tasks``; request each task when it can start.

        If a task raises an error, its outcome is a ``Failed`` value, and the other tasks run on.
        After ``cancel`` is set, no new task starts. The iterator ends when the running tasks have
        ended or were stopped.
        """
        ...


@contextmanager
def ended(outcomes: Iterator[Done[R] | Failed]) -> Iterator[Iterator[Done[R] | Failed]]:
    """Yield the outcomes of a run; stop the run at the end of the block, also after an error.

    Without this, the garbage collector would wait for the threads of the run at an arbitrary time.
    """
    try:
        yield outcomes
    finally:
        if isinstance(outcomes, Generator):
            outcomes.close()


@runtime_checkable
class EngineSource(Protocol):
    """Choose an engine, for example by the size of the input."""

    def choose(self, input_bytes: int) -> EngineChoice:
        """Return the choice that ``open`` would make, without starting the engine."""
        ...

    def open(self, input_bytes: int) -> Engine:
        """Return an engine that is ready to run tasks. To start the engine may take seconds.

        Raises:
            EngineUnavailableError: the requested engine cannot run here.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedEngine:
    """A source that always returns the same engine, which already exists."""

    engine: Engine

    def choose(self, input_bytes: int) -> EngineChoice:
        """Return the choice of the engine."""
        return EngineChoice(self.engine.name, self.engine.reason)

    def open(self, input_bytes: int) -> Engine:
        """Return the engine."""
        return self.engine


class LazyEngine:
    """An engine that is started by its first run, so that a plan does not start Spark."""

    def __init__(self, source: EngineSource, input_bytes: int = 0) -> None:
        """Choose by ``input_bytes``; pass 0 if tasks read little, even from a large table."""
        self._source, self._input_bytes = source, input_bytes
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """Return the name of the engine that ran; before the first run, of the chosen engine."""
        return self._choice.name

    @property
    def reason(self) -> str:
        """Return why this engine was chosen."""
        return self._choice.reason

    @property
    def leaves_orphans(self) -> bool:
        """See ``Engine``. Before the first run, return false: there are no outputs."""
        return self._engine is not None and self._engine.leaves_orphans

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        """Open the engine if it is not open yet, and run the tasks on it.

        Raises:
            EngineUnavailableError: the requested engine cannot run here.
        """
        if self._engine is None:
            self._engine = self._source.open(self._input_bytes)
        return self._engine.run(worker, tasks, cancel=cancel, on_progress=on_progress)

    @property
    def _choice(self) -> EngineChoice:
        if self._engine is None:
            return self._source.choose(self._input_bytes)
        return EngineChoice(self._engine.name, self._engine.reason)
