"""Times as options give them."""

from __future__ import annotations

from deltactl.errors import UsageError
from deltactl.units import parse_duration, parse_timestamp


def parse_time(text: str, now_ms: int) -> int:
    """An instant, or a duration before now, in ms since 1970 UTC.

    Raises:
        UsageError: it is neither.
    """
    try:
        return now_ms - parse_duration(text)
    except UsageError:
        return parse_timestamp(text)
