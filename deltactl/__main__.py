"""The entry point of ``deltactl`` and ``python -m deltactl``."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    """Run the program on the command line, and exit."""
    if sys.getfilesystemencoding() != "utf-8":
        _start_again()
    # With the default thresholds the collector scans the values of a long history many times, and
    # before that the objects of all modules.
    gc.set_threshold(200_000, 50, 50)
    # The imports below take a part of a second, in which Ctrl-C would print a traceback.
    before = {
        number: signal.signal(number, _end_at_once)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN  # which nohup sets
    }
    from deltactl.cli.app import main as run_main

    for number, handler in before.items():
        signal.signal(number, handler)
    run_main()


def _start_again() -> None:
    """Replace this process by the same one in Python's UTF-8 mode; return if that did not help.

    The names of files are UTF-8 in the log and for Arrow, whatever the locale. The process keeps
    its id, its arguments, and what it inherited; processes that it starts are in this mode too.
    """
    if os.environ.get("PYTHONUTF8") != "1" and sys.executable:
        os.environ["PYTHONUTF8"] = "1"
        with suppress(OSError):  # local stores then refuse
            os.execv(sys.executable, sys.orig_argv)


def _end_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    """End the process as an interrupted run ends; no work has started."""
    is_interrupt = number == signal.SIGINT
    os.write(2, b"error: interrupted\n" if is_interrupt else b"error: terminated\n")
    # Not an exception: an import could handle or print it.
    os._exit(128 + (signal.SIGINT if is_interrupt else signal.SIGTERM))


if __name__ == "__main__":
    main()
