"""The whole program taken apart, and the files that are written from it."""

from __future__ import annotations

from typing import Any

from deltactl.cli.failures import PROGRAM
from deltactl.cli.group import LazyGroup, load_command
from deltactl.cli.help import CommandDoc, describe_command
from deltactl.cli.reference.completions import ProgramDoc, Shell, render_completion
from deltactl.cli.reference.manual import render_manual

COMPLETION_FILES = {
    Shell.BASH: "completions/deltactl.bash",
    Shell.ZSH: "completions/_deltactl",
    Shell.FISH: "completions/deltactl.fish",
}


def describe_program(group: LazyGroup) -> ProgramDoc:
    """Load every command of a program that people see, and take it apart."""
    shown = (spec for spec in group.specs.values() if not spec.is_hidden)
    commands = [(spec.help, _describe(load_command(spec), spec.name)) for spec in shown]
    return ProgramDoc(_describe(group, PROGRAM, name=""), commands)


def _describe(command: Any, info_name: str, name: str | None = None) -> CommandDoc:
    ctx = command.make_context(info_name, [], resilient_parsing=True)
    before = command.name
    if name is not None:
        command.name = name
    try:
        return describe_command(ctx)
    finally:
        command.name = before


def render_files(program: ProgramDoc) -> dict[str, str]:
    """Write completions and manual pages, by their paths in the sources."""
    files = {path: render_completion(shell, program) for shell, path in COMPLETION_FILES.items()}
    files |= {f"man/{name}": text for name, text in render_manual(program).items()}
    return files
