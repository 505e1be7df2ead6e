"""Let a task of the local engine say that it no longer needs its core."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Final

from deltactl.engine.base import P, R, Worker

_of_thread: Final = threading.local()


def leave_core() -> None:
    """Let the engine start another task: from now on the running task waits for the storage.

    The rest of the task must need little processor time. A worker may call it at any time, also
    repeatedly; it has an effect only on the local engine.
    """
    left: Future[None] | None = getattr(_of_thread, "left", None)
    if left is not None:
        with suppress(InvalidStateError):  # it was called before
            left.set_result(None)


def run_on_core(worker: Worker[P, R], payload: P, left: Future[None]) -> R:
    """Run a worker; complete ``left`` when the worker calls ``leave_core``."""
    _of_thread.left = left
    try:
        return worker(payload, 0)
    finally:
        _of_thread.left = None
