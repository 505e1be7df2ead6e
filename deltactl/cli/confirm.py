"""Ask for confirmation on the terminal before a change that cannot be undone."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable
from typing import Final

import typer

from deltactl.cli.output.sections import Section
from deltactl.cli.output.text import safe_text
from deltactl.cli.session import Session
from deltactl.errors import SafetyError

_SECONDS_BETWEEN_LOOKS: Final = 0.1
_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False, "": False}


def can_ask(session: Session) -> bool:
    """Return whether there is a terminal on which to ask."""
    return not session.shares_process and sys.stdin.isatty()


def ask(session: Session, question: str, show: Iterable[Section] = ()) -> bool:
    """Show the plan, and return whether the user answers yes.

    While the question is open, a signal or the time limit ends the run.

    Raises:
        SafetyError: there is no terminal.
        InterruptedRunError: a signal arrived.
        TimeLimitError: the time is up.
        Abort: stdin has ended.
    """
    if not can_ask(session):
        raise SafetyError(
            f"there is no terminal for a confirmation, and --yes was not given: {question}",
            hint="Rerun with --dry-run to see the plan, then rerun with --yes. Nothing was "
            "changed.",
        )
    session.raise_if_cancelled()
    with session.idling(), session.output.clearing():
        session.output.print_aside(show)
        try:
            return _ask_until_answered(session, safe_text(session.label(question)))
        except BaseException:
            _write(session, "\n")  # the error message starts on a new line
            raise


def _ask_until_answered(session: Session, question: str) -> bool:
    while True:
        _write(session, f"{question} [y/N]: ")
        answer = _ANSWERS.get(_read_line(session).strip().lower())
        if answer is not None:
            return answer
        _write(session, "Answer y or n.\n")


def _write(session: Session, text: str) -> None:
    session.output.stderr.write(text)
    session.output.stderr.flush()


def _read_line(session: Session) -> str:
    """Return a line of input; unlike a plain read, stop at a signal or the time limit."""
    while not _has_line():
        session.raise_if_cancelled()
    line = sys.stdin.readline()
    session.raise_if_cancelled()  # the answer came too late
    if not line:
        raise typer.Abort
    return line


def _has_line() -> bool:
    try:
        return bool(select.select([sys.stdin], [], [], _SECONDS_BETWEEN_LOOKS)[0])
    except (OSError, ValueError):  # stdin does not support select: read it
        return True
