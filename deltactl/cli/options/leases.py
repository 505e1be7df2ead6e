"""Define options for the start of a run: ``--min-interval`` and ``--no-lease``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from deltactl.option_fields import safety_option, selection_option
from deltactl.units import DurationMs

_DRY_RUNS: Final = ("check", "dry_run")
_OTHER_TASKS: Final = ("cleanup_only", "forget_clone", "purge_quarantine", "repair", "undo")


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """When a run may start."""

    min_interval_ms: DurationMs | None = selection_option(
        None,
        "Minimum time since the start of the last successful run of this command on the table. If "
        "less time has passed, deltactl does nothing",
        default="always run",
        is_settable=True,
    )
    lease: bool = safety_option(
        True, "Ignore leases: run even if another run of this command is working on the table"
    )


def is_dry_run(params: Mapping[str, Any]) -> bool:
    """Return whether the run changes nothing and needs no lease."""
    return any(params.get(name) for name in _DRY_RUNS)


def is_other_task(params: Mapping[str, Any]) -> bool:
    """Return whether the run does not do the main task of the command, but e.g. an undo."""
    return any(params.get(name) for name in _OTHER_TASKS)
