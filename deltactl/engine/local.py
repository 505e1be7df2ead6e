"""Run tasks on threads of this process. Arrow decodes and encodes without Python's GIL."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from deltactl.engine.base import (
    CancelToken,
    Done,
    Failed,
    OnProgress,
    P,
    R,
    Task,
    Worker,
)
from deltactl.engine.tasks import open_tasks


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Run at most ``workers`` tasks at once; their total memory is at most ``memory_bytes``.

    A task that needs more memory than this runs alone. Tasks that wait for a server can run in
    addition, up to ``with_waiting`` tasks in all.
    """

    workers: int = field(default_factory=count_cores)
    memory_bytes: int | None = None
    reason: str = "given by the caller"
    with_waiting: int | None = None

    @property
    def name(self) -> str:
        """Return ``local``."""
        return "local"

    @property
    def leaves_orphans(self) -> bool:
        """Return false: each task is tried once, and removes its own partial outputs."""
        return False

    def run(
        self,
        worker: Worker[P, R],
        tasks: Iterable[Task[P]],
        *,
        cancel: CancelToken | None = None,
        on_progress: OnProgress | None = None,
    ) -> Iterator[Done[R] | Failed]:
        """See :class:`deltactl.engine.base.Engine`. Closing the iterator waits for tasks."""
        waiting, counter = open_tasks(tasks)
        running: dict[Future[R], Task[P]] = {}
        following = next(waiting, None)
        with ThreadPoolExecutor(self._most, thread_name_prefix="deltactl") as pool:
            while True:
                cancelled = cancel is not None and cancel.is_set()
                while following is not None and not cancelled and self._fits(following, running):
                    running[pool.submit(worker, following.payload, 0)] = following
                    following = next(waiting, None)
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    task = running.pop(future)
                    counter.add(task.id)
                    if on_progress is not None:
                        on_progress(counter.progress)
                    yield _outcome(task.id, future)

    def _fits(self, task: Task[P], running: dict[Future[R], Task[P]]) -> bool:
        if not running:
            return True
        together = [task, *running.values()]
        if len(together) > (self._most if task.waits else self.workers):
            return False
        held = sum(t.weight_bytes for t in together)
        return self.memory_bytes is None or held <= self.memory_bytes

    @property
    def _most(self) -> int:
        """Return the maximum number of tasks at once, with the tasks that wait for a server."""
        return max(self.workers, self.with_waiting or 0)


def _outcome(task_id: int, future: Future[R]) -> Done[R] | Failed:
    error = future.exception()
    if error is None:
        return Done(task_id, 0, future.result())
    if isinstance(error, Exception):
        return Failed(task_id, 0, error)
    raise error
