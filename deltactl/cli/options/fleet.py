"""Define options of commands that accept several tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from deltactl.cli.options.declared import Options
from deltactl.cli.options.groups import Group
from deltactl.errors import UsageError

# Values that are valid for one table only, or that the next table would overwrite.
_FOR_ONE_TABLE: Final = (
    "dump_listing",
    "inventory",
    "keep_version",
    "output_root",
    "resume",
    "since",
    "version",
)
# Options for text that programs read, such as SQL: it is printed whole for each table.
_FOR_TEXT: Final = ("ddl",)


@dataclass(frozen=True, slots=True)
class FleetOptions(Options):
    """The tables of the command line, and how several are processed."""

    table: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="Path or URI of a table, or a pattern such as 's3://lake/*'. You can give several "
            "tables and patterns",
            show_default=False,
        ),
    ] = field(default_factory=list)
    tables_from: Annotated[
        str | None,
        typer.Option(
            "--tables-from",
            metavar="FILE",
            help="Also process the tables that this file lists, one per line. If FILE is -, "
            "deltactl reads the list from standard input",
            show_default=False,
            rich_help_panel=Group.SELECTION,
        ),
    ] = None
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            metavar="N",
            help="Number of tables to process at the same time. These tables share cores and "
            "memory",
            rich_help_panel=Group.EXECUTION,
        ),
    ] = 1
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast",
            help="If one table fails, skip the tables on which work has not begun",
            rich_help_panel=Group.EXECUTION,
        ),
    ] = False


def asks_for_text(params: dict[str, Any]) -> bool:
    """Return whether the output is for programs, without a line about each table."""
    return any(params.get(name) is not None for name in _FOR_TEXT)


def refuse_options_for_one_table(params: dict[str, Any]) -> None:
    """Refuse options that are valid for one table only.

    Raises:
        UsageError: naming the option.
    """
    for name in _FOR_ONE_TABLE:
        value = params.get(name)
        if value or (value == 0 and value is not False):  # version 0 is one
            flag = name.replace("_", "-")
            raise UsageError(
                f"--{flag} can be used with one table only, but several tables are given",
                hint="Run the command once per table.",
            )
