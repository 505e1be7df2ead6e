"""Options of commands that take several tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from deltactl.cli.options.groups import Group
from deltactl.errors import UsageError

TablesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE...",
        help="Path or URI of the table; of several, or a glob of tables such as 's3://lake/*'",
        show_default=False,
    ),
]
TablesFromOption = Annotated[
    str | None,
    typer.Option(
        "--tables-from",
        metavar="FILE",
        help="Also the tables in this file, one per line; - reads stdin",
        show_default=False,
        rich_help_panel=Group.SELECTION,
    ),
]
JobsOption = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Number of tables at the same time; they share cores and memory",
        rich_help_panel=Group.EXECUTION,
    ),
]
FailFastOption = Annotated[
    bool,
    typer.Option(
        "--fail-fast",
        help="Start no further table after one failed",
        rich_help_panel=Group.EXECUTION,
    ),
]

# What these say holds for one table, or would be overwritten by the next.
_FOR_ONE_TABLE: Final = (
    "dump_listing",
    "inventory",
    "keep_version",
    "output_root",
    "resume",
    "since",
    "version",
)
# These ask for text that programs read, such as statements: each table's is printed whole.
_FOR_TEXT: Final = ("ddl",)


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """Tables as they were typed, and how several are gone through."""

    words: Sequence[str] = ()
    tables_from: str | None = None
    jobs: int = 1
    fail_fast: bool = False

    @classmethod
    def take(cls, params: dict[str, Any]) -> FleetOptions:
        """Move these options out of parsed parameters, and the tables with them."""
        return cls(
            tuple(params.pop("table") or ()),
            params.pop("tables_from"),
            params.pop("jobs"),
            params.pop("fail_fast"),
        )


def declare_fleet_options(
    table: TablesArgument = None,
    tables_from: TablesFromOption = None,
    jobs: JobsOption = 1,
    fail_fast: FailFastOption = False,
) -> None:
    """Carry the declarations above in the only form that Typer reads: a signature.

    ``table`` takes the place of the command's own argument of that name.
    """


def asks_for_text(params: dict[str, Any]) -> bool:
    """Tell whether the page is for programs, so that no line about a table may stand in it."""
    return any(params.get(name) is not None for name in _FOR_TEXT)


def refuse_options_for_one_table(params: dict[str, Any]) -> None:
    """Refuse what cannot be meant for several tables.

    Raises:
        UsageError: naming the option.
    """
    for name in _FOR_ONE_TABLE:
        value = params.get(name)
        if value or (value == 0 and value is not False):  # version 0 is one
            flag = name.replace("_", "-")
            raise UsageError(
                f"--{flag} is for one table, and several are named", hint="Run them one by one."
            )
