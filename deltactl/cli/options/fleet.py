"""Define options of commands that accept several tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from deltactl.cli.options.declared import is_typed
from deltactl.errors import UsageError
from deltactl.option_fields import execution_option, selection_option

# Options for text that programs read, such as SQL: it is printed whole for each table.
_FOR_TEXT: Final = ("ddl",)
# Options with which the tables are shown at the end, those with the most bytes first.
_BY_SIZE: Final = ("storage",)


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How several tables are processed. The tables are an argument of the command line."""

    tables_from: str | None = selection_option(
        None,
        "Also process the tables that this file lists, one per line. If FILE is -, deltactl reads "
        "the list from standard input",
        metavar="FILE",
    )
    jobs: int = execution_option(
        1,
        "Number of tables to process at the same time. These tables share cores and memory",
        short="j",
        least=1,
        is_settable=True,
    )
    fail_fast: bool = execution_option(
        False, "If one table fails, do not start the tables that are left"
    )
    table: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="Path, URI or name (uc://CATALOG.SCHEMA.TABLE) of a table, or a pattern such as "
            "'s3://lake/*'. You can give several tables and patterns",
            show_default=False,
        ),
    ] = field(default_factory=list)


def asks_for_text(params: dict[str, Any]) -> bool:
    """Return whether the output is for programs, without a line about each table."""
    return any(params.get(name) is not None for name in _FOR_TEXT)


def asks_for_sizes(params: dict[str, Any]) -> bool:
    """Return whether the tables with the most bytes are shown first."""
    return any(params.get(name) for name in _BY_SIZE)


def refuse_options_for_one_table(ctx: Any) -> None:
    """Refuse options that are valid for one table only, or whose file the next would overwrite.

    Raises:
        UsageError: naming the option.
    """
    for name, option in ctx.command.declared.items():
        if option.option.is_for_one_table and is_typed(ctx, name):
            raise UsageError(
                f"--{option.name} can be used with one table only, but several tables are given",
                hint="Run the command once per table.",
            )
