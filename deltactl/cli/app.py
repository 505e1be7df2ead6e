"""The program: find the command, run it, and turn whatever happens into an exit status."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from deltactl import __version__
from deltactl.cli.commands import COMMANDS, CommandSpec
from deltactl.cli.definitions import describe_command, write_help
from deltactl.cli.engine_options import EngineOptions, declare_engine_options
from deltactl.cli.exits import ExitCode, render_exit_status
from deltactl.cli.failures import PROGRAM, explain_failure, show_traceback
from deltactl.cli.fleet_options import (
    FleetOptions,
    declare_fleet_options,
    refuse_options_for_one_table,
)
from deltactl.cli.groups import Group
from deltactl.cli.imports import keep_pandas_out
from deltactl.cli.options import (
    DebugOption,
    GlobalOptions,
    LogFormatOption,
    NoColorOption,
    OutputOption,
    ProgressOption,
    QuietOption,
    StorageOption,
    VerboseOption,
    declare_global_options,
)
from deltactl.cli.output import CI_FORMATS, ReaderGone, stdout_errors
from deltactl.cli.param_settings import fill_in_settings, settings_of
from deltactl.cli.run_options import TimeLimit, declare_time_limit
from deltactl.cli.session import Session
from deltactl.cli.signals import raise_on_sigterm
from deltactl.cli.turns import TurnOptions, declare_turn_options, take_turn
from deltactl.errors import DeltactlError, UsageError

_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(TyperCommand):
    """A command that also takes the global options, and begins the session before it runs."""

    takes_tables = False
    takes_turns = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; ``--help`` prints here, and its reader may be gone."""
        with stdout_errors():
            return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text of the house: examples first, options by group."""
        write_help(describe_command(ctx), formatter, ctx.command_path, self.epilog or "")

    def invoke(self, ctx: Any) -> Any:  # Any: Typer keeps the type of this context to itself
        """Move the global options into the session, then run the command with the rest."""
        session = Session.of(ctx)
        options = session.options_before.merge(GlobalOptions.take(ctx.params))
        engine = EngineOptions.take(ctx.params)
        session.begin(self.name, ctx.params.get("table"), options, engine)
        session.check_settings(self.name or "", settings_of(self))
        fill_in_settings(ctx, session.sources)
        session.limit_time(TimeLimit.take(ctx.params))
        if self.takes_tables:
            return self._invoke_tables(ctx, session, FleetOptions.take(ctx.params))
        if session.output.form in CI_FORMATS:
            raise UsageError(
                f"{self.name} has no output for CI", hint="use -o json, or -o table for people"
            )
        return self._invoke_one(ctx, session)

    def _invoke_one(self, ctx: Any, session: Session) -> Any:
        if session.table is not None:  # else nobody needs Arrow
            keep_pandas_out()
        if not self.takes_turns:
            return super().invoke(ctx)
        with take_turn(session, TurnOptions.take(ctx.params)) as skipped:
            if skipped is None:
                return super().invoke(ctx)
            session.skip(skipped)
        return None

    def _invoke_tables(self, ctx: Any, session: Session, options: FleetOptions) -> Any:
        """Run on one table as named, or on each of several in a session of its own."""
        from deltactl.cli.fleet import expand_tables, find_single

        single = find_single(options, session)
        if session.output.form in CI_FORMATS:
            tables = expand_tables(options, session) if single is None else [single]
            return self._invoke_each(ctx, session, options, tables)
        session.table = session.output.log_fields["table"] = single
        if session.table is not None:
            ctx.params["table"] = session.table
            fill_in_settings(ctx, session.sources)
            return self._invoke_one(ctx, session)
        return self._invoke_each(ctx, session, options, expand_tables(options, session))

    def _invoke_each(
        self, ctx: Any, session: Session, options: FleetOptions, tables: Sequence[str]
    ) -> None:
        from deltactl.cli.fleet import Fleet

        if len(tables) > 1:
            refuse_options_for_one_table(ctx.params)

        def run_table(child: Session) -> None:
            twin = copy(ctx)
            twin.obj, twin.params = child, {**ctx.params, "table": child.table}
            fill_in_settings(twin, child.sources)
            self._invoke_one(twin, child)

        code = Fleet(session, options, run_table).run(tables)
        if code:
            raise typer.Exit(code)


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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; ``--help`` prints here."""
        with stdout_errors():
            return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text of the house, the commands before the options."""
        doc = describe_command(ctx)
        commands = [(spec.name, spec.help) for spec in self.specs.values() if not spec.is_hidden]
        write_help(doc, formatter, PROGRAM, self.epilog or "", commands)

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
        raise UsageError(f"`{spec.name}` is not part of this version", hint="see `deltactl --help`")
    command = _build(import_module(spec.module).command, spec.name)
    if spec.has_engine:
        command.params.extend(_build(declare_engine_options, "engine").params)
    if spec.has_time_limit:
        command.params.extend(_build(declare_time_limit, "limit").params)
    if spec.takes_tables:
        tables, *options = _build(declare_fleet_options, "fleet").params
        command.params = [tables if p.name == tables.name else p for p in command.params]
        command.params.extend(options)
        command.takes_tables = True
    if spec.takes_turns:
        command.params.extend(_build(declare_turn_options, "turn").params)
        command.takes_turns = True
    command.params.extend(_build(declare_global_options, "global").params)
    return command


def _build(function: Any, name: str) -> Command:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=Command, epilog=render_exit_status(), context_settings=_CONTEXT_SETTINGS)(
        function
    )
    command = typer.main.get_command(app)
    assert isinstance(command, Command)
    return command


def root(
    ctx: typer.Context,
    storage_option: StorageOption = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = 0,
    debug: DebugOption = False,
    no_color: NoColorOption = False,
    log_format: LogFormatOption = None,
    progress: ProgressOption = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version; with -v also those of engines and libraries",
            rich_help_panel=Group.OUTPUT,
        ),
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion", help="Install completion for this shell: bash, zsh or fish"
        ),
    ] = False,
) -> None:
    """Maintain Delta Lake tables.

    \b
    Examples:
      deltactl describe-history /data/events --limit 10
      deltactl optimize /data/events --dry-run
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    session.options_before = options = GlobalOptions.take(dict(ctx.params))
    if version:
        _print_version(session, options)
        raise typer.Exit
    if install_completion:
        _install_completion(session)
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        ctx.fail("Missing command.")


