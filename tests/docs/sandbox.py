"""A folder with the sample tables, where commands of a page run as they stand there."""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deltactl.cli.app import run

# What pages call the folder of the tables, on disks and on object stores.
PLACES = ("/data", "s3://lake", "s3a://lake", "/var/log")
_SHELL = set("|<>;&$`*?(){}~")
_VARYING = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (r"\b\d{8}T\d{6}Z?(-[0-9a-f]{8})?\b", "<run>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?", "<time>"),
    # Days in tables are older, those of files are younger.
    (r"\b(202[6-9]|20[3-9]\d)-\d\d-\d\d\b", "<day>"),
    # Parquet files of another version of Arrow have other sizes.
    (r"(?<![\w.])[\d,.]+ ?(B|KiB|MiB|GiB)\b", "<size>"),
    (r"(?<=[+-])[\d.]+(B|K|M|G)\b", "<size>"),
    (r'(?<=bytes": )\d+', "<size>"),
    (r"\b(just )?now\b|\b\d+(\.\d+)? ?(ms|s)\b( ago)?", "<time taken>"),
    # An age that is shorter leaves more room for the name of a writer.
    (r"\bdeltactl( [\d.]+)?\.\.\.", "deltactl..."),
    (r"\(pid \d+\)|process \d+", "<process>"),
)


class Screen(io.TextIOWrapper):
    """A terminal that only remembers."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode("utf-8")


@dataclass(frozen=True)
class Typed:
    """A command at the prompt, the lines it takes up there, and what a page shows below it."""

    command: str
    lines: list[str]
    shown: str


@dataclass
class Sandbox:
    """Runs commands in a folder, and remembers how the last one ended."""

    folder: Path
    status: int = field(default=0, init=False)

    def place(self, text: str) -> str:
        """A text with the addresses of this folder instead of those that pages have."""
        for name in PLACES:
            text = re.sub(rf"(?<![\w/]){re.escape(name)}(?=[/'\" \n]|$)", str(self.folder), text)
        return text

    def run(self, command: str) -> str:
        """Run a command line; what it prints, errors included."""
        command = without_comment(command)
        if command == "echo $?":
            return f"{self.status}\n"
        command = self.place(command)
        if _SHELL & set(re.sub("'[^']*'|\\\"[^\\\"$`]*\\\"", "", command)):
            return self._run_shell(command)
        words = shlex.split(command)
        settings = [words.pop(0).split("=", 1) for _ in words if re.match(r"[A-Z_]+=", words[0])]
        if words[:1] != ["deltactl"]:
            return self._run_shell(command)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings:
                patch.setenv(name, value)
            return self._run_here(words[1:])

    def _run_here(self, words: list[str]) -> str:
        screen = Screen()
        with redirect_stdout(screen), redirect_stderr(screen):
            self.status = run(words)
        return screen.text

    def _run_shell(self, command: str) -> str:
        program = self.folder.parent / "bin" / "deltactl"
        if not program.exists():
            program.parent.mkdir(exist_ok=True)
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -m deltactl "$@"\n')
            program.chmod(0o755)
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env={
                **os.environ,
                "COLUMNS": "80",
                "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        self.status = done.returncode
        return done.stdout

    def unplace(self, text: str) -> str:
        """What was printed, with the addresses that pages have."""
        return text.replace(str(self.folder), "/data")


def without_comment(line: str) -> str:
    return re.sub(r"\s# .*$", "", line).strip()


def read_screen(text: str) -> list[Typed]:
    """Take a console block apart: lines after ``$ `` are typed, the others are answers."""
    typed: list[Typed] = []
    lines = text.splitlines()
    while lines:
        source = [lines.pop(0)]
        if not source[0].startswith("$ "):
            raise ValueError(f"a console block begins with `$ `, and not with {source[0]!r}")
        while source[-1].endswith("\\"):
            source.append(lines.pop(0))
        command = re.sub(r"\\\n\s*", " ", "\n".join(source))[2:]
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        typed.append(Typed(command, source, "\n".join(shown)))
    return typed


def read_commands(text: str) -> list[str]:
    """The command lines of a block of shell, without comments and empty lines."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def normalise(text: str) -> list[str]:
    """Lines in which only what must differ from run to run is taken out, and padding with it."""
    for pattern, instead in _VARYING:
        text = re.sub(pattern, instead, text)
    lines = [re.sub(r" {2,}", "  ", line).strip() for line in text.strip("\n").splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def is_shown(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed; ``...`` alone on a line stands for any lines.

    Lines may end elsewhere: paths of this folder, which are wrapped, are longer than in the page.
    """
    lines, words = normalise(shown), " ".join(normalise(shown)).split()
    return _is_like(lines, normalise(printed)) or _is_like(
        words, " ".join(normalise(printed)).split()
    )


def _is_like(shown: list[str], printed: list[str]) -> bool:
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == "...":
            parts.append([])
        else:
            parts[-1].append(line)
    pattern = r"(?:.*\n)+".join("".join(re.escape(f"{line}\n") for line in part) for part in parts)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None
