"""Define options for the start of a run: ``--min-interval`` and ``--no-lease``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import typer

from deltactl.cli.options.declared import Options, take_options
from deltactl.cli.options.groups import Group
from deltactl.units import parse_duration

_DRY_RUNS: Final = ("check", "dry_run")
_OTHER_TASKS: Final = ("cleanup_only", "forget_clone", "purge_quarantine", "repair", "undo")


@dataclass(frozen=True, slots=True)
class LeaseOptions(Options):
    """When a run may start.

    ``is_dry_run``: the run changes nothing and needs no lease. ``is_other_task``: the run does
    not do the main task of the command, but for example an undo.
    """

    min_interval: Annotated[
        str | None,
        typer.Option(
            "--min-interval",
            metavar="TIME",
            help="Minimum time since the start of the last successful run of this command on the "
            "table. If less time has passed, deltactl does nothing  [default: always run]",
            show_default=False,
            rich_help_panel=Group.SELECTION,
        ),
    ] = None
    no_lease: Annotated[
        bool,
        typer.Option(
            "--no-lease",
            help="Ignore leases: run even if another run of this command is working on the table",
            rich_help_panel=Group.SAFETY,
        ),
    ] = False

    is_dry_run: bool = False
    is_other_task: bool = False

    @property
    def min_interval_ms(self) -> int | None:
        """Return the minimum time between two runs; ``None`` without one.

        Raises:
            UsageError: it is no duration.
        """
        return None if self.min_interval is None else parse_duration(self.min_interval)

    @classmethod
    def take(cls, params: dict[str, Any]) -> LeaseOptions:
        """Move these options out of parsed parameters; the others decide the kind of run."""
        return replace(
            take_options(cls, params),
            is_dry_run=any(params.get(name) for name in _DRY_RUNS),
            is_other_task=any(params.get(name) for name in _OTHER_TASKS),
        )
