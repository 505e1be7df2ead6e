"""``--report FILE``: where the page goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltactl.cli.options.groups import Group

if TYPE_CHECKING:
    pass


ReportOption = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Also write plan, result and charts as one page of HTML, in the place of an older one",
        show_default=False,
        rich_help_panel=Group.OUTPUT,
    ),
]


def declare_report_option(report: ReportOption = None) -> None:
    """Carry the declaration above in the only form that Typer reads: a signature."""
