"""Exit statuses: one table, shown by every ``--help``."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


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
    ExitCode.FAILURE: "failure",
    ExitCode.USAGE: "wrong usage",
    ExitCode.WORK_NEEDED: "a check failed, or work is needed",
    ExitCode.CONFLICT: "conflict with a concurrent writer; rerun is safe",
    ExitCode.PARTIAL: "partial success, or stopped by --timeout",
    ExitCode.REFUSED: "refused by a safety rule",
    ExitCode.UNSUPPORTED_FEATURE: "unsupported table feature",
    ExitCode.STORAGE: "storage or credentials",
    ExitCode.ENGINE_UNAVAILABLE: "engine unavailable",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.BROKEN_PIPE: "the reader of stdout closed the pipe (SIGPIPE)",
    ExitCode.TERMINATED: "terminated",
}


# First failures that need a person, then those that a rerun finishes, then what is no failure.
_FROM_WORST: Final = (
    ExitCode.INTERRUPTED,
    ExitCode.TERMINATED,
    ExitCode.FAILURE,
    ExitCode.STORAGE,
    ExitCode.UNSUPPORTED_FEATURE,
    ExitCode.REFUSED,
    ExitCode.ENGINE_UNAVAILABLE,
    ExitCode.USAGE,
    ExitCode.PARTIAL,
    ExitCode.CONFLICT,
    ExitCode.WORK_NEEDED,
    ExitCode.DONE,
)


def find_worst(codes: Iterable[int]) -> int:
    """Return the exit status of several runs: the worst one."""
    present = set(codes)
    unknown = present.difference(_FROM_WORST)
    return max(unknown) if unknown else next(c for c in _FROM_WORST if c in present)


def render_exit_status() -> str:
    r"""Return the table for the end of a help text; ``\b`` keeps its line breaks there."""
    rows = (f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())
    return "\b\nExit status:\n" + "\n".join(rows)
