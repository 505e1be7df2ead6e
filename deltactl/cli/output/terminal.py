"""Find the width and the colours of a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TextIO

from deltactl.cli.output.sections import Tone

if TYPE_CHECKING:
    from deltactl.cli.output.page import Page

_STYLES: Final = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.GOOD: "green",
    Tone.CAUTION: "yellow",
    Tone.BAD: "bold red",
    Tone.FAINT: "dim",
}


def terminal_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Return the width in columns: ``COLUMNS``, else that of the terminal, else 80."""
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # a pipe, or not a file
        return 80


def has_width(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether text must fit a width: not in a pipe or a file, unless ``COLUMNS`` is set."""
    return stream.isatty() or bool(environ.get("COLUMNS"))


def has_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to print colours: by ``NO_COLOR``, ``FORCE_COLOR``, then ``isatty``."""
    if environ.get("NO_COLOR"):
        return False
    forced = environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return environ.get("TERM") != "dumb" and stream.isatty()


def print_colored(page: Page, stream: TextIO) -> None:
    """Print a page in colour."""
    from rich.console import Console
    from rich.text import Text

    # Only the sixteen standard colours: they follow the theme of the terminal.
    console = Console(
        file=stream,
        force_terminal=True,
        no_color=False,  # already decided; rich would read the environment again
        color_system="standard",
        highlight=False,
    )
    for line in page.lines:
        text = Text.assemble(*((piece.text, _STYLES[piece.tone]) for piece in line))
        text.rstrip()
        console.print(text, soft_wrap=True)
