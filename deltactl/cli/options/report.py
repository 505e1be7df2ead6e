"""Define ``--report FILE``: the file of the HTML report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from deltactl.cli.options.declared import Options
from deltactl.cli.options.groups import Group


@dataclass(frozen=True, slots=True)
class ReportOptions(Options):
    """The report of a run."""

    report: Annotated[
        str | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Also write plan, result and charts as one HTML page; an existing page is "
            "replaced",
            show_default=False,
            rich_help_panel=Group.OUTPUT,
        ),
    ] = None
