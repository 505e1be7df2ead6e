"""Options of ``maintain``, and its budget."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Annotated, Any, Final

from deltactl.clock import Clock
from deltactl.errors import UsageError
from deltactl.operations.maintain.policy import ACTIONS, ActionName, to_actions
from deltactl.option_fields import ensure_declared, execution_option, selection_option
from deltactl.option_names import option
from deltactl.units import (
    SizeBytes,
    format_count,
    format_duration,
    format_size,
    parse_size,
    to_duration_ms,
    to_timedelta,
)

_REQUESTS: Final = re.compile(r"(\d{1,15})\s*requests?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run; ``None``: no limit.

    ``bytes`` are bytes of data files and log files to read, as in ``optimize --max-bytes``;
    ``time`` counts from the start of the run; ``requests`` are those to object stores.
    """

    bytes: int | None = None
    time: timedelta | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        ensure_declared(self)
        for it in fields(self):
            value = getattr(self, it.name)
            if value is not None and value < type(value)(0):
                raise UsageError(f"{it.name} must not be negative; got {value!r}")

    def __str__(self) -> str:
        parts = []
        if self.bytes is not None:
            parts.append(format_size(self.bytes))
        if self.time is not None:
            parts.append(format_duration(to_duration_ms(self.time)))
        if self.requests is not None:
            parts.append(format_count(self.requests, "request"))
        return ", ".join(parts) or "no limit"


def to_budget(limits: Budget | Sequence[str]) -> Budget:
    """Return limits such as ``20GiB``, ``30min`` and ``5000requests``; each kind at most once.

    Raises:
        UsageError: a text is not valid, or a kind is given twice.
    """
    if isinstance(limits, Budget):
        return limits
    found: dict[str, Any] = {}
    for text in limits:
        kind, amount = _parse_limit(text.strip())
        if kind in found:
            raise UsageError(
                f"{text!r}: a limit for {kind} was already given",
                hint="Give at most one size, one time and one number of requests.",
            )
        found[kind] = amount
    return Budget(**found)


def _parse_limit(text: str) -> tuple[str, Any]:
    if match := _REQUESTS.fullmatch(text):
        return "requests", int(match[1])
    try:
        return "time", to_timedelta(text)
    except UsageError:
        pass
    try:
        return "bytes", parse_size(text)
    except UsageError as error:
        raise UsageError(
            f"{text!r} is not a size, a time or a number of requests",
            hint="Write 20GiB, 30min or 5000requests.",
        ) from error


class Spending:
    """The used part of the budget of a run; safe to share between threads."""

    def __init__(self, budget: Budget, clock: Clock) -> None:
        self.budget, self._clock = budget, clock
        self._began = clock.monotonic()
        self._lock = threading.Lock()
        self._bytes = self._requests = 0

    @property
    def bytes_left(self) -> int | None:
        """Return the remaining bytes; ``None`` without a limit."""
        with self._lock:
            return _left(self.budget.bytes, self._bytes)

    @property
    def requests_left(self) -> int | None:
        """Return the remaining requests; ``None`` without a limit."""
        with self._lock:
            return _left(self.budget.requests, self._requests)

    @property
    def seconds_left(self) -> float | None:
        """Return the remaining seconds; ``None`` without a limit."""
        limit = self.budget.time
        if limit is None:
            return None
        return max(limit.total_seconds() - (self._clock.monotonic() - self._began), 0.0)

    @property
    def is_time_over(self) -> bool:
        """Return whether the time is used up."""
        return self.seconds_left == 0

    def add(self, *, bytes_read: int, requests: int) -> None:
        """Add the cost of an action."""
        with self._lock:
            self._bytes += bytes_read
            self._requests += requests

    def find_used_up(self, bytes_read: int, requests: int) -> str | None:
        """Return the reason why an action of this size may not begin; ``None`` if it may."""
        left_bytes, left_requests = self.bytes_left, self.requests_left
        if self.is_time_over:
            return f"the time of {self.budget} is used up"
        if left_bytes is not None and bytes_read > left_bytes:
            return f"the bytes of {self.budget} are used up"
        if left_requests is not None and requests and left_requests == 0:
            return f"the requests of {self.budget} are used up"
        return None


def _left(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(limit - used, 0)


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
        ensure_declared(self)
        if self.jobs < 1:
            raise UsageError(f"{option('jobs')} must be at least 1")
        if self.only is not None and not self.only:
            raise UsageError(f"{option('only')} needs at least one action")
