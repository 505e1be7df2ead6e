"""A command that waits for a signal, in good order or not."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from deltactl.cli.session import Session


def command(
    ctx: typer.Context,
    orderly: Annotated[bool, typer.Option("--orderly")] = False,
    deaf: Annotated[bool, typer.Option("--deaf")] = False,
) -> None:
    """Wait."""
    session = Session.of(ctx)
    if not orderly:
        typer.echo("ready")
        time.sleep(30)
        return
    with session.cancellation() as cancellation:
        typer.echo("ready")
        cancellation.token.wait(30)
        if deaf:
            typer.echo("deaf")
            time.sleep(30)
        cancellation.raise_if_cancelled("stopped in good order")
