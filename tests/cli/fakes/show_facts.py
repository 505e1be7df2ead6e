"""A command that shows what it was given."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from deltactl.cli.options.common import DryRunOption, TableArgument
from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.session import Session


def command(
    ctx: typer.Context,
    table: TableArgument,
    dry_run: DryRunOption = False,
    warn: Annotated[list[str] | None, typer.Option(help="Say this")] = None,
    check: Annotated[bool, typer.Option("--check")] = False,
) -> None:
    """Show facts about a table that is not there.

    A second paragraph of help.
    """
    session = Session.of(ctx)
    for text in warn or []:
        session.output.warn(text)
    logging.getLogger("deltactl.fake").info("looked closely")
    rows = [{"key": key, "value": value} for key, value in session.storage_options.items()]

    def render(page: Page) -> None:
        page.fields([("table", Styled(table, Tone.GOOD))])
        page.table(
            [Column("key"), Column("value", elastic=True)], [(r["key"], r["value"]) for r in rows]
        )

    envelope = session.envelope(version_before=3, version_after=3, dry_run=dry_run, result=rows)
    session.output.emit(envelope, render_table=render, rows=rows)
    if check:
        raise typer.Exit(3)
