"""Build tasks when an engine requests them, and count the tasks that have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

from deltactl.engine.base import P, Progress, Task

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class LazyTasks(Generic[P]):
    """Tasks numbered from 0. Only the weights of all tasks are always in memory.

    ``sizes`` are the bytes that each task processes, for the progress; by default the weights.
    """

    weights: Sequence[int]
    build: Callable[[int], P]
    sizes: Sequence[int] | None = None

    def __iter__(self) -> Iterator[Task[P]]:
        """Yield the tasks; build each payload when its task is requested."""
        for number, weight in enumerate(self.weights):
            yield Task(number, self.build(number), weight)


class TaskCounter:
    """A counter of ended tasks. ``weight_bytes`` is the weight of all tasks."""

    def __init__(self, sizes: Mapping[int, int], weight_bytes: int) -> None:
        """Take the size in bytes of each task, by the id of the task."""
        self._sizes, self.weight_bytes = sizes, weight_bytes
        self.progress = Progress(0, len(sizes), 0, sum(sizes.values()))

    def with_running(self, running: Mapping[int, int]) -> Progress:
        """Return the progress with the bytes that running tasks have processed, by their ids."""
        more = sum(min(done, self._sizes[task_id]) for task_id, done in running.items())
        return replace(self.progress, bytes_done=self.progress.bytes_done + more)

    def add(self, task_id: int) -> None:
        """Count a task that has ended."""
        now = self.progress
        done = now.bytes_done + self._sizes[task_id]
        self.progress = Progress(now.tasks_done + 1, now.tasks_total, done, now.bytes_total)


def open_tasks(tasks: Iterable[Task[P]]) -> tuple[Iterator[Task[P]], TaskCounter]:
    """Return the tasks as an iterator, and a counter for them."""
    if isinstance(tasks, LazyTasks):
        sizes = tasks.weights if tasks.sizes is None else tasks.sizes
        return iter(tasks), TaskCounter(dict(enumerate(sizes)), sum(tasks.weights))
    listed = list(tasks)
    weights = {task.id: task.weight_bytes for task in listed}
    return iter(listed), TaskCounter(weights, sum(weights.values()))


def as_stream(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow stream, for the payload of a task."""
    import pyarrow as pa

    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
