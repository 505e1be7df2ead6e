"""The program: find the command, run it, and return its exit status."""

from __future__ import annotations

import atexit
import io
import logging
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer

from deltactl import __version__
from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.exits import ExitCode
from deltactl.cli.failures import explain_failure, show_traceback
from deltactl.cli.group import CONTEXT_SETTINGS, LazyGroup, by_field
from deltactl.cli.help import help_all_option
from deltactl.cli.options.common import GlobalOptions
from deltactl.cli.options.declared import sign, take_options
from deltactl.cli.output.output import ReaderGone, stdout_errors
from deltactl.cli.parsing.argv import PROGRAM
from deltactl.cli.session import Session
from deltactl.cli.signals import raise_on_sigterm
from deltactl.cli.startup import share_free_memory
from deltactl.engine.memory import limit_of_address_space
from deltactl.errors import DeltactlError
from deltactl.option_fields import output_option


@dataclass(frozen=True, slots=True)
class RootOptions:
    """The options of the program itself."""

    version: bool = output_option(
        False,
        "Show the version of deltactl. With -v, also show the versions of engines and libraries",
        is_basic=True,
    )
    install_completion: bool = output_option(
        False, "Install command completion for your shell: bash, zsh or fish", is_basic=True
    )
    show_completion: bool = output_option(
        False, "Print the script that --install-completion writes"
    )


def root(ctx: typer.Context) -> None:
    """Maintain Delta Lake tables.

    \b
    Examples:
      deltactl describe-history /data/events --limit 10
      deltactl optimize /data/events --dry-run
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session, options = Session.of(ctx), take_options(ctx, RootOptions, ())
    with stdout_errors():
        if options.version:
            _print_version(session, take_options(ctx, GlobalOptions, ()).verbose)
            raise typer.Exit
        if options.install_completion:
            _install_completion(session)
            raise typer.Exit
        if options.show_completion:
            from deltactl.cli.reference.install import detect_shell, find_script

            typer.echo(find_script(detect_shell(session.environ)).read_text("utf-8"), nl=False)
            raise typer.Exit
    if ctx.invoked_subcommand is None:
        ctx.fail("Missing command.")


def _print_version(session: Session, verbose: int) -> None:
    typer.echo(f"{PROGRAM} {__version__}")
    if verbose:
        from deltactl.cli.versions import describe_versions

        for line in describe_versions(session.environ):
            typer.echo(line)


def _install_completion(session: Session) -> None:
    from deltactl.cli.confirm import ask, can_ask
    from deltactl.cli.reference.install import install_completion

    def confirm(changes: Sequence[str]) -> bool:
        if not can_ask(session):
            return True
        for line in changes:
            typer.echo(line, err=True)
        return ask(session, "Write this?")

    done = install_completion(session.environ, confirm)
    for line in done[-1:] if can_ask(session) else done:  # the question showed the others
        typer.echo(line)


def build_group(specs: Sequence[CommandSpec] = COMMANDS) -> LazyGroup:
    """Build the program from a command table."""
    app = typer.Typer(
        cls=LazyGroup,
        add_completion=False,
        rich_markup_mode=None,
        context_settings=CONTEXT_SETTINGS,
        invoke_without_command=True,
    )
    declared = by_field((GlobalOptions, RootOptions))
    app.callback()(sign(root, (), declared.values(), help_all=help_all_option()))
    group = typer.main.get_command(app)
    assert isinstance(group, LazyGroup)
    group.register(specs, root, declared)
    return group


def run(argv: Sequence[str], *, specs: Sequence[CommandSpec] = COMMANDS) -> int:
    """Run the program in this process, and return its exit status."""
    session = Session(argv, os.environ)
    try:
        with raise_on_sigterm():
            return _run_command(session, argv, specs)
    except ReaderGone:
        return ExitCode.BROKEN_PIPE
    except SystemExit:
        raise
    except BaseException as raised:
        return _fail(session, explain_failure(raised), raised)
    finally:
        session.end()


def _run_command(session: Session, argv: Sequence[str], specs: Sequence[CommandSpec]) -> int:
    group = build_group(specs)
    try:
        # Not `group.main`, which handles errors, pipes and signals differently.
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
    with suppress(ReaderGone):
        session.output.emit_error(session.failed_envelope(), error)
    if session.options.debug:
        show_traceback(session.output, raised)
    return error.exit_code


def _open_streams() -> None:
    if getattr(sys, "stdin") is None:  # noqa: B009 - closed by the caller
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115 lives as long as the process
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 lives as long as the process
            continue
        if isinstance(stream.buffer, io.RawIOBase):
            # PYTHONUNBUFFERED is set: the stream loses what one call of write(2) does not take.
            stream = io.TextIOWrapper(io.BufferedWriter(stream.buffer), stream.encoding)
            setattr(sys, name, stream)
        # A character that the terminal cannot show must not end the run.
        stream.reconfigure(errors="backslashreplace")


def _leave_streams() -> None:
    """Discard what cannot be written, for which the interpreter would change the exit status."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end(code: int) -> NoReturn:
    """End the process: wait for threads and run exit functions, but finalize no interpreter.

    After an error, threads of Arrow may still read through Python objects. While an interpreter is
    finalized, such a thread aborts the process (exit status 134), or both wait for ever.
    """
    with suppress(BaseException):  # Ctrl-C must not change the exit status
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    _leave_streams()
    os._exit(code)


def main() -> NoReturn:
    """Run the program on the command line, and exit."""
    # By default Arrow's allocator returns freed pages to the kernel after 10 ms. Using them again
    # costs a page fault each. Keeping freed pages does not raise the peak of the memory.
    # The variable is read when pyarrow is first imported, which is after this line.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")
    # numpy's BLAS library starts threads when it is loaded; deltactl does not use it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Outside of Google Cloud, each attempt to find its metadata server can last three seconds.
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
    # Libraries log when the interpreter exits, too.
    logging.getLogger().addHandler(logging.NullHandler())
    if limit_of_address_space() is not None:
        share_free_memory()
    _open_streams()
    _end(run(sys.argv[1:]))
