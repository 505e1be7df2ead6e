"""Signals and the time limit: how a run is asked to stop."""

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

_Handler = Callable[[int, FrameType | None], Any]


class Terminated(BaseException):
    """SIGTERM arrived; not an ``Exception``, so that nothing on the way up keeps it."""


@dataclass(slots=True)
class Cancellation:
    """What a run needs to stop in good order: the token for engines, and who asked for it.

    ``signal_number`` is that of the first signal; ``expired_ms`` the time limit, once it is over.
    ``is_idle`` while nothing is at work that would be finished first, and nothing is said of it.
    """

    token: CancelToken = field(default_factory=threading.Event)
    signal_number: int | None = None
    expired_ms: int | None = None
    is_idle: bool = False

    def find_error(
        self,
        message: str = "interrupted",
        *,
        hint: str | None = None,
        is_part_done: bool = False,
    ) -> DeltactlError | None:
        """Give the error that a signal or the time limit asks for; ``None`` while neither came.

        ``message`` begins with "interrupted"; a time limit says so in its place.
        ``is_part_done`` tells whether anything was finished.
        """
        if self.signal_number is not None:
            return InterruptedRunError(
                message,
                signal_number=self.signal_number,
                is_part_done=is_part_done,
                hint=hint,
            )
        if self.expired_ms is not None:
            reason = f"stopped by --timeout {format_duration(self.expired_ms)}"
            said = message.replace("interrupted", reason, 1)
            return TimeLimitError(said, hint=hint, is_part_done=is_part_done)
        return None

    def raise_if_cancelled(
        self,
        message: str = "interrupted",
        *,
        hint: str | None = None,
        is_part_done: bool = False,
    ) -> None:
        """End the run as its signal or time limit asks; see ``find_error``.

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
    """Turn the first SIGINT or SIGTERM into a cancelled token; a second one aborts at once.

    ``notify`` is told once what happens. Outside the main thread, where Python hands out no
    signals, the token is cancelled by others that hold the same ``cancellation``, if at all.
    """
    cancellation = cancellation or Cancellation()

    def handle(number: int, _frame: FrameType | None) -> None:
        if cancellation.signal_number is not None:
            abort(number)
        cancellation.signal_number = number
        cancellation.token.set()
        if notify is not None and not cancellation.is_idle:
            notify("stopping; finished work is kept (signal again to abort at once)")

    with _handlers({signal.SIGINT: handle, signal.SIGTERM: handle}):
        try:
            yield cancellation
        except InterruptedRunError as error:  # raised by who knows the token, and not the reason
            cancellation.raise_if_cancelled(
                error.message, hint=error.hint, is_part_done=error.is_part_done
            )
            raise


@contextmanager
def idling(cancellation: Cancellation) -> Iterator[None]:
    """Let whoever waits in this context, and works on nothing, be cancelled without a word."""
    cancellation.is_idle = True
    try:
        yield
    finally:
        cancellation.is_idle = False


@contextmanager
def limit_time(
    cancellation: Cancellation,
    limit_ms: int | None,
    grace_ms: int,
    notify: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Cancel once ``limit_ms`` are over, as a first signal does; abort ``grace_ms`` later.

    A thread watches: a signal would wait for whatever long call the main thread is in.
    """
    if limit_ms is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        if over.wait(limit_ms / 1000):
            return
        cancellation.expired_ms = limit_ms
        cancellation.token.set()
        if notify is not None and not cancellation.is_idle:
            notify(f"the time is up; stopping within {format_duration(grace_ms)}")
        if not over.wait(grace_ms / 1000):
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
    """Let SIGTERM unwind the stack as SIGINT does, instead of ending the process where it is."""

    def handle(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    with _handlers({signal.SIGTERM: handle}):
        yield


def abort(number: int) -> NoReturn:
    """End the process at once, with the exit status of a signal."""
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\n")  # a progress bar may have hidden the cursor
    # Not sys.exit: that would wait for the threads which the user is tired of waiting for.
    os._exit(128 + number)


@contextmanager
def _handlers(wanted: Mapping[signal.Signals, _Handler]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            # None: installed by something other than Python, and out of reach
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
