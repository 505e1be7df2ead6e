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
    """A unit of work: a small picklable ``payload``, and its maximum memory."""

    id: int
    payload: P
    weight_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """A task's result. ``attempt`` is the attempt number that was passed to the worker."""

    task_id: int
    attempt: int
    result: R


@dataclass(frozen=True, slots=True)
class Failed:
    """A task whose last attempt raised or lost its process."""

    task_id: int
    attempt: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: tasks done of total, and the bytes that they process."""

    tasks_done: int
    tasks_total: int
    bytes_done: int
    bytes_total: int


CancelToken = threading.Event
OnProgress = Callable[[Progress], None]
Worker = Callable[[P, int], R]
"""``worker(payload, attempt) -> result``.

A top-level function, so that it can be sent to other processes. ``attempt`` is different for all
attempts of a task, also for simultaneous ones, so that names with it are unique. It is 0 if a task
is tried only once.
"""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The name of an engine and the reason for it, for reports and commitInfo."""

    name: str
    reason: str

    def __str__(self) -> str:
        """``spark engine: requested with --engine``."""
        return f"{self.name} engine: {self.reason}"


class Engine(Protocol):
    """Run tasks.

    Each task has exactly one outcome; outcomes are yielded when tasks end, in any order.
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
        """Return whether an attempt can be lost or repeated, so that its outputs remain."""
        ...

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        """Run ``worker`` for each of ``tasks``, which are read when needed.

        A task that raises gives a ``Failed`` value and does not end the others. After ``cancel`` is
        set, no new task starts, and the iterator ends when running tasks have ended or were
        stopped.
        """
        ...


@contextmanager
def ended(outcomes: Iterator[Done[R] | Failed]) -> Iterator[Iterator[Done[R] | Failed]]:
    """Yield the outcomes; end the run at the end of the block, also after an error.

    Otherwise the garbage collector would join its threads at an arbitrary time.
    """
    try:
        yield outcomes
    finally:
        if isinstance(outcomes, Generator):
            outcomes.close()


@runtime_checkable
class EngineSource(Protocol):
    """Choose an engine by the size of the input."""

    def choose(self, input_bytes: int) -> EngineChoice:
        """Return the engine that ``open`` would return, without starting it."""
        ...

    def open(self, input_bytes: int) -> Engine:
        """Return an engine that is ready; starting it may take seconds.

        Raises:
            EngineUnavailableError: the requested engine cannot run here.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedEngine:
    """The source of an engine that already exists."""

    engine: Engine

    def choose(self, input_bytes: int) -> EngineChoice:
        """Return the choice of the engine."""
        return EngineChoice(self.engine.name, self.engine.reason)

    def open(self, input_bytes: int) -> Engine:
        """Return the engine."""
        return self.engine


class LazyEngine:
    """The engine of a source, which is opened by the first run: a plan does not start it."""

    def __init__(self, source: EngineSource, input_bytes: int = 0) -> None:
        """Choose by ``input_bytes``; use 0 if tasks read little, even from a large table."""
        self._source, self._input_bytes = source, input_bytes
        self._engine: Engine | None = None

    @property
    def name(self) -> str:
        """Return the choice of the engine that ran, or else of the engine that would run."""
        return self._choice.name

    @property
    def reason(self) -> str:
        """Return why this engine was chosen."""
        return self._choice.reason

    @property
    def leaves_orphans(self) -> bool:
        """See ``Engine``; an engine that never ran left no outputs."""
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
