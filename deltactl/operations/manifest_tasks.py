"""Writing many manifests: side by side, bounded, and again where a store asks for patience."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from deltactl.engine.base import CancelToken
from deltactl.errors import StorageError
from deltactl.log.put_commit import Sleep
from deltactl.storage.store import Store

# Each waits for a disk's flush or a network; more would only earn refusals for going too fast.
_WRITES_AT_ONCE: Final = 16
_ATTEMPTS: Final = 6
_FIRST_PAUSE_S: Final = 0.25


def write_all(
    store: Store,
    files: Iterable[tuple[str, bytes]],
    *,
    sleep: Sleep,
    cancel: CancelToken | None = None,
) -> int:
    """Write or replace each file; give how many. None is started after ``cancel`` is set.

    A store that says "slow down" slows all writers down: who waits holds the others back.

    All are durable when it returns. The folders are flushed together at the end: one by one that
    is three flushes a file, and most of the time. A crash before leaves each file old or new.

    Raises:
        StorageError: a file could not be written; those before it may have been.
    """
    pace = _Pace(sleep)
    waiting: deque[Future[None]] = deque()
    names: list[str] = []
    with ThreadPoolExecutor(_WRITES_AT_ONCE, thread_name_prefix="deltactl-manifest") as pool:
        try:
            for name, data in files:
                if cancel is not None and cancel.is_set():
                    break
                waiting.append(pool.submit(_write, store, name, data, pace))
                names.append(name)
                if len(waiting) >= 2 * _WRITES_AT_ONCE:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
    store.sync_folders(names)
    return len(names)


class _Pace:
    """Lets all go on, or all wait for the one that was told to."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._lock = threading.Lock()

    def keep(self) -> None:
        with self._lock:
            pass

    def wait(self, failures: int) -> None:
        with self._lock:
            self._sleep(_FIRST_PAUSE_S * 2**failures)


def _write(store: Store, name: str, data: bytes, pace: _Pace) -> None:
    for failures in range(_ATTEMPTS):
        pace.keep()
        try:
            store.put(name, data, syncs_folder=False)
            return
        except StorageError as error:
            # The same content again: a try that landed unseen does no harm.
            if not error.retryable or failures + 1 == _ATTEMPTS:
                raise
            pace.wait(failures)
