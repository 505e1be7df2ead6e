"""Signals: how a run is asked to stop."""

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
from deltactl.errors import InterruptedRunError

_Handler = Callable[[int, FrameType | None], Any]


class Terminated(BaseException):
    """SIGTERM arrived; not an ``Exception``, so that nothing on the way up keeps it."""


@dataclass(slots=True)
class Cancellation:
    """What a run needs to stop in good order: the token for engines, and the signal's number."""

    token: CancelToken = field(default_factory=threading.Event)
    signal_number: int | None = None

    def raise_if_cancelled(self, message: str = "interrupted", *, hint: str | None = None) -> None:
        """End the run as its signal asks.

        Raises:
            InterruptedRunError: a signal arrived.
        """
        if self.signal_number is not None:
            raise InterruptedRunError(message, signal_number=self.signal_number, hint=hint)


@contextmanager
def cancel_on_signals(notify: Callable[[str], None] | None = None) -> Iterator[Cancellation]:
    """Turn the first SIGINT or SIGTERM into a cancelled token; a second one aborts at once.

    ``notify`` is told once what happens. Outside the main thread, where Python hands out no
    signals, the token is simply never cancelled.
    """
    cancellation = Cancellation()

    def handle(number: int, _frame: FrameType | None) -> None:
        if cancellation.signal_number is not None:
            _abort(number)
        cancellation.signal_number = number
        cancellation.token.set()
        if notify is not None:
            notify("stopping; what is finished will be kept (signal again to abort at once)")

    with _handlers({signal.SIGINT: handle, signal.SIGTERM: handle}):
        yield cancellation


@contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack as SIGINT does, instead of ending the process where it is."""

    def handle(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    with _handlers({signal.SIGTERM: handle}):
        yield


def _abort(number: int) -> NoReturn:
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