def _print_version(session: Session, options: GlobalOptions) -> None:
    typer.echo(f"{PROGRAM} {__version__}")
    if options.verbose:
        from deltactl.cli.versions import describe_versions

        for line in describe_versions(session.environ):
            typer.echo(line)


def _install_completion(session: Session) -> None:
    from deltactl.cli.install_completion import install_completion

    for line in install_completion(session.environ):
        typer.echo(line)


def build_group(specs: Sequence[CommandSpec] = COMMANDS) -> LazyGroup:
    """Build the program from a command table."""
    app = typer.Typer(
        cls=LazyGroup,
        add_completion=False,
        rich_markup_mode=None,
        epilog=render_exit_status(),
        context_settings=_CONTEXT_SETTINGS,
        invoke_without_command=True,
    )
    app.callback()(root)
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)
    group.register(specs)
    return group


def run(argv: Sequence[str], *, specs: Sequence[CommandSpec] = COMMANDS) -> int:
    """Run the program in this process, and give its exit status."""
    session = Session(argv, os.environ)
    try:
        with raise_on_sigterm():
            return _run_command(session, argv, specs)
    except ReaderGone:
        return _leave_pipe()
    except SystemExit:
        raise
    except BaseException as raised:
        return _fail(session, explain_failure(raised), raised)
    finally:
        session.end()


def _run_command(session: Session, argv: Sequence[str], specs: Sequence[CommandSpec]) -> int:
    group = build_group(specs)
    try:
        # Not `group.main`: that one handles errors, pipes and signals in its own way.
        with group.make_context(PROGRAM, list(argv), obj=session) as ctx:
            if not argv:
                typer.echo(ctx.get_help(), err=True)
                return ExitCode.USAGE
            group.invoke(ctx)
    except typer.Exit as done:
        code = done.exit_code
    else:
        code = ExitCode.DONE
    with stdout_errors():
        sys.stdout.flush()
    return code


def _fail(session: Session, error: DeltactlError, raised: BaseException) -> int:
    try:
        session.output.emit_error(session.envelope(), error)
    except ReaderGone:
        _leave_pipe()
    if session.options.debug:
        show_traceback(session.output, raised)
    return error.exit_code


def _leave_pipe() -> int:
    """Give up stdout, so that the interpreter does not complain about it when it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.BROKEN_PIPE


def main() -> NoReturn:
    """Run the program on the command line, and exit."""
    # A long history is a million plain values: the default looks through them again and again.
    gc.set_threshold(200_000, 50, 50)
    # Arrow's allocator gives freed pages back after 10 ms, and takes them again a moment later: a
    # fault each. It reads this when pyarrow is first imported, which is later than here.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 lives as long as the process
        else:
            # A terminal that cannot show a letter must not end the run.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
