"""Define exit statuses in one table, which every ``--help`` shows."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from deltactl.errors import FROM_WORST


class ExitCode(IntEnum):
    """Exit statuses of the process. Errors have their own (see ``deltactl.errors``)."""

    DONE = 0
    FAILURE = 1
    USAGE = 2
    WORK_NEEDED = 3
    CONFLICT = 4
    PARTIAL = 5
    REFUSED = 6
    UNSUPPORTED_FEATURE = 7
    STORAGE = 8
    ENGINE_UNAVAILABLE = 9
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


MEANINGS: Final = {
    ExitCode.DONE: "done, or nothing to do",
    ExitCode.FAILURE: "the run failed",
    ExitCode.USAGE: "an option, an argument or a setting is wrong",
    ExitCode.WORK_NEEDED: "a check found a problem, or work is needed",
    ExitCode.CONFLICT: "conflict with another writer or deltactl run; you can rerun the command",
    ExitCode.PARTIAL: "only a part of the work is done, for example because of --timeout",
    ExitCode.REFUSED: "a safety rule refused the run",
    ExitCode.UNSUPPORTED_FEATURE: "the table has a feature that deltactl does not support",
    ExitCode.STORAGE: "a request to the storage failed, or the credentials are wrong",
    ExitCode.ENGINE_UNAVAILABLE: "the requested engine is not available",
    ExitCode.INTERRUPTED: "Ctrl-C (SIGINT), or end of input",
    ExitCode.BROKEN_PIPE: "the reader of stdout closed the pipe (SIGPIPE)",
    ExitCode.TERMINATED: "stopped by SIGTERM/SIGHUP, or ended 5min after --timeout",
}

IN_SHORT: Final = "Exit status: 0 done, 1 failed, 2 wrong usage, 3 work needed; more in --help-all"


_WORDS: Final = {
    ExitCode.DONE: "done",
    ExitCode.WORK_NEEDED: "needed",
    ExitCode.CONFLICT: "conflict",
    ExitCode.PARTIAL: "partial",
    ExitCode.REFUSED: "refused",
    ExitCode.INTERRUPTED: "stopped",
    ExitCode.TERMINATED: "stopped",
}


def status_word(exit_code: int) -> str:
    """Return an exit status in one word; those without a word of their own are failures."""
    return next((word for code, word in _WORDS.items() if code == exit_code), "failed")


def find_worst(codes: Iterable[int]) -> int:
    """Return the exit status of several runs: the worst one."""
    present = set(codes)
    order = (*FROM_WORST, ExitCode.WORK_NEEDED, ExitCode.DONE)
    unknown = present.difference(order)
    return max(unknown) if unknown else next(code for code in order if code in present)
