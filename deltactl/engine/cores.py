"""Share the cores of this machine between the tasks of the local engine.

A task says that it no longer needs its core, and asks how many cores it may use. It also says how
many bytes it has processed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from deltactl.engine.base import P, R, Worker

_of_thread: Final = threading.local()


@dataclass(slots=True)
class Cores:
    """The cores of a run of the local engine, which alone changes these numbers.

    Attributes:
        total: the cores that all tasks together may use.
        busy: the tasks that use a core.
        waiting: the tasks that have not started.
    """

    total: int
    busy: int = 0
    waiting: int = 0


@dataclass(slots=True)
class Place:
    """The place of a task in a run. ``released`` is done when the task called ``release_core``."""

    cores: Cores
    released: Future[None] = field(default_factory=Future)
    bytes_done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_bytes(self, count: int) -> None:
        """Count bytes that the task has processed, from any thread."""
        with self._lock:
            self.bytes_done += count


def release_core() -> None:
    """Let the engine start another task: from now on the running task waits for the storage.

    The rest of the task must need little processor time. A worker may call it at any time, also
    repeatedly; it has an effect only on the local engine.
    """
    place = _find_place()
    if place is not None:
        with suppress(InvalidStateError):  # it was called before
            place.released.set_result(None)


def find_byte_counter() -> Callable[[int], None]:
    """Return a function that counts bytes which the running task has processed, for the progress.

    It may be called from any thread, and has an effect only on the local engine.
    """
    place = _find_place()
    return _count_nothing if place is None else place.add_bytes


def _count_nothing(_count: int) -> None:
    """Ignore the bytes."""


def count_own_cores() -> int:
    """Return how many cores the running task may use now: more than one if no task waits."""
    place = _find_place()
    if place is None or place.cores.waiting:
        return 1
    return max(1, place.cores.total // max(place.cores.busy, 1))


def may_get_cores() -> bool:
    """Return whether ``count_own_cores`` may become more than one before the running task ends."""
    place = _find_place()
    return place is not None and place.cores.waiting < place.cores.total > 1


def run_on_core(worker: Worker[P, R], payload: P, place: Place) -> R:
    """Run a worker that has a place in a run."""
    _of_thread.place = place
    try:
        return worker(payload, 0)
    finally:
        _of_thread.place = None


def _find_place() -> Place | None:
    place: Place | None = getattr(_of_thread, "place", None)
    return place
