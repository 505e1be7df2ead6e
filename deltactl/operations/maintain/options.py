"""Options of ``maintain``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deltactl.errors import UsageError
from deltactl.operations.maintain.budget import Budget
from deltactl.operations.maintain.policy import ActionName


@dataclass(frozen=True, slots=True)
class MaintainOptions:
    """Parsed options of ``maintain``, for all its tables.

    ``only`` are the actions of this run, of those that a table's policy has on; ``None``: all.
    ``budget`` holds over all tables. ``jobs`` tables are processed at a time. ``lease``: exclude
    other runs. ``memory_bytes`` is the memory limit of the process. ``rates_file`` holds the
    measured rates; ``None``: the defaults are used, and nothing is remembered.
    """

    only: frozenset[ActionName] | None = None
    budget: Budget = field(default_factory=Budget)
    jobs: int = 1
    lease: bool = True
    memory_bytes: int | None = None
    rates_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse invalid values.

        Raises:
            UsageError: naming the option.
        """
        if self.jobs < 1:
            raise UsageError("--jobs must be at least 1")
        if self.only is not None and not self.only:
            raise UsageError("--only needs at least one action")
