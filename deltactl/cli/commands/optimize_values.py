"""Parse the values of options of ``deltactl optimize``."""

from __future__ import annotations

import re
from typing import Final

from deltactl.cli.parsing.suggest import with_suggestion
from deltactl.cli.session import Session
from deltactl.errors import UsageError
from deltactl.operations.optimize.options import CODEC_LEVELS
from deltactl.units import parse_duration, parse_size

LAST_RUN: Final = "last-run"
_LEVEL: Final = re.compile(r"-?[0-9]{1,20}")


def parse_since(session: Session, table: str, text: str | None) -> tuple[int | None, str | None]:
    """Return the version to start after (``None``: all) and the table id, if it is known.

    Raises:
        UsageError: it is neither a version nor ``last-run``.
    """
    if text is None:
        return None, None
    if text == LAST_RUN:
        from deltactl.operations.leases import read_last_run

        last = read_last_run(session.open_store(table, read_only=True), "optimize")
        return (None, None) if last is None else (last.caught_up_version, last.table_id)
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"--since-version {text!r} is neither a version nor {LAST_RUN}")
    return int(text), None


def parse_optional_size(text: str | None) -> int | None:
    """Return a size in bytes; ``None`` without one.

    Raises:
        UsageError: it is no size.
    """
    return None if text is None else parse_size(text)


def parse_codec(text: str | None) -> tuple[str | None, int | None]:
    """Return the codec and the level of ``NAME`` or ``NAME:LEVEL``; ``None`` if not given.

    Raises:
        UsageError: the codec is not known, or the level is no number.
    """
    if text is None:
        return None, None
    name, colon, level = text.lower().partition(":")
    if name == "uncompressed":
        name = "none"
    if name not in CODEC_LEVELS or (colon and not _LEVEL.fullmatch(level)):
        known = ", ".join(CODEC_LEVELS)
        message = f"--codec {text!r} is not NAME or NAME:LEVEL"
        raise UsageError(with_suggestion(message, name, CODEC_LEVELS), hint=f"Use one of: {known}.")
    return name, int(level) if level else None


def parse_commit_every(texts: list[str]) -> tuple[int | None, int | None]:
    """Return a time in ms and a size in bytes; each may be given once.

    Raises:
        UsageError: there are two times or two sizes, or a text is neither.
    """
    times: list[int] = []
    sizes: list[int] = []
    for text in texts:
        try:
            times.append(parse_duration(text))
        except UsageError:
            sizes.append(parse_size(text))
    if len(times) > 1 or len(sizes) > 1:
        raise UsageError("--commit-every accepts at most one time and one size")
    return (times or [None])[0], (sizes or [None])[0]  # type: ignore[list-item]
