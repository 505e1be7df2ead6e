"""Parse the values of ``--if-needed``, ``--property`` and of options for times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from deltactl.cli.options.common import parse_pairs
from deltactl.errors import UsageError
from deltactl.units import parse_duration, parse_size, parse_timestamp

if TYPE_CHECKING:
    from deltactl.operations.thresholds import Need


_SHARE: Final = re.compile(r"0|1|1\.0|0?\.[0-9]{1,9}")


def parse_need(
    texts: Sequence[str] | None, known: Sequence[str] = ("files", "size")
) -> Need | None:
    """Parse ``files=N``, ``size=SIZE``, ``commits=N``, ``skip=SHARE``; commands accept some.

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
                f"--if-needed {key}: this command has no threshold {key!r}",
                hint=f"Use one of: {', '.join(known)}.",
            )
    size = pairs.get("size")
    return Need(
        files=_parse_count("files", pairs.get("files")),
        size_bytes=None if size is None else parse_size(size),
        commits=_parse_count("commits", pairs.get("commits")),
        skip=_parse_share("skip", pairs.get("skip")),
    )


def _parse_share(key: str, text: str | None) -> float | None:
    """Return a share from 0 to 1; ``None`` if it is not given."""
    if text is None:
        return None
    if not _SHARE.fullmatch(text):
        raise UsageError(
            f"--if-needed {key}={text}: {text!r} is not a number from 0 to 1",
            hint=f"Write a share of the files, such as {key}=0.5 for half of them.",
        )
    return float(text)


def _parse_count(key: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"--if-needed {key}={text}: {text!r} is not a whole number")
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
