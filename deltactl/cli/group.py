"""The group of commands: listed by name and one line of help, imported when they run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from deltactl.cli.command import Command
from deltactl.cli.command_table import CommandSpec
from deltactl.cli.help import ALL, describe_command, help_all_option, write_help
from deltactl.cli.options.common import GlobalOptions
from deltactl.cli.options.declared import Declared, declared_options, option_classes, sign
from deltactl.cli.options.fleet import FleetOptions
from deltactl.cli.output.output import CI_FORMATS, OutputFormat, stdout_errors
from deltactl.cli.parsing.argv import PROGRAM
from deltactl.cli.session import Session
from deltactl.cli.startup import take_as_typed
from deltactl.errors import UsageError

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyGroup(TyperGroup):
    """Commands listed by name and one line of help; their modules are imported when they run."""

    specs: dict[str, CommandSpec]
    declared: Mapping[str, Declared]

    def register(
        self,
        specs: Sequence[CommandSpec],
        root: Callable[[Any], None],
        declared: Mapping[str, Declared],
    ) -> None:
        """Fill in the command table, and the function and the options before a command."""
        self._root, self.declared = root, declared
        self.specs = {spec.name: spec for spec in specs}
        self._loaded: dict[str, Command] = {}
        for spec in specs:
            row = TyperCommand(spec.name, help=spec.help, rich_markup_mode=None)
            row.hidden = spec.is_hidden
            self.add_command(row)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before a command."""
        return take_as_typed(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; ``--help`` prints here."""
        with stdout_errors():
            return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text: the commands before the options."""
        doc = describe_command(self)
        commands = [(spec.name, spec.help) for spec in self.specs.values() if not spec.is_hidden]
        write_help(doc, formatter, PROGRAM, commands, is_all=ctx.meta.get(ALL, False))

    def invoke(self, ctx: Any) -> Any:
        """Run what comes before the command, then the command."""
        self.callback = lambda **_: self._root(ctx)
        return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command and import it, for its options."""
        name, found, rest = super().resolve_command(ctx, args)
        if not name:
            return name, found, rest
        session = ctx.find_object(Session)
        if session is not None:  # there is none while a shell completes a line
            session.command = name
        command = self.load(name)
        command.all_settings = self.list_settings
        return name, command, rest

    def load(self, name: str) -> Command:
        """Import and build a command at the first call.

        Raises:
            UsageError: its module is not there yet.
        """
        if name not in self._loaded:
            self._loaded[name] = load_command(self.specs[name])
        return self._loaded[name]

    def list_settings(self) -> set[str]:
        """Return the names of the settings of all commands; this imports them."""
        return set().union(*(self.load(name).settings for name in self.specs))


def load_command(spec: CommandSpec) -> Command:
    """Import a command's module and build the command with its options.

    Raises:
        UsageError: the module is not there yet.
    """
    if find_spec(spec.module) is None:
        raise UsageError(
            f"this version of deltactl does not have the command `{spec.name}`",
            hint="See `deltactl --help`.",
        )
    module = import_module(spec.module)
    shared = (*spec.shared, GlobalOptions, *getattr(module, "SETTINGS", ()))
    command = build_command(module.command, spec.name, shared, spec.omits)
    command.needs_arrow = spec.needs_arrow
    command.explains_settings = spec.name in ("config", "explain")
    command.plan_ahead = getattr(module, "plan_ahead", None)
    return command


def find_group(ctx: typer.Context) -> LazyGroup:
    """Return the program that a command belongs to."""
    group = ctx.find_root().command
    assert isinstance(group, LazyGroup)
    return group


def build_command(
    function: Any, name: str, shared: Sequence[type] = (), omits: Collection[str] = ()
) -> Command:
    """Build a command from a function whose parameters are its arguments and options.

    ``shared`` are the classes of options that the function does not take itself, without the
    fields ``omits``.
    """
    classes = option_classes(function)
    own = by_field(classes.values())
    declared = own | {name: it for name, it in by_field(shared).items() if name not in omits}
    if FleetOptions not in shared and (it := declared.get("output")) is not None:
        one_table = tuple(form.value for form in OutputFormat if form not in CI_FORMATS)
        option = replace(it.option, choices=one_table)
        declared["output"] = Declared(it.field, str, it.preset, option)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    signed = sign(function, shared, declared.values(), help_all=help_all_option())
    app.command(name, cls=Command, context_settings=CONTEXT_SETTINGS)(signed)
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    command.function, command.classes, command.shared = function, classes, shared
    command.own, command.declared = own, declared
    return command


def by_field(classes: Iterable[type]) -> dict[str, Declared]:
    """Return the options of classes by their fields."""
    return {option.field: option for kind in classes for option in declared_options(kind)}
