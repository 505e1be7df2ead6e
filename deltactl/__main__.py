"""The entry point of ``deltactl`` and ``python -m deltactl``."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_exit_codes: list[int] = []


def main() -> NoReturn:
    """Run the program on the command line, and exit."""
    # With the default thresholds the collector scans the values of a long history many times, and
    # before that the objects of all modules.
    gc.set_threshold(200_000, 50, 50)
    # The imports below take a part of a second, in which Ctrl-C would print a traceback.
    before = signal.signal(signal.SIGINT, _end_at_once)
    end_quickly()  # before the import, because the modules register exit functions
    from deltactl.cli.app import main as run_main

    signal.signal(signal.SIGINT, before)
    try:
        run_main()
    except SystemExit as end:
        if isinstance(end.code, int):
            _exit_codes.append(end.code)
        raise


def _end_at_once(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the process as an interrupted run ends; no work has started."""
    os.write(2, b"error: interrupted\n")
    # Not an exception: an import could handle or print it.
    os._exit(128 + signal.SIGINT)


def end_quickly() -> None:
    """Let the process end after the last exit function, without the teardown of modules.

    The interpreter waits for threads, then calls the exit functions, the last registered first.
    Then it frees every object of every module, which takes longer than most of the commands write,
    although the kernel frees the memory anyway.

    If another program registered an exit function before, such as a tool that measures coverage,
    this does nothing, because that function would not be called.
    """
    count = getattr(atexit, "_ncallbacks", None)
    if count is not None and count() == 0:
        atexit.register(_end_process)


def _end_process() -> None:
    if not _exit_codes:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # the interpreter reports the error
    os._exit(_exit_codes[-1])


if __name__ == "__main__":
    main()
