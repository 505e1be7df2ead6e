"""``deltactl --install-completion`` and ``--show-completion``: the script for the user's shell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
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


def install_completion(
    environ: Mapping[str, str], confirm: Callable[[Sequence[str]], bool] = lambda changes: True
) -> list[str]:
    """Write the script for the user's shell; return lines that say what was done.

    ``confirm`` gets lines that say what will be done. Running it again replaces the script, and
    changes nothing else.

    Raises:
        UsageError: there is no script for this shell.
        DeltactlError: a file cannot be written.
    """
    shell = detect_shell(environ)
    place = find_place(shell, environ)
    changes = [f"script: {place.script}"]
    try:
        lacks_line = place.rc_file is not None and not _has_line(place.rc_file, place.rc_line)
        if lacks_line:
            changes.append(f"line in {place.rc_file}: {place.rc_line}")
        if not confirm(changes):
            return ["nothing was changed"]
        place.script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(find_script(shell), place.script)
        if lacks_line and place.rc_file is not None:
            _append_line(place.rc_file, place.rc_line)
    except OSError as error:
        raise DeltactlError(f"cannot write {error.filename!r}: {error.strerror}") from error
    return [*changes, f"start a new {shell} to use it"]


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
    """Return where a shell loads the user's own scripts from.

    Raises:
        UsageError: the user has no home directory.
    """
    try:
        home = Path(environ.get("HOME") or Path.home())
    except RuntimeError as error:
        raise UsageError("the home directory is not known", hint="Set HOME, then rerun.") from error
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


def _has_line(path: Path, line: str) -> bool:
    return path.exists() and line in _read(path).splitlines()


def _append_line(path: Path, line: str) -> None:
    text = _read(path) if path.exists() else ""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{os.linesep if text and not text.endswith(os.linesep) else ''}{line}\n")


def _read(path: Path) -> str:
    return path.read_text("utf-8", "surrogateescape")
