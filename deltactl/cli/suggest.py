"""What a wrong word was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Give the known word that is most like ``word``, whatever its case, if one is like it."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    lowered = word.lower()
    matches = get_close_matches(lowered, by_lower, n=1, cutoff=0.6)
    # A start is as good as a slip: "loc" is far from "local" by letters.
    starts = [name for name in by_lower if lowered and name.startswith(lowered)]
    nearest = matches or (starts if len(starts) == 1 else [])
    return by_lower[nearest[0]] if nearest else None


def suggest(word: str, known: Iterable[str]) -> str:
    """Give `` Did you mean '...'?`` to put behind a message, or nothing."""
    nearest = find_nearest(word, known)
    return "" if nearest is None else f" Did you mean {nearest!r}?"
