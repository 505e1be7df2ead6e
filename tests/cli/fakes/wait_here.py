"""A command that waits for a signal, in good order or not."""

import time
from dataclasses import dataclass

import typer

from deltactl.cli.session import Session
from deltactl.option_fields import execution_option


@dataclass(frozen=True)
class Flags:
    orderly: bool = execution_option(False, "Stop in good order")
    deaf: bool = execution_option(False, "Do not stop")


def command(session: Session, flags: Flags) -> None:
    """Wait."""
    if not flags.orderly:
        typer.echo("ready")
        time.sleep(30)
        return
    with session.cancellation() as cancellation:
        typer.echo("ready")
        cancellation.token.wait(30)
        if flags.deaf:
            typer.echo("deaf")
            time.sleep(30)
        cancellation.raise_if_cancelled("stopped in good order")
