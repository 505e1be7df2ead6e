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
            help="Also write the plan, the result and charts as an HTML page to this file. If "
            "the file exists, it is replaced",
            show_default=False,
            rich_help_panel=Group.OUTPUT,
        ),
    ] = None
