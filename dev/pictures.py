"""``python -m dev.pictures``: pictures for the README from real runs: screens and a report.

Screens are SVG, light and dark. Each command runs in a pseudo-terminal on the sample tables of the
documentation. What it printed is also the ``<desc>`` of the picture, which the tests compare with
a new run.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from dev.hosting import ROOT
from tests.docs.sample import build_tables, prepare

FOLDER: Final = ROOT / "docs" / "pictures"
WIDTH: Final = 96
_ERASE: Final = "\x1b[2K"
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL: Final = re.compile(r"\x1b\[\??[0-9;]*[A-Za-ln-z]|\r")


@dataclass(frozen=True)
class Picture:
    """A screen: what is typed, and what prepares the tables before."""

    name: str
    alt: str
    commands: tuple[str, ...]
    setup: str | None = None


PICTURES: Final = (
    Picture("optimize", "optimize", ("deltactl optimize events",), "fresh"),
    Picture("vacuum", "vacuum --dry-run", ("deltactl vacuum events --dry-run",), "fresh"),
    Picture("check", "check", ("deltactl check events",), "fresh, lost file"),
)
THEMES: Final = {
    "light": TerminalTheme(
        (255, 255, 255),
        (31, 35, 40),
        [
            *((36, 41, 47), (207, 34, 46), (17, 99, 41), (124, 78, 0), (9, 105, 218)),
            *((130, 80, 223), (27, 124, 131), (110, 119, 129)),
        ],
    ),
    "dark": TerminalTheme(
        (13, 17, 23),
        (230, 237, 243),
        [
            *((72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34), (88, 166, 255)),
            *((188, 140, 255), (57, 197, 207), (177, 186, 196)),
        ],
    ),
}
# Rich's own form loads a font from elsewhere, and cuts off what is below the last line of text.
_FORM: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" role="img" \
xmlns="http://www.w3.org/2000/svg">
<title>@title@</title>
<desc>@desc@</desc>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans \
Mono", monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-family: system-ui, sans-serif; font-size: 16px; }}
{styles}
</style>
<defs>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run_in_terminal(command: str, folder: Path) -> str:
    """Return what a command prints on a terminal, with styles; of a bar, one frame."""
    leader, follower = pty.openpty()
    environ = {
        **{name: it for name, it in os.environ.items() if not name.startswith("DELTACTL_")},
        "COLUMNS": str(WIDTH),
        "LINES": "50",
        "TERM": "xterm",
        "DELTACTL_CONFIG": os.devnull,
        "PYTHONPATH": str(ROOT),
    }
    environ.pop("NO_COLOR", None)
    words = [sys.executable, "-m", *command.split()]
    with subprocess.Popen(
        words, cwd=folder, env=environ, stdin=follower, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        printed = b""
        while part := _read(leader):
            printed += part
    os.close(leader)
    assert process.returncode in (0, 3), printed
    return choose_frame(printed.decode("utf-8").replace("\r\n", "\n"))


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # the other end is closed
        return b""


def choose_frame(printed: str) -> str:
    """Return the printed text with one frame of a bar instead of all of them."""
    *frames, last = printed.split(_ERASE)
    drawn = [_CONTROL.sub("", frame).strip("\n") for frame in frames]
    begun = [frame for frame in drawn if re.search(r"[1-9]\d* of \d+ tasks", frame)]
    shown = [frame for frame in begun if not re.search(r"\b(\d+) of \1 tasks", frame)] or begun
    text = _CONTROL.sub("", last)
    return f"{shown[-1]}\n{text}" if shown else text


def plain(text: str) -> str:
    """Return a text without styles."""
    return "\n".join(line.rstrip() for line in _STYLE.sub("", text).splitlines())


def draw(picture: Picture, screen: str, theme: TerminalTheme) -> str:
    """Return the SVG of a screen."""
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    for line in screen.rstrip("\n").split("\n"):
        console.print(Text.from_ansi(line), soft_wrap=True, crop=True)
    said = {"@title@": f"deltactl {picture.alt}", "@desc@": plain(screen)}
    form = _FORM
    for mark, text in said.items():
        form = form.replace(mark, escape(text).replace("{", "{{").replace("}", "}}"))
    svg = console.export_svg(
        title=f"deltactl {picture.alt}", theme=theme, code_format=form, unique_id=picture.name
    )
    svg = svg.replace("rgba(255,255,255,0.35)", "rgba(128,128,128,0.5)")  # seen on both themes
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def take(picture: Picture, folder: Path, run: Callable[[str, Path], str] = run_in_terminal) -> str:
    """Return the screen of a picture."""
    prepare(picture.setup, folder)
    shown = [f"\x1b[1m$ {it}\x1b[0m\n{run(it, folder).strip()}\n" for it in picture.commands]
    return "".join(shown).replace(str(folder), "/data")


def photograph_report(folder: Path) -> None:
    """Write a picture of an HTML report, where a browser is installed."""
    browser = shutil.which("chromium")
    if browser is None:
        print("no chromium: report.png stays as it is", file=sys.stderr)
        return
    prepare("fresh", folder)
    page = folder / "report.html"
    run_in_terminal(f"deltactl optimize events --report {page}", folder)
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    words += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    words += ["--window-size=1000,780", f"--screenshot={FOLDER / 'report.png'}", page.as_uri()]
    subprocess.run([browser, *words], check=True, capture_output=True)


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "data")
        folder.mkdir()
        build_tables(folder)
        for picture in PICTURES:
            screen = take(picture, folder)
            for name, theme in THEMES.items():
                path = FOLDER / f"{picture.name}-{name}.svg"
                path.write_text(draw(picture, screen, theme), "utf-8")
        photograph_report(folder)


if __name__ == "__main__":
    main()
