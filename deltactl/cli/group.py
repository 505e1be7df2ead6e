"""The group of commands: known by name and one line of help, loaded when they are run."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from deltactl.cli.command import Command
from deltactl.cli.command_table import CommandSpec
from deltactl.cli.exits import render_exit_status
from deltactl.cli.failures import PROGRAM
from deltactl.cli.help import describe_command, write_help
from deltactl.cli.options.common import GlobalOptions, declare_global_options
from deltactl.cli.options.engine import declare_engine_options
from deltactl.cli.options.fleet import declare_fleet_options
from deltactl.cli.options.log_store import declare_log_store_options
from deltactl.cli.options.report import declare_report_option
from deltactl.cli.options.time_limit import declare_time_limit
from deltactl.cli.options.turns import declare_turn_options
from deltactl.cli.output.output import stdout_errors
from deltactl.cli.parsing.plain_values import with_plain_values
from deltactl.cli.session import Session
from deltactl.errors import UsageError

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(TyperGroup):
    """Commands known by name and one line of help; their modules load when they are run."""

    specs: dict[str, CommandSpec]

    def register(self, specs: Sequence[CommandSpec]) -> None:
        """Fill in the command table."""
        self.specs = {spec.name: spec for spec in specs}
        for spec in specs:
            row = TyperCommand(spec.name, help=spec.help, rich_markup_mode=None)
            row.hidden = spec.is_hidden
            self.add_command(row)

    def get_params(self, ctx: Any) -> list[Any]:
        """Give the parameters, such that plain values cost little."""
        return with_plain_values(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; ``--help`` prints here."""
        with stdout_errors():
            return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text of the house, the commands before the options."""
        doc = describe_command(ctx)
        commands = [(spec.name, spec.help) for spec in self.specs.values() if not spec.is_hidden]
        write_help(doc, formatter, PROGRAM, self.epilog or "", commands)

    def invoke(self, ctx: Any) -> Any:
        """Move the global options before the command into the session, then go on to it."""
        Session.of(ctx).options_before = GlobalOptions.take(ctx.params)
        return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, and load it: from here on its own options count."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, load_command(self.specs[name]) if name else found, rest


def load_command(spec: CommandSpec) -> Command:
    """Import a command's module and build the command with its options.

    Raises:
        UsageError: the module is not there yet.
    """
    if find_spec(spec.module) is None:
        raise UsageError(
            f"`{spec.name}` is not part of this version", hint="See `deltactl --help`."
        )
    command = build_command(import_module(spec.module).command, spec.name)
    if spec.has_engine:
        command.params.extend(build_command(declare_engine_options, "engine").params)
    if spec.commits:
        command.params.extend(build_command(declare_log_store_options, "log store").params)
    if spec.has_time_limit:
        command.params.extend(build_command(declare_time_limit, "limit").params)
    if spec.takes_tables:
        tables, *options = build_command(declare_fleet_options, "fleet").params
        command.params = [tables if p.name == tables.name else p for p in command.params]
        command.params.extend(options)
        command.takes_tables = True
    if spec.has_report:
        command.params.extend(build_command(declare_report_option, "report").params)
    if spec.takes_turns:
        command.params.extend(build_command(declare_turn_options, "turn").params)
        command.takes_turns = True
    command.params.extend(build_command(declare_global_options, "global").params)
    command.needs_arrow = spec.needs_arrow
    return command


def find_group(ctx: typer.Context) -> LazyGroup:
    """Return the program that a command belongs to."""
    group = ctx.find_root().command
    assert isinstance(group, LazyGroup)
    return group


def build_command(function: Any, name: str) -> Command:
    """Build a command from a function whose signature declares its options."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Command, epilog=render_exit_status(), context_settings=CONTEXT_SETTINGS)(
        function
    )
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    return command
