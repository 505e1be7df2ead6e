"""Parse the values of ``--if-needed``, ``--property`` and of options for times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltactl.cli.options.common import parse_pairs
from deltactl.errors import UsageError
from deltactl.units import parse_duration, parse_size, parse_timestamp

if TYPE_CHECKING:
    from deltactl.operations.thresholds import Need


def parse_need(
    texts: Sequence[str] | None, known: Sequence[str] = ("files", "size")
) -> Need | None:
    """Parse ``files=N``, ``size=SIZE`` and ``commits=N``; each command accepts some of them.

    Raises:
        UsageError: a name is not accepted here, or a number is invalid.
    """
    if not texts:
        return None
    from deltactl.operations.thresholds import Need

    pairs = parse_pairs("--if-needed", texts)
    for key in pairs:
        if key not in known:
            raise UsageError(
                f"--if-needed {key}: this command has no such measure",
                hint=f"Use one of: {', '.join(known)}.",
            )
    size = pairs.get("size")
    return Need(
        files=_parse_count("files", pairs.get("files")),
        size_bytes=None if size is None else parse_size(size),
        commits=_parse_count("commits", pairs.get("commits")),
    )


def _parse_count(key: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"--if-needed {key}={text}: that is not a number")
    return int(text)


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
