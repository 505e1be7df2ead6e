"""A command that shows what it was given."""

import logging
from dataclasses import dataclass

import typer

from deltactl.cli.options.common import TableArgument, check_field, dry_run_field
from deltactl.cli.output.sections import Column, Kind, Section, Styled, Table, Tone
from deltactl.cli.session import Session
from deltactl.option_fields import output_option


@dataclass(frozen=True)
class Flags:
    warn: tuple[str, ...] = output_option((), "Say this", metavar="TEXT")
    check: bool = check_field("it is")
    dry_run: bool = dry_run_field()


def command(session: Session, table: TableArgument, flags: Flags) -> None:
    """Show facts about a table that is not there.

    A second paragraph of help.
    """
    for text in flags.warn:
        session.output.warn(text)
    logging.getLogger("deltactl.fake").info("looked closely")
    rows = [{"key": key, "value": value} for key, value in session.storage_options.items()]

    columns = [Column("key"), Column("value", Kind.TEXT)]
    section = Section(facts=[("table", Styled(table, Tone.GOOD))], table=Table(columns, rows))
    envelope = session.envelope(version_before=3, version_after=3, result=rows)
    session.output.emit(envelope, sections=lambda: [section], rows=rows)
    if flags.check:
        raise typer.Exit(3)
