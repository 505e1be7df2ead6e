"""Collect the options of all commands, for completions, manual pages and ``deltactl config``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltactl.cli.group import LazyGroup, load_command
from deltactl.cli.help import CommandDoc, describe_command
from deltactl.cli.parsing.argv import PROGRAM


@dataclass(frozen=True, slots=True)
class ProgramDoc:
    """The program's own options, and each command with its line of the command table."""

    root: CommandDoc
    commands: Sequence[tuple[str, CommandDoc]]


def describe_program(group: LazyGroup) -> ProgramDoc:
    """Load and describe every command of the program that is not hidden."""
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
