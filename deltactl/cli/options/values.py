"""Parse the values of ``--if-needed``, ``--property`` and of options for times."""

from __future__ import annotations

from collections.abc import Sequence

from deltactl.errors import UsageError
from deltactl.operations.thresholds import Need, need_of
from deltactl.units import parse_duration, parse_timestamp


def parse_need(
    texts: Sequence[str] | None, known: Sequence[str] = ("files", "size")
) -> Need | None:
    """Parse thresholds."""
    return need_of(*known)(texts) if texts else None


def parse_time(text: str, now_ms: int) -> int:
    """Parse a timestamp, or a duration before now, to ms since 1970 UTC.

    Raises:
        UsageError: it is neither.
    """
    try:
        return now_ms - parse_duration(text)
    except UsageError:
        return parse_timestamp(text)


def parse_properties(pairs: Sequence[str]) -> dict[str, str]:
    """Parse the values of ``--property``, each ``KEY=VALUE``.

    Raises:
        UsageError: one is not.
    """
    properties: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--property {pair!r} is not KEY=VALUE")
        properties[key.strip()] = value
    return properties
