"""A command that fails in the way that it is told to."""

from __future__ import annotations

from typing import Annotated

import typer

import deltactl
from deltactl.cli.options.common import TableArgument
from deltactl.cli.session import Session


def command(
    ctx: typer.Context,
    table: TableArgument,
    raises: Annotated[str, typer.Option()] = "",
    message: Annotated[str, typer.Option()] = "it broke",
    hint: Annotated[str | None, typer.Option()] = None,
    after_result: Annotated[bool, typer.Option("--after-result")] = False,
) -> None:
    """Fail."""
    session = Session.of(ctx)
    if after_result:
        session.output.emit(session.envelope(result={"part": 1}), render_table=lambda page: None)
    if raises == "interrupt":
        raise KeyboardInterrupt
    if not hasattr(deltactl, raises):
        raise ZeroDivisionError(message)
    raise getattr(deltactl, raises)(message, hint=hint)
