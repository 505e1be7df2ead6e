"""Run tasks on threads of this process. Arrow decodes and encodes without Python's GIL."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic

from deltactl.engine.base import CancelToken, Done, Engine, Failed, OnProgress, P, R, Task, Worker
from deltactl.engine.cores import Cores, Place, run_on_core
from deltactl.engine.tasks import open_tasks
from deltactl.errors import UsageError
from deltactl.option_fields import ensure_declared

_TASKS_PER_WORKER: Final = 4
_PROGRESS_SECONDS: Final = 0.5


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class LocalEngine(Engine):
    """Run at most ``workers`` tasks at once; their total memory is at most ``memory_bytes``.

    A task that needs more memory than this runs alone. If no task waits, tasks can use the cores
    that are left (see ``count_own_cores``). A task that called ``release_core`` does not
    count as one of the ``workers``, so that another task can start. At most ``max_unfinished``
    tasks are unfinished at once: by default four for each worker.
    """

    workers: int = field(default_factory=count_cores)
    memory_bytes: int | None = None
    reason: str = "given by the caller"
    max_unfinished: int | None = None

    def __post_init__(self) -> None:
        ensure_declared(self)
        if self.workers < 1:
            raise UsageError(f"workers must be at least 1; got {self.workers}")

    @property
    def name(self) -> str:
        """Return ``local``."""
        return "local"

    @property
    def is_local(self) -> bool:
        """Return true."""
        return True

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
        running: dict[Future[R], _Running[P]] = {}
        shown = counter.progress
        pause = None if on_progress is None else _PROGRESS_SECONDS
        cores = Cores(min(self.workers, count_cores()), waiting=counter.progress.tasks_total)
        following = next(waiting, None)
        with (
            ThreadPoolExecutor(self._most, thread_name_prefix="deltactl") as pool,
            _set_after_errors(cancel),
        ):
            while True:
                for entry in running.values():
                    entry.has_core = not entry.place.released.done()
                cores.busy = sum(entry.has_core for entry in running.values())
                cancelled = cancel is not None and cancel.is_set()
                while (
                    following is not None
                    and not cancelled
                    and self._fits(following, running.values())
                ):
                    entry = _Running(following, Place(cores))
                    cores.busy += 1
                    cores.waiting -= 1
                    future = pool.submit(run_on_core, worker, following.payload, entry.place)
                    running[future] = entry
                    following = next(waiting, None)
                if not running:
                    return
                events: list[Future[Any]] = list(running)
                events += [entry.place.released for entry in running.values() if entry.has_core]
                ended, _ = wait(events, pause, return_when=FIRST_COMPLETED)
                if on_progress is not None and not ended:
                    part_done = {e.task.id: e.place.bytes_done for e in running.values()}
                    if (now := counter.with_running(part_done)) != shown:
                        on_progress(shown := now)
                for future in [future for future in running if future in ended]:
                    task = running.pop(future).task
                    counter.add(task.id)
                    if on_progress is not None:
                        part_done = {e.task.id: e.place.bytes_done for e in running.values()}
                        on_progress(shown := counter.with_running(part_done))
                    yield _outcome(task.id, future)

    def _fits(self, task: Task[P], running: Collection[_Running[P]]) -> bool:
        if not running:
            return True
        if len(running) >= self._most or sum(r.has_core for r in running) >= self.workers:
            return False
        held = task.weight_bytes + sum(r.task.weight_bytes for r in running)
        return self.memory_bytes is None or held <= self.memory_bytes

    @property
    def _most(self) -> int:
        """Return the maximum number of unfinished tasks."""
        if self.max_unfinished is None:
            return self.workers * _TASKS_PER_WORKER
        return max(self.workers, self.max_unfinished)


@contextmanager
def _set_after_errors(cancel: CancelToken | None) -> Iterator[None]:
    """Set the token if an error ends the block, but not if the caller needs no more outcomes."""
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException:
        if cancel is not None:
            cancel.set()
        raise


@dataclass(slots=True)
class _Running(Generic[P]):
    """A task that has not ended, and its place.

    ``has_core`` is what the engine last saw: if it decides by this value and then waits for
    ``place.released``, it misses no call of ``release_core``.
    """

    task: Task[P]
    place: Place
    has_core: bool = True


def _outcome(task_id: int, future: Future[R]) -> Done[R] | Failed:
    error = future.exception()
    if error is None:
        return Done(task_id, 0, future.result())
    if isinstance(error, Exception):
        return Failed(task_id, 0, error)
    raise error
