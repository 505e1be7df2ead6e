"""Outcomes for CI as GitHub's runners read them: annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deltactl.cli.exits import ExitCode
from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.text import safe_text

_WORK_IS_NEEDED: Final = "work is needed"
_FOUND: Final = {"check": "something is wrong"}  # where exit status 3 is not about work


def iterate_annotations(outcome: TableOutcome, command: str) -> Iterator[str]:
    """Give workflow commands: an error or warning for the table, and its warnings.

    Source: GitHub Actions, "Workflow commands": how messages and properties are escaped.
    """
    title = f"deltactl {command}"
    for warning in outcome.envelope.warnings:
        yield annotate("warning", title, f"{outcome.table}: {warning}")
    text = f"{outcome.table}: {outcome.message}"
    error = outcome.envelope.error
    if error is not None:
        yield annotate("error", f"{title}: {error.code}", text)
    elif outcome.exit_code == ExitCode.WORK_NEEDED:
        yield annotate("error", f"{title}: {_FOUND.get(command, _WORK_IS_NEEDED)}", text)
    else:
        yield annotate("notice", title, text)


def annotate(level: str, title: str, message: str) -> str:
    """Give one workflow command."""
    shown = _escape_data(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={shown}::{_escape_data(message)}"


def _escape_data(text: str) -> str:
    # Line ends would end the command, and begin one of the table's choice.
    return safe_text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
