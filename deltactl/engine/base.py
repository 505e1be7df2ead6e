"""The engine seam: where tasks run. One worker function, several engines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Task(Generic[P]):
    """A unit of work: a small picklable ``payload``, and the memory it takes at its peak."""

    id: int
    payload: P
    weight_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """A task's result. ``attempt`` starts at 0 and counts tries of the same task."""

    task_id: int
    attempt: int
    result: R


@dataclass(frozen=True, slots=True)
class Failed:
    """A task that raised (or lost its process) on its last attempt."""

    task_id: int
    attempt: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: tasks done of total, and the bytes of weight they stood for."""

    tasks_done: int
    tasks_total: int
    bytes_done: int
    bytes_total: int


CancelToken = threading.Event
OnProgress = Callable[[Progress], None]
Worker = Callable[[P, int], R]
"""``worker(payload, attempt) -> result``: a top-level function, so that it can be shipped."""


class Engine(Protocol):
    """Runs tasks. Outcomes come as they end, in any order, each task exactly once."""

    @property
    def name(self) -> str:
        """``local`` or ``spark``, for reports and commitInfo."""
        ...

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        """Run ``worker`` over ``tasks``: lazy, bounded in flight.

        A raising task is a ``Failed`` value and never ends the others. After ``cancel`` is set no
        new task starts and the iterator ends when those running have ended.
        """
        ...
