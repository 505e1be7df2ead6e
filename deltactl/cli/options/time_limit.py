"""Define options that limit the time of a run: ``--timeout``, ``--timeout-grace``.

They are added by ``cli/group.py`` to each command whose row of the command table says so; a command
does not declare them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from deltactl.cli.options.declared import Options
from deltactl.cli.options.groups import Group
from deltactl.units import parse_duration


@dataclass(frozen=True, slots=True)
class TimeLimit(Options):
    """How long a run may take."""

    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="TIME",
            help="Stop the run after this time, and keep the finished work  [default: no limit]",
            show_default=False,
            rich_help_panel=Group.EXECUTION,
        ),
    ] = None
    timeout_grace: Annotated[
        str,
        typer.Option(
            "--timeout-grace",
            metavar="TIME",
            help="When the time of --timeout is over, wait this long for the process to stop, "
            "then kill it",
            rich_help_panel=Group.EXECUTION,
        ),
    ] = "5min"

    @property
    def limit_ms(self) -> int | None:
        """Return the time limit; ``None`` without one.

        Raises:
            UsageError: it is no duration.
        """
        return None if self.timeout is None else parse_duration(self.timeout)

    @property
    def grace_ms(self) -> int:
        """Return the time until the process is ended.

        Raises:
            UsageError: it is no duration.
        """
        return parse_duration(self.timeout_grace)
