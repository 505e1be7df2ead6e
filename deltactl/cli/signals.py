"""Stop a run after a signal or when its time limit is over."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

from deltactl.engine.base import CancelToken
from deltactl.errors import DeltactlError, InterruptedRunError, TimeLimitError
from deltactl.units import format_duration

GRACE_MS = 5 * 60 * 1000
"""How long a run may take to stop after its time limit."""

_Handler = Callable[[int, FrameType | None], Any]


class Terminated(BaseException):
    """SIGTERM arrived; not an ``Exception``, so that no ``except Exception`` catches it."""


@dataclass(slots=True)
class Cancellation:
    """A request to stop: the token for engines, and its cause.

    ``signal_number`` is that of the first signal; ``expired_ms`` the time limit, once it is over.
    ``is_idle`` while no work is running: then the run stops without a message.
    """

    token: CancelToken = field(default_factory=threading.Event)
    signal_number: int | None = None
    expired_ms: int | None = None
    is_idle: bool = False

    def find_error(
        self, message: str = "interrupted", *, hint: str | None = None, is_part_done: bool = False
    ) -> DeltactlError | None:
        """Return the error for a signal or the time limit; ``None`` while there was neither.

        ``message`` begins with "interrupted"; for a time limit this word is replaced.
        ``is_part_done``: whether anything was finished.
        """
        if self.signal_number is not None:
            return InterruptedRunError(
                message, signal_number=self.signal_number, is_part_done=is_part_done, hint=hint
            )
        if self.expired_ms is not None:
            reason = f"stopped by --timeout {format_duration(self.expired_ms)}"
            said = message.replace("interrupted", reason, 1)
            return TimeLimitError(said, hint=hint, is_part_done=is_part_done)
        return None

    def raise_if_cancelled(
        self, message: str = "interrupted", *, hint: str | None = None, is_part_done: bool = False
    ) -> None:
        """Raise the error for a signal or the time limit, if there was one; see ``find_error``.

        Raises:
            InterruptedRunError: a signal arrived.
            TimeLimitError: the time is up.
        """
        error = self.find_error(message, hint=hint, is_part_done=is_part_done)
        if error is not None:
            raise error


@contextmanager
def cancel_on_signals(
    notify: Callable[[str], None] | None = None, cancellation: Cancellation | None = None
) -> Iterator[Cancellation]:
    """Cancel the token at the first SIGINT or SIGTERM; abort at once at the second.

    ``notify`` gets one message about it. Outside the main thread Python delivers no signals: there
    only others with the same ``cancellation`` can cancel the token.
    """
    cancellation = cancellation or Cancellation()

    def handle(number: int, _frame: FrameType | None) -> None:
        if cancellation.signal_number is not None:
            abort(number)
        cancellation.signal_number = number
        # Not in this thread: if it is just in a call of the token, it holds the lock of the token.
        threading.Thread(target=cancellation.token.set, daemon=True).start()
        if notify is not None and not cancellation.is_idle:
            notify("stopping; finished work is kept (send the signal again to abort at once)")

    with _handlers({signal.SIGINT: handle, signal.SIGTERM: handle}):
        try:
            yield cancellation
        except InterruptedRunError as error:
            # Raised by code that knows the token, but not the cause.
            cancellation.raise_if_cancelled(
                error.message, hint=error.hint, is_part_done=error.is_part_done
            )
            raise


@contextmanager
def idling(cancellation: Cancellation) -> Iterator[None]:
    """Mark the run as waiting in this context: it is cancelled without a message."""
    cancellation.is_idle = True
    try:
        yield
    finally:
        cancellation.is_idle = False


@contextmanager
def limit_time(
    cancellation: Cancellation,
    limit_ms: int | None,
    notify: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Cancel after ``limit_ms``, as a first signal does; abort ``GRACE_MS`` later.

    A thread waits for it: a signal handler would not run during a long call of the main thread.
    """
    if limit_ms is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        if over.wait(limit_ms / 1000):
            return
        cancellation.expired_ms = limit_ms
        if notify is not None and not cancellation.is_idle:
            notify(f"the time is up; stopping within {format_duration(GRACE_MS)}")
        cancellation.token.set()
        if not over.wait(GRACE_MS / 1000):
            abort(signal.SIGTERM)

    watcher = threading.Thread(target=watch, name="deltactl-timeout", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack as SIGINT does, instead of ending the process at once."""

    def handle(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    with _handlers({signal.SIGTERM: handle}):
        yield


def abort(number: int) -> NoReturn:
    """End the process at once, with the exit status of a signal."""
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\n")  # a progress bar may have hidden the cursor
    # Not sys.exit: that would wait for the threads that should be aborted.
    os._exit(128 + number)


@contextmanager
def _handlers(wanted: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup sets
        end = wanted[signal.SIGTERM]
        wanted = {**wanted, signal.SIGHUP: lambda _, frame: end(signal.SIGTERM, frame)}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: not installed by Python, and cannot be restored
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
