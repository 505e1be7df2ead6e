"""Tasks that are made when an engine comes to them, and how many of them are done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from deltactl.engine.base import P, Progress, Task


@dataclass(frozen=True, slots=True)
class LazyTasks(Generic[P]):
    """Tasks numbered from 0, of which only the weights are in memory all the time."""

    weights: Sequence[int]
    build: Callable[[int], P]

    def __iter__(self) -> Iterator[Task[P]]:
        """Build each payload when its task is asked for."""
        for number, weight in enumerate(self.weights):
            yield Task(number, self.build(number), weight)


class TaskCounter:
    """Sums up what is done."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.progress = Progress(0, len(weights), 0, sum(weights))

    def add(self, weight_bytes: int) -> None:
        """Count a task that has ended."""
        now = self.progress
        self.progress = Progress(
            now.tasks_done + 1, now.tasks_total, now.bytes_done + weight_bytes, now.bytes_total
        )


def open_tasks(tasks: Iterable[Task[P]]) -> tuple[Iterator[Task[P]], TaskCounter]:
    """Give the tasks one by one, and the counter of all of them."""
    if isinstance(tasks, LazyTasks):
        return iter(tasks), TaskCounter(tasks.weights)
    listed = list(tasks)
    return iter(listed), TaskCounter([task.weight_bytes for task in listed])
