"""Options of ``maintain``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from deltactl.errors import UsageError
from deltactl.operations.maintain.budget import Budget, to_budget
from deltactl.operations.maintain.policy import ACTIONS, ActionName, to_actions
from deltactl.option_fields import ensure_declared, execution_option, selection_option
from deltactl.option_names import option
from deltactl.units import SizeBytes


@dataclass(frozen=True, slots=True)
class MaintainOptions:
    """Parsed options of ``maintain``, for all its tables; ``jobs`` of them at a time."""

    only: Annotated[frozenset[ActionName], to_actions] | None = selection_option(
        None,
        f"Run only these actions, separated by commas. Possible values: {','.join(ACTIONS)}. "
        "Actions that the policy does not enable never run",
        metavar="ACTIONS",
        is_basic=True,
    )
    budget: Annotated[Budget, to_budget] = execution_option(
        Budget(),
        "Limit for all tables together: input bytes (20GiB), time (30min) or requests "
        "(5000requests). May be repeated",
        metavar="LIMIT",
        is_settable=True,
        is_repeated=True,
        is_basic=True,
    )
    jobs: int = 1
    lease: bool = execution_option(
        True, "Ignore leases: run even if another run is working on a table"
    )
    memory_bytes: SizeBytes | None = execution_option(
        None,
        "Memory limit of the process",
        flag="memory",
        default="half of the memory of the machine or cgroup",
        is_settable=True,
        least=1,
    )

    def __post_init__(self) -> None:
        """Refuse invalid values.

        Raises:
            UsageError: naming the option.
        """
        ensure_declared(self)
        if self.jobs < 1:
            raise UsageError(f"{option('jobs')} must be at least 1")
        if self.only is not None and not self.only:
            raise UsageError(f"{option('only')} needs at least one action")
