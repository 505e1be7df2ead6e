"""Options of commands that a scheduler runs: how long a run may take.

They are added by ``cli/group.py`` to each command whose row of the command table says so; a command
does not declare them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from deltactl.cli.options.groups import Group
from deltactl.units import parse_duration

_GRACE: Final = "5min"

TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="Stop in good order after this long; what is finished is kept  [default: no limit]",
        show_default=False,
        rich_help_panel=Group.EXECUTION,
    ),
]
GraceOption = Annotated[
    str,
    typer.Option(
        "--timeout-grace",
        metavar="TIME",
        help="Time to stop cleanly; then the process is ended",
        rich_help_panel=Group.EXECUTION,
    ),
]


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The options as numbers: ``limit_ms`` is ``None`` where a run may take forever."""

    limit_ms: int | None = None
    grace_ms: int = parse_duration(_GRACE)

    @classmethod
    def take(cls, params: dict[str, Any]) -> TimeLimit:
        """Move these options out of parsed parameters.

        Raises:
            UsageError: a time that cannot be understood.
        """
        limit, grace = params.pop("timeout", None), params.pop("timeout_grace", None)
        return cls(
            None if limit is None else parse_duration(limit),
            parse_duration(_GRACE if grace is None else grace),
        )


def declare_time_limit(timeout: TimeoutOption = None, timeout_grace: GraceOption = _GRACE) -> None:
    """Carry the declarations above in the only form that Typer reads: a signature."""
