"""``deltactl --install-completion``: install the script for the user's shell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import deltactl
from deltactl.errors import DeltactlError, UsageError


class Shell(StrEnum):
    """Shells that have a completion script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


COMPLETION_FILES = {
    Shell.BASH: "deltactl.bash",
    Shell.ZSH: "_deltactl",
    Shell.FISH: "deltactl.fish",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shell finds the script; it needs ``rc_line`` in ``rc_file``."""

    script: Path
    rc_file: Path | None = None
    rc_line: str = ""


def find_script(shell: Shell) -> Path:
    """Return the script of the package, or of the repository if the package is editable."""
    package = Path(deltactl.__file__).parent
    inside = package / "completions" / COMPLETION_FILES[shell]
    return inside if inside.exists() else package.parent / "completions" / inside.name


def install_completion(environ: Mapping[str, str]) -> list[str]:
    """Write the script for the user's shell; return lines that say what was done.

    Running it again replaces the script, and changes nothing else.

    Raises:
        UsageError: there is no script for this shell.
        DeltactlError: a file cannot be written.
    """
    shell = detect_shell(environ)
    place = find_place(shell, environ)
    try:
        place.script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(find_script(shell), place.script)
        added = place.rc_file is not None and _ensure_line(place.rc_file, place.rc_line)
    except OSError as error:
        raise DeltactlError(f"cannot write {error.filename!r}: {error.strerror}") from error
    said = [f"wrote {place.script}"]
    if added:
        said.append(f"added to {place.rc_file}: {place.rc_line}")
    return [*said, f"start a new {shell} to use it"]


def detect_shell(environ: Mapping[str, str]) -> Shell:
    """Return the user's shell, from ``SHELL``.

    Raises:
        UsageError: it is none of those that scripts are written for.
    """
    name = Path(environ.get("SHELL", "")).name
    try:
        return Shell(name)
    except ValueError:
        raise UsageError(
            f"there is no completion for the shell {name!r}"
            if name
            else "the shell cannot be detected",
            hint="Run `SHELL=bash deltactl --install-completion`. Replace bash by zsh or fish if "
            "necessary.",
        ) from None


def find_place(shell: Shell, environ: Mapping[str, str]) -> Place:
    """Return where a shell loads the user's own scripts from."""
    home = Path(environ.get("HOME") or Path.home())
    if shell is Shell.FISH:
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        return Place(config / "fish" / "completions" / "deltactl.fish")
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "deltactl"
    if shell is Shell.ZSH:
        rc_file = Path(environ.get("ZDOTDIR") or home) / ".zshrc"
        line = f'fpath+=("{data}"); autoload -Uz compinit; compinit'
        return Place(data / "_deltactl", rc_file, line)
    script = data / "deltactl.bash"
    return Place(script, home / ".bashrc", f'[ -r "{script}" ] && . "{script}"')


def _ensure_line(path: Path, line: str) -> bool:
    """Append a line unless it is there; return whether it was appended."""
    text = path.read_text("utf-8", "surrogateescape") if path.exists() else ""
    if line in text.splitlines():
        return False
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{os.linesep if text and not text.endswith(os.linesep) else ''}{line}\n")
    return True
