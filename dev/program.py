"""Collect the options of all commands, for completions and manual pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltactl.cli.group import LazyGroup, load_command
from deltactl.cli.help import CommandDoc, describe_command


@dataclass(frozen=True, slots=True)
class ProgramDoc:
    """The program's own options, and each command with its line of the command table."""

    root: CommandDoc
    commands: Sequence[tuple[str, CommandDoc]]


def describe_program(group: LazyGroup) -> ProgramDoc:
    """Load and describe every command of the program that is not hidden."""
    shown = (spec for spec in group.specs.values() if not spec.is_hidden)
    commands = [(spec.help, describe_command(load_command(spec))) for spec in shown]
    return ProgramDoc(replace(describe_command(group), name=""), commands)
