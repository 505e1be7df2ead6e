"""Options of ``maintain``."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltactl.errors import UsageError
from deltactl.operations.maintain.budget import Budget
from deltactl.operations.maintain.policy import ActionName
from deltactl.option_names import option
from deltactl.units import SizeBytes


@dataclass(frozen=True, slots=True)
class MaintainOptions:
    """Parsed options of ``maintain``, for all its tables.

    ``only``: the actions of this run, if the policy of a table enables them; ``None``: all.
    ``budget`` applies to all tables together. ``jobs`` tables are processed at a time. ``lease``:
    exclude other runs. ``memory_bytes`` is the memory limit of the process.
    """

    only: frozenset[ActionName] | None = None
    budget: Budget = field(default_factory=Budget)
    jobs: int = 1
    lease: bool = True
    memory_bytes: SizeBytes | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values.

        Raises:
            UsageError: naming the option.
        """
        if self.jobs < 1:
            raise UsageError(f"{option('jobs')} must be at least 1")
        if self.only is not None and not self.only:
            raise UsageError(f"{option('only')} needs at least one action")
