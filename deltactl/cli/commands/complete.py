"""``deltactl complete``: values for completion scripts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltactl.cli.session import Session
from deltactl.errors import DeltactlError, UsageError, ignore_warning

if TYPE_CHECKING:
    from deltactl.protocol.actions import Metadata


COLUMNS: Final = "columns"
DATA_COLUMNS: Final = "data-columns"
PROPERTIES: Final = "properties"


def command(
    session: Session,
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="columns (of partitions), data-columns or properties"),
    ],
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="The table on the command line", show_default=False),
    ] = None,
) -> None:
    """Print the completions, one per line; nothing if the table cannot be read.

    \b
    Examples:
      deltactl complete columns /data/events
      deltactl complete properties
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    if kind not in (COLUMNS, DATA_COLUMNS, PROPERTIES):
        raise UsageError(f"{kind!r} cannot be completed", hint="See `deltactl complete --help`.")
    found = _find(kind, None if table is None else _load_metadata(session, table))
    # Leave out names that the shell would split or expand.
    for name in found:
        if name.isprintable() and not any(char.isspace() for char in name):
            typer.echo(name)


def _load_metadata(session: Session, table: str) -> Metadata | None:
    from deltactl.log.delta_log import DeltaLog

    try:
        return (
            DeltaLog(session.open_store(table, read_only=True), ignore_warning).snapshot().metadata
        )
    except DeltactlError:
        return None


def _find(kind: str, metadata: Metadata | None) -> Iterable[str]:
    if kind == COLUMNS:
        return () if metadata is None else metadata.partition_columns
    if kind == DATA_COLUMNS:
        from deltactl.protocol.column_names import format_column
        from deltactl.protocol.schema import PrimitiveType

        fields = () if metadata is None else metadata.data_schema.fields
        return [format_column([it.name]) for it in fields if isinstance(it.type, PrimitiveType)]
    from deltactl.protocol.property_rules import RULES

    own = () if metadata is None else metadata.configuration
    return sorted({*RULES, *own})
