"""When a run may begin: ``--min-interval`` and ``--no-lease``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from deltactl.cli.options.groups import Group
from deltactl.units import parse_duration

if TYPE_CHECKING:
    pass


MinIntervalOption = Annotated[
    str | None,
    typer.Option(
        "--min-interval",
        metavar="TIME",
        help="Do nothing if the last run that ended well began within this time  "
        "[default: always run]",
        show_default=False,
        rich_help_panel=Group.SELECTION,
    ),
]
NoLeaseOption = Annotated[
    bool,
    typer.Option(
        "--no-lease",
        help="Run even if another run of this command holds the lease of the table",
        rich_help_panel=Group.SAFETY,
    ),
]


_LOOKS: Final = ("check", "dry_run")
_ASIDE: Final = ("cleanup_only", "purge_quarantine", "repair", "undo")


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """When a run may begin.

    ``is_look`` is for one that changes nothing and needs no turn, ``is_aside`` for one that does
    something else than the command does every night.
    """

    min_interval_ms: int | None = None
    has_lease: bool = True
    is_look: bool = False
    is_aside: bool = False

    @classmethod
    def take(cls, params: dict[str, Any]) -> TurnOptions:
        """Move these options out of parsed parameters.

        Raises:
            UsageError: a time that cannot be understood.
        """
        interval = params.pop("min_interval", None)
        return cls(
            None if interval is None else parse_duration(interval),
            not params.pop("no_lease", False),
            any(params.get(name) for name in _LOOKS),
            any(params.get(name) for name in _ASIDE),
        )


def declare_turn_options(
    min_interval: MinIntervalOption = None, no_lease: NoLeaseOption = False
) -> None:
    """Carry the declarations above in the only form that Typer reads: a signature."""
