"""The storage option that is deltactl's own: how often a store may be asked."""

from __future__ import annotations

from typing import Final

from deltactl.errors import UsageError

RATE_OPTION: Final = "max_requests_per_second"


def parse_rate(value: object) -> float | None:
    """Read a number of requests a second.

    Raises:
        UsageError: it is no number above zero.
    """
    if value is None:
        return None
    try:
        rate = float(str(value))
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise UsageError(f"{value!r} is no number of requests a second", hint="write 200, or 0.5")
    return rate
