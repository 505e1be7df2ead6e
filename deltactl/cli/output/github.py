"""Print outcomes as annotations of GitHub Actions (``-o github``)."""

from __future__ import annotations

from collections.abc import Iterator

from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.text import safe_text


def iterate_annotations(outcome: TableOutcome, command: str) -> Iterator[str]:
    """Return workflow commands: an error or a notice for the table, then its warnings.

    See GitHub Actions, "Workflow commands", for how messages and properties are escaped.
    """
    title = f"deltactl {command}"
    text = f"{outcome.table}: {outcome.message}"
    error = outcome.envelope.error
    codes = [*outcome.codes, *([error.code] if error is not None else [])]
    if codes:
        yield annotate("error", f"{title}: {', '.join(codes)}", text)
    else:
        yield annotate("notice", title, text)
    for warning in outcome.envelope.warnings:
        yield annotate("warning", title, f"{outcome.table}: {warning}")


def annotate(level: str, title: str, message: str) -> str:
    """Return one workflow command."""
    shown = _escape_data(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={shown}::{_escape_data(message)}"


def _escape_data(text: str) -> str:
    # A line break would end the command, so a table could inject another one.
    return safe_text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
