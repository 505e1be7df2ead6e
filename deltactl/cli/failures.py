"""Convert exceptions that end a run to errors for the user."""

from __future__ import annotations

import signal
import traceback
from typing import Final

import typer

from deltactl.cli.output.output import Output
from deltactl.cli.parsing.argv import PROGRAM
from deltactl.cli.parsing.usage_errors import restate_usage_error
from deltactl.cli.signals import Terminated
from deltactl.errors import DeltactlError, InternalError, InterruptedRunError, OutOfMemoryError

# Messages of errors that mean a lack of memory, but are not a MemoryError.
_NO_MEMORY: Final = ("can't start new thread", "failed to map segment from shared object")


def explain_failure(raised: BaseException) -> DeltactlError:
    """Return the error to report for the exception that ended a run."""
    match raised:
        case DeltactlError():
            return raised
        case Exception() if cause := _find_interruption(raised):
            return explain_failure(cause)
        case typer.TyperException():
            return restate_usage_error(raised, PROGRAM)
        case KeyboardInterrupt() | typer.Abort():
            return InterruptedRunError("interrupted")
        case Terminated():
            return InterruptedRunError("terminated", signal_number=signal.SIGTERM)
        case MemoryError():
            return OutOfMemoryError("out of memory")
        case _ if any(words in str(raised) for words in _NO_MEMORY):
            return OutOfMemoryError(f"out of memory: {raised}")
        case ImportError():
            return DeltactlError(
                f"a Python package cannot be loaded: {raised}",
                hint="Install deltactl in a new virtual environment.",
            )
        case _:
            return InternalError(
                f"this is a bug in deltactl: {type(raised).__name__}: {raised}",
                hint="Rerun with --debug, and report the output.",
            )


def _find_interruption(raised: BaseException) -> BaseException | None:
    """Return the interruption that an import converted to another error."""
    cause = raised.__cause__ or raised.__context__
    if cause is None or isinstance(cause, KeyboardInterrupt | Terminated):
        return cause
    return _find_interruption(cause)


def show_traceback(output: Output, raised: BaseException) -> None:
    """Print the traceback of an error."""
    output.debug("".join(traceback.format_exception(raised)))
