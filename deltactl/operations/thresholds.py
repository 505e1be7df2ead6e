"""Parse thresholds of ``--if-needed``: the minimum work of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.errors import UsageError
from deltactl.option_fields import ensure_declared, to_pairs
from deltactl.units import format_count, format_size, parse_size

_SHARE: Final = re.compile(r"0|1|1\.0|0?\.[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Need:
    """Minimum work of a run: reaching any one threshold is enough; sizes in bytes.

    ``skip``: a run is needed if lookups by some clustering column skip a smaller share of files.
    """

    files: int | None = None
    size_bytes: int | None = None
    commits: int | None = None
    skip: float | None = None

    def __post_init__(self) -> None:
        ensure_declared(self)

    def find_shortfall(
        self, *, files: int = 0, size_bytes: int = 0, commits: int = 0, skip: float | None = None
    ) -> str | None:
        """Return the pending work and the thresholds as text if none is reached, else ``None``.

        ``skip`` is the lowest share of all columns; unknown shares need a run.
        """
        pairs = (
            (self.files, files, lambda n: format_count(n, "file", "files")),
            (self.size_bytes, size_bytes, format_size),
            (self.commits, commits, lambda n: format_count(n, "commit", "commits")),
        )
        asked = [(least, there, say) for least, there, say in pairs if least is not None]
        short = [f"{say(there)} (threshold: {say(least)})" for least, there, say in asked]
        is_reached = any(there >= least for least, there, _ in asked)
        if self.skip is not None:
            is_reached |= skip is None or skip < self.skip
            short.append(
                f"lookups skip {skip or 0:.0%} of the files (threshold: below {self.skip:.0%})"
            )
        return None if is_reached or not short else " and ".join(short)


def need_of(*known: str) -> Callable[[Need | Sequence[str]], Need]:
    """Return a function that parses the thresholds that an operation has.

    They are some of ``files=N``, ``size=SIZE``, ``commits=N`` and ``skip=SHARE``.
    """

    def to_need(need: Need | Sequence[str]) -> Need:
        if isinstance(need, Need):
            return need
        pairs = to_pairs(need)
        for key in pairs:
            if key not in known:
                raise UsageError(
                    f"this command has no threshold {key!r}",
                    hint=f"Use one of: {', '.join(known)}.",
                )
        if len(pairs) < len(need):
            raise UsageError("a threshold is given twice", hint="Give each threshold once.")
        size = pairs.get("size")
        return Need(
            files=_parse_count("files", pairs.get("files")),
            size_bytes=None if size is None else parse_size(size),
            commits=_parse_count("commits", pairs.get("commits")),
            skip=_parse_share("skip", pairs.get("skip")),
        )

    return to_need


def _parse_share(key: str, text: str | None) -> float | None:
    if text is None:
        return None
    if not _SHARE.fullmatch(text):
        raise UsageError(
            f"{key}={text}: {text!r} is not a number from 0 to 1",
            hint=f"Write a share of the files, such as {key}=0.5 for half of them.",
        )
    return float(text)


def _parse_count(key: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise UsageError(f"{key}={text}: {text!r} is not a whole number")
    return int(text)
