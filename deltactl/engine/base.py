"""Define the interface of engines, which run one worker function for many tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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
    """The progress of a run: ended tasks, all tasks, bytes that were processed, and all bytes.

    On the local engine, ``bytes_done`` also counts what running tasks have processed.
    """

    tasks_done: int
    tasks_total: int
    bytes_done: int
    bytes_total: int


CancelToken = threading.Event
OnProgress = Callable[[Progress], None]


class StopToken(CancelToken):
    """A token that is also set if another token is set, or if ``is_over`` returns true."""

    def __init__(
        self, parent: CancelToken | None, is_over: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__()
        self._parent, self._is_over = parent, is_over

    def is_set(self) -> bool:
        """Return whether no new work may start."""
        parent = self._parent is not None and self._parent.is_set()
        return super().is_set() or parent or self._is_over()


Worker = Callable[[P, int], R]
"""``worker(payload, attempt) -> result``.

A worker is a top-level function, so that it can be sent to other processes. ``attempt`` is
different for all attempts of a task, also for attempts at the same time, so that file names that
contain it are unique. It is 0 if the engine tries each task once.
"""


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
    def is_local(self) -> bool:
        """Return whether tasks run in this process, so that they can use its objects."""
        return False

    @property
    def leaves_orphans(self) -> bool:
        """Return whether an attempt can be lost or repeated, which leaves orphaned outputs."""
        return False

    def sized(self, input_bytes: int) -> Engine:
        """Return the engine for tasks that read so many bytes; it is not started."""
        return self

    def start(self) -> Engine:
        """Return this engine, started. To start it may take seconds.

        Raises:
            EngineUnavailableError: the requested engine cannot run here.
        """
        return self

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
        ended or were stopped. A ``KeyboardInterrupt`` or an error of ``on_progress`` sets
        ``cancel``, because tasks that last long look at it.
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
